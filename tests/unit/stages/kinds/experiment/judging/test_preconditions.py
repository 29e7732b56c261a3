"""What makes a comparison no measurement of its claim, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from events.catalog import NotMeasuredCode
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.judging.preconditions import (
    ARMS_DIFFER,
    BASELINE,
    NO_EFFECT,
    Observed,
    not_measured,
    reference_means,
    unequal_effort,
)
from stages.kinds.experiment.judging.switch import beyond_switch
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.validation import Reading, Registration, judge, pairs_of

UNITS = 10
REFERENCES = {"logistic_regression": 0.92, "boosted_trees": 0.95, "small_network": 0.9}
APART = ("one", "other")


def found(
    baseline: float | None,
    intervention: float = 0.94,
    *,
    answers: Sequence[tuple[str, str]] = (APART,) * UNITS,
    differences: Sequence[str] = (),
    metric: str = "accuracy",
    naive: float = 0.1,
    references: dict[str, float] = REFERENCES,
) -> NotMeasuredCode | None:
    """Return the code for two arms whose scores move a little from unit to unit."""
    measure = METRICS[metric]
    quality = METRICS["rmse" if measure.tasks == {"regression"} else "accuracy"]

    def readings(value: float | None) -> list[Reading]:
        return [
            Reading(
                None if value is None else dict.fromkeys((metric, quality.name), value * (1 + unit / 1000)),
                naive,
            )
            for unit in range(UNITS)
        ]

    one, other = readings(baseline), readings(intervention)
    plan = Registration(measure, superior("increase"), UNITS, rows=1797, test_rows=540)
    judgement = judge(pairs_of(range(UNITS), one, other, measure), plan)
    observed = [Observed(each, references) for each in answers]
    nothing = not_measured([judgement], one, observed, differences, quality)
    return nothing.code if nothing else None


def test_two_decent_arms_that_answer_differently_are_measured() -> None:
    assert found(0.93) is None


def test_answers_that_are_the_same_in_every_unit_show_no_effect_of_the_switch() -> None:
    assert found(0.93, 0.93, answers=[("same", "same")] * UNITS) == NO_EFFECT
    assert found(0.93, answers=[("same", "same")] * (UNITS - 1) + [APART]) is None


def test_a_claim_about_time_needs_no_other_answers() -> None:
    assert found(0.93, metric="training_seconds", answers=[("same", "same")] * UNITS) is None


def test_programs_that_failed_in_every_unit_are_not_taken_for_equal() -> None:
    assert found(None, answers=[("", "")] * UNITS) is None


def test_whatever_else_differs_is_said_first() -> None:
    assert found(0.1, differences=["lr: 0.1 against 0.01"]) == ARMS_DIFFER


@pytest.mark.parametrize(
    ("baseline", "code"), [(0.152, BASELINE), (0.65, BASELINE), (0.67, None), (0.99, None)]
)
def test_a_baseline_must_gain_two_thirds_of_what_the_best_reference_gains(
    baseline: float, code: NotMeasuredCode | None
) -> None:
    """The first is that of a regularisation of 1e-5 on digits, beside which anything looks good."""
    assert found(baseline) == code


def test_errors_are_compared_the_other_way_round() -> None:
    references = {"ridge_regression": 60.0}
    assert found(75.0, 60.0, metric="rmse", naive=78.0, references=references) == BASELINE
    assert found(63.0, 60.0, metric="rmse", naive=78.0, references=references) is None


def test_references_that_learn_nothing_are_none() -> None:
    assert found(0.1, references={"boosted_trees": 0.1}) is None
    assert found(0.1, references={}) is None


def test_a_reference_that_lacks_in_one_unit_is_left_out() -> None:
    observed = [
        Observed(APART, {"ridge_regression": 1.0, "small_network": 2.0}),
        Observed(APART, {"ridge_regression": 3.0}),
    ]
    assert reference_means(observed) == {"ridge_regression": 2.0}


B6 = """
PARAMS = {"C": 0.053, "squares": "off"}
def run(task):
    C = %s
    return fitted(task, C, PARAMS["squares"])
"""


def test_another_regularisation_in_the_place_of_squared_features_measures_nothing() -> None:
    """Seen as "supported": accuracy 0.152 and 0.942, squares off in both. However it is hidden."""
    plain = beyond_switch(B6 % "0.053 if task.intervention else 1e-5")
    assert found(0.152, 0.942, differences=plain) == ARMS_DIFFER
    hidden = beyond_switch(B6 % 'PARAMS["C"] if task.intervention else 1e-5')
    assert found(0.152, 0.942, differences=hidden) == BASELINE
    both = beyond_switch(B6 % 'PARAMS["C"]')
    assert found(0.942, 0.942, differences=both, answers=[("same", "same")] * UNITS) == ARMS_DIFFER


def test_one_try_against_eight_measures_nothing() -> None:
    assert found(0.93, differences=unequal_effort(8, 1)) == ARMS_DIFFER
    assert unequal_effort(8, 8) == ()
