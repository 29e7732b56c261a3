"""What is read out of a hypothesis, in words that people use."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from events.errors import PipelineError
from events.runs import Idea, idea_of
from stages.experiment.claim import understand

HYPOTHESES = Path(__file__).resolve().parents[4] / "stages/experiment/hypotheses"


@pytest.mark.parametrize(
    ("text", "intervention", "metric", "direction", "dataset"),
    [
        ("Label smoothing improves calibration on digits", "label_smoothing", "ece", "decrease", "digits"),
        ("Dropout hurts accuracy on the wine data set", "dropout", "accuracy", "decrease", "wine"),
        ("Adding weight decay lowers the RMSE on diabetes", "weight_decay", "rmse", "decrease", "diabetes"),
        (
            "Batch normalization speeds up training",
            "batch_normalisation",
            "training_seconds",
            "decrease",
            "digits",
        ),
        ("Mixup increases accuracy for breast cancer", "mix_up", "accuracy", "increase", "breast_cancer"),
        ("A wider network improves test accuracy on iris", "wider", "accuracy", "increase", "iris"),
        (
            "A cosine schedule reduces the negative log-likelihood",
            "cosine_schedule",
            "nll",
            "decrease",
            "digits",
        ),
        ("Learning rate warm-up helps", "warm_up", "accuracy", "increase", "digits"),
        ("Gaussian noise worsens the Brier score on wine", "noise_augmentation", "brier", "increase", "wine"),
        ("Random shifts reduce classification error", "shift_augmentation", "accuracy", "increase", "digits"),
    ],
)
def test_a_sentence_becomes_a_measurable_claim(
    text: str, intervention: str, metric: str, direction: str, dataset: str
) -> None:
    claim = understand(idea_of(text))
    assert (claim.intervention.name, claim.metric.name) == (intervention, metric)
    assert (claim.direction, claim.dataset) == (direction, dataset)


def test_the_specification_chooses_the_data_before_the_words() -> None:
    assert understand(idea_of("Dropout improves accuracy on wine"), "iris").dataset == "iris"


@pytest.mark.parametrize(
    ("text", "dataset"),
    [
        ("Bananas improve accuracy", None),
        ("Dropout improves accuracy", "imagenet"),
        ("Dropout improves the BLEU score", None),
        ("Dropout makes no difference to accuracy", None),
        ("Shift augmentation improves accuracy on wine", None),
    ],
)
def test_what_cannot_be_measured_is_told_with_what_can(text: str, dataset: str | None) -> None:
    with pytest.raises(PipelineError) as caught:
        understand(idea_of(text), dataset)
    assert caught.value.code == "CONFIG"
    assert len(caught.value.message) > 40


def test_the_shipped_hypotheses_differ_in_intervention_and_metric() -> None:
    ideas = [
        msgspec.convert(json.loads(path.read_text()), Idea) for path in sorted(HYPOTHESES.glob("*.json"))
    ]
    claims = [understand(idea) for idea in ideas]
    assert len(claims) == 3
    assert len({claim.intervention.name for claim in claims}) == 3
    assert len({claim.metric.name for claim in claims}) == 3
