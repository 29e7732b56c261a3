"""What the registered units say of a claim, and what never makes a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.statistics.estimate import LEVEL, estimate
from stages.kinds.experiment.statistics.region import Region, equivalent, not_inferior, superior
from stages.kinds.experiment.statistics.validation import (
    BOTH_SIDES,
    CAUGHT,
    CONTRADICTED,
    COUNTED,
    FAILED,
    MISSING,
    NEVER,
    NO_SPREAD,
    SUPPORTED,
    UNRESOLVED,
    Judgement,
    Pair,
    Reading,
    Registration,
    judge,
    pairs_of,
)

UNITS = 10
ACCURACY = METRICS["accuracy"]
PLAN = Registration(ACCURACY, superior("increase"), UNITS, rows=178, test_rows=53)
values = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=UNITS, max_size=UNITS)


def judged(differences: Sequence[float | None], plan: Registration = PLAN) -> Judgement:
    pairs = [Pair(seed, 0.0, each) for seed, each in enumerate(differences)]
    return judge(pairs, plan)


def around(mean: float, spread: float = 0.001) -> list[float]:
    return [mean + spread * (place - (UNITS - 1) / 2) for place in range(UNITS)]


@given(values=values, direction=st.sampled_from(["increase", "decrease"]))
def test_the_conclusion_follows_from_the_interval_alone(values: list[float], direction: str) -> None:
    found = estimate(values, PLAN.shared)
    assume(found.spread > 1e-6)
    assume(abs(found.mean) > PLAN.resolution)
    assume(min(abs(found.low), abs(found.high)) > 1e-6)
    judgement = judged(values, replace(PLAN, region=superior(direction)))  # type: ignore[arg-type]
    sign = 1 if direction == "increase" else -1
    low, high = sorted((sign * found.low, sign * found.high))
    expected = "supported" if low > 0 else "contradicted" if high < 0 else "inconclusive"
    assert judgement.conclusion == expected
    assert judgement.verdict == ("pass" if expected == "supported" else "fail")
    assert judgement.interval is not None
    assert (judgement.interval.p_value < LEVEL) == (expected == "supported")


@pytest.mark.parametrize(
    ("differences", "conclusion", "reason"),
    [
        (around(0.1), "supported", SUPPORTED),
        (around(-0.1), "contradicted", CONTRADICTED),
        (around(0.02, 0.05), "inconclusive", BOTH_SIDES),
        ([0.1] * UNITS, "inconclusive", NO_SPREAD),
        ([0.0] * UNITS, "inconclusive", NO_SPREAD),
        ([0.1 + 1e-17 * place for place in range(UNITS)], "inconclusive", NO_SPREAD),
        (around(0.1)[:-1], "inconclusive", MISSING),
        ([*around(0.1)[:-1], None], "inconclusive", MISSING),
        (around(0.01, 0.0001), "inconclusive", UNRESOLVED),
        (around(-0.01, 0.0001), "inconclusive", UNRESOLVED),
    ],
)
def test_only_an_interval_over_all_units_concludes(
    differences: list[float | None], conclusion: str, reason: str
) -> None:
    found = judged(differences)
    assert (found.conclusion, found.reason) == (conclusion, reason)


def test_a_measure_that_counts_no_rows_has_no_resolution() -> None:
    plan = replace(PLAN, metric=METRICS["nll"], region=superior("decrease"))
    assert judged(around(-0.01, 0.0001), plan).conclusion == "supported"


def test_what_is_counted_exactly_needs_no_spread() -> None:
    plan = replace(PLAN, metric=METRICS["parameters"], region=superior("decrease"))
    for difference, conclusion in ((-500.0, "supported"), (500.0, "contradicted"), (0.0, "contradicted")):
        found = judged([difference] * UNITS, plan)
        assert (found.conclusion, found.reason) == (conclusion, COUNTED)
    same = replace(plan, region=equivalent(1.0))
    assert judged([0.0] * UNITS, same).conclusion == "supported"
    assert judged([1.0] * UNITS, same).conclusion == "contradicted"
    assert judged([-500.0] * (UNITS - 1), plan).reason == MISSING
    timed = replace(plan, metric=METRICS["training_seconds"])
    assert judged([-500.0] * UNITS, timed).reason == NO_SPREAD


def test_claims_with_a_margin_are_judged_by_it() -> None:
    small = around(0.001, 0.0005)
    assert judged(small, replace(PLAN, region=equivalent(0.02))).conclusion == "supported"
    assert judged(around(0.1), replace(PLAN, region=equivalent(0.02))).conclusion == "contradicted"
    assert judged(small, replace(PLAN, region=not_inferior("increase", 0.02))).conclusion == "supported"
    assert judged(around(0.03), replace(PLAN, region=superior("increase", 0.05))).conclusion == "contradicted"


@pytest.mark.parametrize(
    ("region", "mean", "expected"),
    [
        (superior("increase", 0.02), 0.03, UNRESOLVED),
        (superior("increase", 0.02), 0.05, SUPPORTED),
        (superior("increase", 0.02), 0.01, UNRESOLVED),
        (superior("increase", 0.02), 0.0, CONTRADICTED),
        (not_inferior("increase", 0.02), 0.01, SUPPORTED),
        (not_inferior("increase", 0.02), -0.01, UNRESOLVED),
        (not_inferior("increase", 0.02), -0.03, UNRESOLVED),
        (not_inferior("decrease", 0.02), 0.05, CONTRADICTED),
        (equivalent(0.01), 0.0, UNRESOLVED),
        (equivalent(0.05), 0.0, SUPPORTED),
        (equivalent(0.05), 0.04, UNRESOLVED),
        (equivalent(0.05), 0.08, CONTRADICTED),
    ],
)
def test_a_mean_less_than_a_row_from_a_bound_that_decides_decides_nothing(
    region: Region, mean: float, expected: str
) -> None:
    assert PLAN.resolution == pytest.approx(1 / 53)
    assert judged(around(mean, 0.0001), replace(PLAN, region=region)).reason == expected


def readings(scores: Sequence[float | None]) -> list[Reading]:
    return [Reading(None if each is None else {"accuracy": each}, naive=0.4) for each in scores]


def of_arms(
    one: Sequence[float | None], other: Sequence[float | None], plan: Registration = PLAN
) -> Judgement:
    return judge(pairs_of(range(UNITS), readings(one), readings(other), ACCURACY), plan)


GOOD = around(0.9)
LOW: list[float | None] = [*around(0.1)]
RARE: list[float | None] = [None, *LOW[1:]]
BROKEN: list[float | None] = [*[None] * 9, GOOD[-1] - 0.4]


def test_a_program_that_fails_has_the_worst_score_and_is_no_lost_unit() -> None:
    found = of_arms(GOOD, BROKEN)
    assert (found.conclusion, found.reason) == ("contradicted", CONTRADICTED)
    assert found.pairs[0].intervention == 0.0
    assert found.pairs[0].failed == (False, True)
    rare = of_arms(GOOD, [None, *(each + 0.05 for each in GOOD[1:])])
    assert rare.conclusion == "inconclusive", "one collapse in ten costs more than the nine others gain"
    assert rare.interval is not None
    assert rare.interval.mean < 0


def test_no_failure_helps_a_claim() -> None:
    harm = replace(PLAN, region=superior("decrease"))
    assert of_arms(BROKEN, GOOD).reason == FAILED, "a baseline that fails"
    assert of_arms(GOOD, BROKEN, harm).reason == FAILED, "an intervention that is claimed to do harm"
    assert of_arms(BROKEN, GOOD, harm).reason == FAILED, "nor does a baseline that fails contradict one"


@pytest.mark.parametrize(
    ("region", "one", "other", "reason"),
    [
        (not_inferior("increase", 0.5), RARE, LOW, FAILED),
        (not_inferior("increase", 0.5), LOW, RARE, SUPPORTED),
        (not_inferior("increase", 0.1), GOOD, BROKEN, CONTRADICTED),
        (not_inferior("decrease", 0.5), LOW, RARE, FAILED),
        (equivalent(0.5), LOW, RARE, FAILED),
        (equivalent(0.5), RARE, LOW, FAILED),
        (superior("increase", 0.05), GOOD, BROKEN, CONTRADICTED),
    ],
)
def test_nor_does_a_failure_help_a_claim_with_a_margin(
    region: Region, one: list[float | None], other: list[float | None], reason: str
) -> None:
    assert of_arms(one, other, replace(PLAN, region=region)).reason == reason


def test_where_a_program_failed_everywhere_nothing_was_measured() -> None:
    assert of_arms(GOOD, [None] * UNITS).reason == NEVER


def test_a_failure_in_a_measure_without_an_end_is_as_bad_as_the_worst_that_was_seen() -> None:
    one = [Reading({"rmse": 1.0 + place / 10}, naive=1.5) for place in range(UNITS)]
    other = [Reading(None, naive=1.5), *one[1:]]
    pairs = pairs_of(range(UNITS), one, other, METRICS["rmse"])
    assert pairs[0].intervention == pytest.approx(1.9)
    timed = pairs_of(range(UNITS), one, other, METRICS["training_seconds"])
    assert timed[0].difference is None, "no time is the worst"


def test_a_program_that_knew_what_nobody_can_know_is_the_reason_of_its_verdict() -> None:
    known = [Reading(None, is_caught=True), *readings(GOOD[1:])]
    good = readings(around(0.8))
    for one, other in ((good, known), (known, good)):
        found = judge(pairs_of(range(UNITS), one, other, ACCURACY), PLAN)
        assert (found.conclusion, found.reason) == ("inconclusive", CAUGHT)


def test_what_a_measurement_could_have_seen_is_said() -> None:
    found = judged(around(0.02, 0.05)).interval
    assert found is not None
    assert found.seen > abs(found.mean)
    assert math.isfinite(found.p_value)
