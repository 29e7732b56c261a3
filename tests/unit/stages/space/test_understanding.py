"""What is read out of a hypothesis, in words that people use."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.idea import Idea, idea_of
from events.runtime.errors import PipelineError
from stages.space.data_sets import SHIPPED
from stages.space.interventions import INTERVENTIONS
from stages.space.understanding import Understood, file_named_in, understand

HYPOTHESES = Path(__file__).resolve().parents[4] / "stages/experiment/hypotheses"
UP, DOWN = "increase", "decrease"
SECONDS = "training_seconds"


def read(text: str) -> tuple[str, str, str, str]:
    """Return intervention, metric, direction and data set."""
    understood = understand(idea_of(text))
    claim = understood.claim
    return understood.intervention.name, claim.metric.name, claim.direction, claim.data.name


def noted(understood: Understood) -> str:
    return " ".join(understood.claim.notes)


@pytest.mark.parametrize(
    ("text", *("intervention", "metric", "direction", "data")),
    [
        ("Label smoothing improves calibration on digits", "label_smoothing", "ece", DOWN, "digits"),
        ("The calibration error shrinks when labels are smoothed", "label_smoothing", "ece", DOWN, "digits"),
        ("Dropout hurts accuracy on the wine data set", "dropout", "accuracy", DOWN, "wine"),
        ("Adding weight decay lowers the RMSE on diabetes", "weight_decay", "rmse", DOWN, "diabetes"),
        ("L2 regularisation reduces the error on diabetes", "weight_decay", "rmse", DOWN, "diabetes"),
        ("Batch normalization speeds up training", "batch_normalisation", SECONDS, DOWN, "digits"),
        ("Layer norm lets networks train slower on iris", "layer_normalisation", SECONDS, UP, "iris"),
        ("Mixup increases accuracy for breast cancer", "mix_up", "accuracy", UP, "breast_cancer"),
        ("A wider network improves test accuracy on iris", "wider", "accuracy", UP, "iris"),
        ("Networks with 512 hidden units are more accurate on digits", "wider", "accuracy", UP, "digits"),
        ("Halving the width costs accuracy on digits", "narrower", "accuracy", DOWN, "digits"),
        ("Smaller networks have fewer parameters on iris", "narrower", "parameters", DOWN, "iris"),
        ("Doubling the depth hurts accuracy on wine", "deeper", "accuracy", DOWN, "wine"),
        ("Accuracy on wine falls with six layers", "deeper", "accuracy", DOWN, "wine"),
        ("A single hidden layer has a better Brier score on wine", "shallower", "brier", DOWN, "wine"),
        ("A cosine schedule reduces the negative log-likelihood", "cosine_schedule", "nll", DOWN, "digits"),
        ("Decaying the learning rate helps on iris", "learning_rate_schedule", "accuracy", UP, "iris"),
        ("Learning rate warm-up helps", "warm_up", "accuracy", UP, "digits"),
        ("Gaussian noise worsens the Brier score on wine", "noise_augmentation", "brier", UP, "wine"),
        ("Random shifts reduce classification error", "shift_augmentation", "accuracy", UP, "digits"),
        ("Data augmentation makes fewer mistakes on digits", "shift_augmentation", "accuracy", UP, "digits"),
        ("Increasing the batch size speeds up training on iris", "larger_batches", SECONDS, DOWN, "iris"),
        ("Mini-batches of 8 give a lower test loss on wine", "smaller_batches", "nll", DOWN, "wine"),
        ("Ensembles of five networks are better calibrated on wine", "ensemble", "ece", DOWN, "wine"),
        ("Networks with dropout are poorly calibrated on wine", "dropout", "ece", UP, "wine"),
        ("Wider networks take longer to train on digits", "wider", SECONDS, UP, "digits"),
        ("With dropout miscalibration grows on iris", "dropout", "ece", UP, "iris"),
        ("Training twice as long raises overconfidence on wine", "longer_training", "ece", UP, "wine"),
        ("On wine, RMSprop trains to a higher accuracy", "rmsprop", "accuracy", UP, "wine"),
        ("Averaging predictions cuts the NLL on iris", "ensemble", "nll", DOWN, "iris"),
        ("Dropout reduces the loss on diabetes", "dropout", "rmse", DOWN, "diabetes"),
        ("Dropout increases performance on diabetes", "dropout", "rmse", DOWN, "diabetes"),
        ("Dropout reduces overfitting on wine", "dropout", "accuracy", UP, "wine"),
    ],
)  # fmt: skip
def test_a_sentence_becomes_a_measurable_claim(
    text: str, intervention: str, metric: str, direction: str, data: str
) -> None:
    assert read(text) == (intervention, metric, direction, data)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Switching from SGD to AdamW increases accuracy", "AdamW instead of plain SGD"),
        ("Replacing plain SGD with Adam increases accuracy", "Adam instead of plain SGD"),
        ("SGD is replaced by Adam and accuracy rises", "Adam instead of plain SGD"),
        ("Swapping ReLU for GELU increases accuracy", "GELU instead of ReLU"),
        ("Compared with SGD, Adam has a higher accuracy", "Adam instead of plain SGD"),
        ("Unlike SGD, Adam reaches a higher accuracy", "Adam instead of plain SGD"),
        ("Accuracy is higher with Adam than with SGD", "Adam instead of plain SGD"),
        ("LayerNorm beats BatchNorm", "layer normalisation instead of batch normalisation"),
        ("Smaller batches are better than larger batches", "smaller batches instead of larger batches"),
    ],
)
def test_what_is_compared_with_is_the_baseline(text: str, title: str) -> None:
    understood = understand(idea_of(text))
    assert understood.intervention.title == title
    assert (understood.claim.metric.name, understood.claim.direction) == ("accuracy", UP)


@pytest.mark.parametrize(
    "text",
    [
        "Removing dropout lowers accuracy", "Accuracy suffers without dropout",
        "Less dropout means lower accuracy",
        "Accuracy drops when dropout is removed from networks", "No dropout, worse accuracy",
    ],
)  # fmt: skip
def test_what_is_taken_away_is_in_the_baseline(text: str) -> None:
    understood = understand(idea_of(text))
    assert understood.intervention.off["dropout"] == 0.25
    assert understood.intervention.strengths == ({"dropout": 0.0},)
    assert (understood.claim.metric.name, understood.claim.direction) == ("accuracy", DOWN)


@pytest.mark.parametrize(
    ("text", "metric", "direction"),
    [
        ("Warm-up prevents divergence and improves accuracy", "accuracy", UP),
        ("Dropout prevents a loss of accuracy", "accuracy", UP),
        ("Dropout mitigates the increase in NLL", "nll", DOWN),
        ("Dropout increases accuracy and reduces NLL", "accuracy", UP),
        ("Accuracy rises and NLL falls with dropout", "accuracy", UP),
        ("Batch norm trains faster and reaches higher accuracy", "training_seconds", DOWN),
        ("Temperature scaling improves calibration without hurting accuracy", "ece", DOWN),
        ("While dropout improves accuracy, it slows training", "accuracy", UP),
        ("With the number of parameters fixed, dropout improves accuracy", "accuracy", UP),
        ("Early stopping reduces training time but does not reduce accuracy", "training_seconds", DOWN),
        ("Dropout makes errors rarer", "accuracy", UP),
        ("Dropout increases the training throughput", "training_seconds", DOWN),
        ("Ensembling doubles the training time", "training_seconds", UP),
        ("Temperature scaling halves the ECE", "ece", DOWN),
        ("Overconfident networks benefit from label smoothing", "ece", DOWN),
    ],
)
def test_each_word_of_direction_goes_with_its_own_measure(text: str, metric: str, direction: str) -> None:
    claim = understand(idea_of(text)).claim
    assert (claim.metric.name, claim.direction) == (metric, direction)


@pytest.mark.parametrize(
    ("text", "strengths"),
    [
        ("Dropout of 30% helps", [{"dropout": 0.3}]),
        ("A dropout rate of 0.4 helps", [{"dropout": 0.4}]),
        ("Mixup (alpha = 0.2) helps", [{"mix_up": 0.2}]),
        ("Weight decay of 1e-4 helps", [{"weight_decay": 0.0001}]),
        ("Weight decay 5e-3 helps", [{"weight_decay": 0.005}]),
        ("512 hidden units help", [{"width": 512}]),
        ("A batch size of 128 helps", [{"batch_size": 128}]),
        ("Increasing the batch size to 256 helps", [{"batch_size": 256}]),
        ("An ensemble of five networks helps", [{"members": 5}]),
        ("A five-member ensemble helps", [{"members": 5}]),
        ("Increasing dropout from 0 to 0.5 helps", [{"dropout": 0.5}]),
        ("Input noise (sigma 0.1) helps", [{"noise": 0.1}]),
    ],
)
def test_a_strength_that_is_named_is_the_one_that_is_tried(text: str, strengths: object) -> None:
    assert list(understand(idea_of(text)).intervention.strengths) == strengths


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("Dropout helps with only 100 training examples of digits", 100),
        ("Trained on 1,000 images of faces, no, 60 images, dropout helps", None),
        ("Dropout helps when training data are scarce (50 samples of digits)", 50),
        ("Dropout helps on 10% of the training data of digits", 180),
        ("Dropout helps with 40 labels", 40),
        ("Dropout helps on digits where labels are scarce", 299),
        ("Dropout improves accuracy on digits by 2 percentage points", None),
        ("Dropout helps with mini-batches of 64 examples", None),
        ("Dropout helps on small images and small data sets such as wine", None),
        ("Dropout helps on small data sets", 299),
        ("Dropout helps with 3 examples", 10),
    ],
)
def test_few_examples_are_few_rows_to_train_on(text: str, rows: int | None) -> None:
    assert understand(idea_of(text)).claim.train_examples == rows


def test_the_specification_chooses_the_data_before_the_words() -> None:
    idea = idea_of("Dropout improves accuracy on wine")
    assert understand(idea, SHIPPED["iris"]).claim.data.name == "iris"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Dropout", "names no metric; accuracy is measured. The idea names no direction"),
        ("Dropout helps", "names no data set; digits is used"),
        ("Dropout improves accuracy on wine and iris", "also names iris; only wine is used"),
        ("Dropout improves accuracy and calibration", "also names expected calibration error; the verdict"),
        ("Mixup with label smoothing helps", "also names label smoothing; only the first is tested"),
        ("Dropout of 0.95 helps", "names 0.95 for dropout; what is tried instead: dropout 0.1"),
        ("Dropout helps generalisation", "speaks of quality in general; accuracy is measured"),
        ("Without dropout accuracy is lower", "takes something away: the baseline has dropout 0.25"),
        ("Dropout helps with 5000 examples of digits", "there are 718 to train on, and all are used"),
        ("Dropout helps where labels are scarce", "speaks of few examples; 299 are trained on"),
    ],
)  # fmt: skip
def test_what_is_filled_in_or_left_out_is_noted(text: str, words: str) -> None:
    assert words in noted(understand(idea_of(text)))


REFUSED = {
    "Bananas improve accuracy": "names no intervention",
    "The Lion optimiser beats Adam on digits": "names Adam as what it compares with, and nothing",
    "Dropout improves accuracy on ImageNet": "'imagenet' is not at hand",
    "Dropout improves accuracy on MNIST digits": "'mnist' is not at hand",
    "Dropout improves accuracy on wine quality": "'wine quality' is not at hand",
    "Dropout improves the BLEU score": "about 'bleu'",
    "Momentum speeds up convergence": "about 'convergence'",
    "Dropout reduces the variance of the accuracy between seeds": "about 'variance of the accuracy'",
    "Dropout lowers the training accuracy": "about 'training accuracy'",
    "Weight decay shrinks the norm of it": "says 'shrinks' of something that is not measured",
    "Shift augmentation improves accuracy on wine": "needs images",
    "Label smoothing improves the RMSE on diabetes": "needs classes",
    "Dropout improves calibration on diabetes": "needs classes",
    "Dropout lowers the RMSE on wine": "needs a regression data set",
    "Dropout improves accuracy on houses.csv": "the file houses.csv: give it as `dataset`",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_measured_is_told_with_what_can_and_with_what_lifts_the_limit(text: str) -> None:
    with pytest.raises(PipelineError) as caught:
        understand(idea_of(text))
    assert caught.value.code == "CONFIG"
    for said in (REFUSED[text], "Known interventions: dropout,", "accuracy", "digits", "OPENAI_API_KEY"):
        assert said in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "Dropout makes no difference to accuracy", "Mixup does not improve accuracy on wine",
        "Gradient clipping has no effect on accuracy", "Training twice as long doesn't help on iris",
    ],
)  # fmt: skip
def test_a_claim_that_nothing_changes_cannot_be_shown_and_is_refused_so(text: str) -> None:
    with pytest.raises(PipelineError, match="never its absence"):
        understand(idea_of(text))


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("Dropout improves accuracy on /data/houses.csv", "/data/houses.csv"),
        ("On `prices/2024.parquet#price`, dropout lowers the RMSE.", "prices/2024.parquet#price"),
        ("Dropout helps on (rows.csv.gz).", "rows.csv.gz"),
        ("Dropout helps on A.NPZ", "A.NPZ"),
        ("Dropout helps on csv files", None),
        ("Dropout helps on notes.csvx", None),
    ],
)
def test_a_file_of_data_is_found_in_the_words(text: str, file: str | None) -> None:
    assert file_named_in(idea_of(text)) == file


def test_the_title_and_the_abstract_complete_what_the_hypothesis_leaves_open() -> None:
    claim = understand(
        Idea(
            short_hypothesis="Dropout helps.", title="Dropout on wine", abstract="We measure the Brier score."
        )
    ).claim
    assert (claim.metric.name, claim.direction, claim.data.name) == ("brier", DOWN, "wine")


PIECES = [
    "dropout", "batch size of", "99999", "1e-9", "0.5", "%", "instead of", "than", "is removed", "no",
    "accuracy", "improves", "and", ".", "wine.csv", "examples", "SGD", "loss", "\0", "falls",
]  # fmt: skip


@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_no_text_does_anything_but_be_understood_or_refused(text: str) -> None:
    with suppress(PipelineError):
        understood = understand(Idea(short_hypothesis=text, title=text[::-1]))
        assert understood.intervention.name in INTERVENTIONS


def test_the_shipped_hypotheses_differ_in_intervention_and_metric() -> None:
    paths = sorted(HYPOTHESES.glob("*.json"))
    ideas = [msgspec.convert(json.loads(path.read_text()), Idea) for path in paths]
    found = [understand(idea) for idea in ideas]
    assert len(found) == 3
    assert len({each.intervention.name for each in found}) == 3
    assert len({each.claim.metric.name for each in found}) == 3
