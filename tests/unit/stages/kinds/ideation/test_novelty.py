"""What counts as new, and what a request itself calls old."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.kinds.idea import Idea, idea_of
from stages.kinds.ideation.earlier_ideas import earlier_ideas
from stages.kinds.ideation.novelty import nearest, similarity

CALIBRATION = "Label smoothing of 0.1 lowers the expected calibration error on the digits data set."


@pytest.mark.parametrize(
    "text",
    [
        "Using label-smoothing of 0.1, lower expected calibration errors on digits data sets are obtained!",
        "LABEL SMOOTHING of 0.1 lowers the expected   calibration error on the digits data set",
        "On the digits data set, label smoothing of 0.1 lowers expected calibration error",
        "On the digits dataset, labelsmoothing of 0.1 lowers the expected calibration-error",
        "Label smoothing of 0.1 raises the expected calibration error on the digits data set",
    ],
)
def test_the_same_claim_in_other_words_is_no_new_idea(text: str) -> None:
    found = nearest(idea_of(text), [idea_of("Dropout improves accuracy on wine"), idea_of(CALIBRATION)])
    assert found is not None
    assert found.is_the_same
    assert found.title == CALIBRATION


@pytest.mark.parametrize(
    "text",
    [
        "Label smoothing of 0.1 lowers the expected calibration error on the wine data set.",
        "Label smoothing of 0.1 lowers the Brier score on the digits data set.",
        "Label smoothing of 0.2 lowers the expected calibration error on the digits data set.",
        "Dropout of 0.1 lowers the root mean squared error on diabetes.",
        "Label smoothing raises the training time on wine.",
        "Warm-up and larger batches reduce the variance between seeds.",
    ],
)
def test_another_claim_is_a_new_idea(text: str) -> None:
    found = nearest(idea_of(text), [idea_of(CALIBRATION)])
    assert found is not None
    assert not found.is_the_same


def test_an_idea_under_an_old_title_is_no_new_idea() -> None:
    one = Idea(title="Calm training with averaged weights", short_hypothesis="Averaging improves accuracy.")
    two = Idea(title="Calm training with averaged weights", short_hypothesis="Seeds vary less on iris.")
    found = nearest(two, [one])
    assert found is not None
    assert found.is_the_same
    assert nearest(one, []) is None


@given(st.text(), st.text())
def test_similarity_is_the_same_both_ways_and_one_with_itself(one: str, other: str) -> None:
    first, second = idea_of(one), idea_of(other)
    assert similarity(first, second) == similarity(second, first)
    assert 0.0 <= similarity(first, second) <= 1.0
    assert similarity(first, first) in (0.0, 1.0)


def test_only_lines_that_say_so_and_the_lists_below_them_are_old() -> None:
    context = (
        "We care for calibration. Small nets only.\n"
        "Already tried: dropout on wine; mix-up on iris\n"
        "\n"
        "Published before, please not again:\n"
        "- Adam beats SGD on digits.\n"
        "2) weight decay lowers the RMSE\n"
        "\n"
        "- early stopping is what we want\n"
    )
    assert [idea.short_hypothesis for idea in earlier_ideas(context)] == [
        "dropout on wine", "mix-up on iris", "Adam beats SGD on digits.", "weight decay lowers the RMSE",
    ]  # fmt: skip
    assert earlier_ideas("") == []
