"""What a claim measures: the comparison, the metric with its direction, the data; and what was filled in."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.idea import Idea, idea_of
from events.kinds.space.data_sets import SHIPPED, DataSet
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.measuring import measured
from events.kinds.space.understanding import file_named_in, understand
from events.runtime.errors import NotMeasurable

HYPOTHESES: Final = Path(__file__).resolve().parents[4] / "stages/kinds/experiment/hypotheses"
UP, DOWN = "increase", "decrease"
HOUSES: Final = replace(SHIPPED["diabetes"], name="house_prices", location="/data/house_prices.csv")


def refusal(text: str | Idea, wanted: DataSet | None = None) -> str:
    with pytest.raises(NotMeasurable) as caught:
        understand(idea_of(text), wanted)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "off", "strengths"),
    [
        ("Dropout of 0.5 is better than 0.2", {"dropout": 0.2}, [{"dropout": 0.5}]),
        ("Increasing dropout from 0 to 0.5 helps", {"dropout": 0.0}, [{"dropout": 0.5}]),
        ("Weight decay of 1e-4 helps", {"weight_decay": 0.0}, [{"weight_decay": 0.0001}]),
        ("A batch size of 128 beats a batch size of 16", {"batch_size": 16}, [{"batch_size": 128}]),
        ("Training twice as long helps", {"training_length": 1.0}, [{"training_length": 2.0}]),
        ("Halving the width helps", {"width": 64}, [{"width": 32}]),
        ("Six layers help", {"depth": 2}, [{"depth": 6}]),
        ("Removing dropout of 0.5 helps", {"dropout": 0.5}, [{"dropout": 0.0}]),
        (
            "Dropout of 0.5 beats weight decay of 0.01",
            {"dropout": 0.0, "weight_decay": 0.01},
            [{"dropout": 0.5, "weight_decay": 0.0}],
        ),
        (
            "Adam with a learning rate of 0.01 beats SGD",
            {"optimiser": "sgd", "lr": 0.1},
            [{"optimiser": "adam", "lr": 0.01}],
        ),
    ],
)
def test_what_is_said_is_what_is_tried(text: str, off: object, strengths: object) -> None:
    intervention = understand(idea_of(text)).intervention
    assert (dict(intervention.off), list(intervention.strengths)) == (off, strengths)
    assert intervention.knob is None


def test_what_replaces_another_thing_has_no_value_to_refine_beside_it() -> None:
    assert understand(idea_of("Dropout beats weight decay")).intervention.knob is None
    assert understand(idea_of("Dropout helps")).intervention.knob is not None


@pytest.mark.parametrize(
    ("text", "metric", "direction"),
    [
        ("Dropout improves calibration", "ece", DOWN),
        ("Dropout lowers calibration", "ece", UP),
        ("Dropout raises the log-likelihood", "nll", DOWN),
        ("Dropout raises the negative log-likelihood", "nll", UP),
        ("Dropout reduces the error", "accuracy", UP),
        ("Dropout reduces the error on diabetes", "rmse", DOWN),
        ("Dropout raises the loss on diabetes", "rmse", UP),
        ("Dropout raises the quality on diabetes", "rmse", DOWN),
        ("Dropout improves the training time", "training_seconds", DOWN),
        ("Dropout raises the training speed", "training_seconds", DOWN),
        ("Dropout slows training down", "training_seconds", UP),
        ("Dropout makes more mistakes", "accuracy", DOWN),
    ],
)
def test_the_direction_is_that_of_the_metrics_own_number(text: str, metric: str, direction: str) -> None:
    claim = understand(idea_of(text)).claim
    assert (claim.metric.name, claim.direction) == (metric, direction)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Dropout helps", "It names no metric; accuracy is measured. It names no data set; digits is used."),
        ("Dropout helps generalisation", "speaks of quality in general; accuracy is measured"),
    ],
)
def test_what_is_filled_in_is_told(text: str, words: str) -> None:
    assert words in " ".join(
        sorted(understand(idea_of(text)).claim.notes, key=lambda note: "data set" in note)
    )


def test_the_other_texts_of_an_idea_fill_in_what_its_claim_leaves_open() -> None:
    idea = Idea(short_hypothesis="Dropout helps.", title="Dropout on wine", abstract="The Brier score.")
    claim = understand(idea).claim
    assert (claim.metric.name, claim.direction, claim.data.name) == ("brier", DOWN, "wine")
    several = Idea(short_hypothesis="Dropout helps.", title="Dropout on wine and iris")
    assert "several: wine, iris" in refusal(several)


@pytest.mark.parametrize(
    ("beside", "note"),
    [
        ({"title": "Dropout on iris"}, "The texts beside it name iris; wine is used."),
        ({"abstract": "We train on iris."}, "The texts beside it name iris; wine is used."),
        (
            {"experiments": ["The Brier score."]},
            "The texts beside it name brier score; accuracy is measured.",
        ),
        ({"title": "Weight decay on wine"}, "The title says something else"),
        ({"title": "Dropout 0.5 against 0.2"}, "The title says something else"),
        ({"title": "Dropout with weight decay"}, "The title says something else"),
        ({"title": "Dropout of 0.9"}, "The title says something else"),
        ({"title": "Dropout hurts accuracy on wine"}, "The title says something else"),
        ({"title": "Dropout never improves accuracy"}, "The title says something else"),
        ({"title": "Dropout improves accuracy by at least 2 points"}, "The title says something else"),
        ({"title": "Dropout with 100 examples improves accuracy"}, "The title says something else"),
    ],
)
def test_what_the_other_texts_of_an_idea_contradict_is_told(beside: dict[str, Any], note: str) -> None:
    idea = Idea(short_hypothesis="Dropout of 0.5 improves accuracy on wine.", **beside)
    assert note in " ".join(understand(idea).claim.notes)


@pytest.mark.parametrize(
    "beside",
    [
        {"title": "Dropout on wine", "abstract": "Accuracy on wine and iris, and the loss."},
        {"title": "With dropout of 0.5 accuracy is higher on wine", "experiments": "The error on wine."},
        {"title": "Regularisation"},
    ],
)
def test_texts_that_agree_with_the_hypothesis_leave_no_note(beside: dict[str, Any]) -> None:
    idea = Idea(short_hypothesis="Dropout of 0.5 improves accuracy on wine.", **beside)
    assert understand(idea).claim.notes == ()


@pytest.mark.parametrize("name", ["not", "may", "by 2 points", "weight decay"])
def test_the_name_of_a_file_takes_no_word_from_the_sentence(name: str) -> None:
    data = replace(HOUSES, name=name, location=f"/data/{name}.csv")
    assert refusal(f"Dropout does improve {name} the RMSE", data)


@pytest.mark.parametrize(
    "text",
    [
        "Dropout helps on /data/old/house_prices.csv",
        "Dropout helps on house_prices.csv#rooms",
        "Dropout helps on house_prices.csv, other.csv",
    ],
)
def test_another_file_or_another_column_is_not_the_wanted_one(text: str) -> None:
    assert refusal(text, replace(HOUSES, location="/data/new/house_prices.csv", target="price"))


@pytest.mark.parametrize(
    ("text", "wanted", "words"),
    [
        ("Dropout helps on wine", SHIPPED["iris"], "It is about wine, and `dataset` names iris."),
        ("Dropout helps on wine", HOUSES, "It is about wine, and `dataset` names house prices."),
        ("Dropout helps on prices.csv", HOUSES, "It is about prices.csv, and `dataset` names house prices."),
        ("Dropout helps on 10% of the training data", HOUSES, "share of the rows of a file"),
        ("Label smoothing helps", HOUSES, "needs classes"),
        ("Dropout helps on house_prices.csv and iris.csv", HOUSES, "several files"),
        ("Dropout never helps", replace(HOUSES, name="never"), "“never” is a negation"),
    ],
)
def test_words_and_specification_must_name_the_same_data(text: str, wanted: DataSet, words: str) -> None:
    assert words in refusal(text, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "Dropout helps", "Dropout helps on my data", "Dropout helps on the house prices data set",
        "Dropout lowers the RMSE on /data/house_prices.csv",
    ],
)  # fmt: skip
def test_a_file_is_named_by_its_path_its_name_or_not_at_all(text: str) -> None:
    assert understand(idea_of(text), HOUSES).claim.data == HOUSES


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


@pytest.mark.parametrize(
    ("text", "dataset", "words"),
    [
        ("Dropout helps on wine", None, "With dropout, the accuracy on wine becomes higher."),
        ("Dropout helps", "breast cancer", "the accuracy on breast cancer becomes higher."),
        ("Dropout lowers the RMSE", "/x/houses.csv#price", "the root mean squared error on houses becomes"),
        ("Dropout lowers the RMSE on houses.csv", None, "the root mean squared error on houses becomes"),
        ("Dropout improves accuracy", "houses.csv", "the accuracy on houses becomes higher."),
        ("Dropout helps", "houses.csv", "Or, where values are predicted: With dropout, the root mean"),
    ],
)
def test_what_will_be_measured_is_said_before_any_row_is_read(
    text: str, dataset: str | None, words: str
) -> None:
    assert words in measured(idea_of(text), dataset)


@pytest.mark.parametrize(
    ("text", "arms"),
    [
        ("Without dropout accuracy is lower", "The baseline has dropout 0.25; what is tried: dropout 0."),
        ("Adam helps", "The baseline has optimiser sgd, learning rate 0.05; what is tried: optimiser adam"),
        ("Dropout helps", "what is tried: dropout 0.1; or dropout 0.25; or dropout 0.5."),
    ],
)
def test_both_arms_are_said_before_anything_is_queued(text: str, arms: str) -> None:
    assert arms in measured(idea_of(text), None)


def test_another_column_than_the_specification_names_is_refused_before_any_row_is_read() -> None:
    with pytest.raises(NotMeasurable, match=r"houses\.csv#price"):
        measured(idea_of("Dropout lowers the RMSE on houses.csv#price"), "houses.csv#rooms")


def test_what_no_task_of_a_file_can_measure_is_refused() -> None:
    with pytest.raises(NotMeasurable, match="flarb"):
        measured(idea_of("Dropout improves the flarb"), "houses.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("An ensemble of 2.5 networks helps", "whole numbers from 2 to 15, and not at 2.5"),
        (
            "A wider network of 128 beats a wider network of 100.5",
            "whole numbers from 65 to 1024, and not at 100.5",
        ),
        ("Weight decay of 0.1 is better than 1e-13", "not at 1e-13"),
        ("Dropout helps with " + "\N{CIRCLED NUMBER TWENTY ONE}" * 3_000 + " examples", "Not understood"),
        (f"Dropout helps on {'9' * 400} % of the training data", "Not understood"),
    ],
)
def test_a_number_that_cannot_be_tried_is_never_another_one(text: str, words: str) -> None:
    with pytest.raises(NotMeasurable, match=words) as caught:
        understand(idea_of(text))
    for each in caught.value.nearest:
        assert understand(idea_of(each))


def test_the_name_of_a_file_is_no_word_that_means_something_else() -> None:
    assert (
        understand(idea_of("Dropout lowers the RMSE"), replace(HOUSES, name="rmse")).claim.metric.name
        == "rmse"
    )
    losses = replace(HOUSES, name="loss table")
    assert understand(idea_of("Dropout improves the loss on the loss table"), losses).claim.data == losses


def test_a_text_without_end_is_no_claim_and_no_part_of_it_is_read_for_it() -> None:
    assert "at most 4,000 characters" in refusal("Dropout helps." + " " * 4_000 + "Not.")


@pytest.mark.parametrize("words", ["x", "1", "the", "dropout", "improves accuracy", "with a max", "·"])
def test_a_text_of_many_words_is_refused_before_they_are_read(words: str) -> None:
    text = " ".join([words] * 200)
    assert "at most 80 words" in refusal(text)


def test_numbers_without_end_are_out_of_range() -> None:
    many = "9" * 400
    for text in ("Dropout of {} helps", "Dropout helps on {}% of the training data", "Dropout 0.5 beats {}"):
        assert refusal(text.format(many))


PIECES: Final = [
    "dropout", "batch size of", "99999", "1e-9", "0.5", "%", "instead of", "than", "is removed", "no",
    "accuracy", "improves", "and", ".", "wine.csv", "examples", "SGD", "loss", "\0", "falls", "-", "not",
]  # fmt: skip


@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_no_text_does_anything_but_be_understood_or_refused(text: str) -> None:
    with suppress(NotMeasurable):
        understood = understand(Idea(short_hypothesis=text, title=text[::-1]))
        assert understood.intervention.name in INTERVENTIONS


def test_the_shipped_hypotheses_are_read_and_differ_in_intervention_and_metric() -> None:
    paths = sorted(HYPOTHESES.glob("*.json"))
    found = [understand(msgspec.convert(json.loads(path.read_text()), Idea)) for path in paths]
    assert len(found) == 3
    assert len({each.intervention.name for each in found}) == 3
    assert len({each.claim.metric.name for each in found}) == 3
