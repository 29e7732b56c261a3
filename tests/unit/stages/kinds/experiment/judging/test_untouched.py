"""A gain counts only where it is one over the tuned baseline as well."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from events.kinds.space.effect import Direction
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.judging.preconditions import BASELINE
from stages.kinds.experiment.judging.untouched import SAYS, gains, spoilt
from stages.kinds.experiment.statistics.region import Region, equivalent, not_inferior, superior
from stages.kinds.experiment.statistics.validation import Judgement, Reading, Registration, judge, pairs_of

UNITS = 10


def readings(metric: str, value: float | None, phase: int = 0) -> list[Reading]:
    """Return what a program gives in units that move it a little, each program in another way."""
    return [
        Reading(None if value is None else {metric: value + ((unit * 7 + phase) % 10 - 4.5) / 2000})
        for unit in range(UNITS)
    ]


def judged(metric: str, region: Region, off: Sequence[Reading], on: Sequence[Reading]) -> Judgement:
    measure = METRICS[metric]
    plan = Registration(measure, region, UNITS, rows=1797, test_rows=540)
    return judge(pairs_of(range(UNITS), off, on, measure), plan)


@pytest.mark.parametrize(
    ("metric", "region", "off", "on", "before", "is_spoilt"),
    [
        ("accuracy", superior("increase"), 0.85, 0.93, 0.93, True),
        ("accuracy", superior("increase"), 0.85, 0.93, 0.95, True),
        ("accuracy", superior("increase"), 0.85, 0.93, 0.86, False),
        ("nll", superior("decrease"), 0.50, 0.30, 0.30, True),
        ("nll", superior("decrease"), 0.50, 0.30, 0.48, False),
        ("accuracy", superior("increase", 0.02), 0.85, 0.93, 0.92, True),
        ("accuracy", not_inferior("increase", 0.01), 0.88, 0.90, 0.93, True),
        ("accuracy", not_inferior("increase", 0.01), 0.90, 0.90, 0.90, False),
        ("accuracy", equivalent(0.01), 0.90, 0.90, 0.93, True),
        ("accuracy", equivalent(0.01), 0.90, 0.90, 0.85, False),
        ("accuracy", superior("decrease"), 0.85, 0.93, 0.93, True),  # contradicted, by what is no gain
        ("accuracy", superior("decrease"), 0.85, 0.93, 0.86, False),
    ],
)
def test_a_program_that_answers_worse_where_its_own_strength_is_0_gains_nothing(
    metric: str, region: Region, off: float, on: float, before: float, *, is_spoilt: bool
) -> None:
    with_it = readings(metric, on, 3)
    judgement = judged(metric, region, readings(metric, off), with_it)
    assert judgement.conclusion != "inconclusive"
    nothing = spoilt([judgement], readings(metric, before, 5), with_it)
    assert (nothing is not None) == is_spoilt
    if nothing is not None:
        assert nothing.code == BASELINE
        assert SAYS in nothing.reason
        assert "of the tuned baseline" in nothing.found[0]


def test_a_tuned_baseline_that_fails_shows_no_gain() -> None:
    with_it = readings("accuracy", 0.93, 3)
    judgement = judged("accuracy", superior("increase"), readings("accuracy", 0.85), with_it)
    before = [*readings("accuracy", 0.85)[1:], Reading(None)]
    nothing = spoilt([judgement], before, with_it)
    assert nothing is not None
    assert "failed in 1 of 10 units" in nothing.found[0]


@pytest.mark.parametrize(
    ("metric", "direction", "off", "on"),
    [("accuracy", "decrease", 0.93, 0.85), ("training_seconds", "decrease", 0.9, 0.5)],
)
def test_a_loss_and_what_is_no_matter_of_answers_need_no_other_program(
    metric: str, direction: Direction, off: float, on: float
) -> None:
    judgement = judged(metric, superior(direction), readings(metric, off), readings(metric, on, 3))
    assert judgement.conclusion == "supported"
    assert gains([judgement]) == ()
