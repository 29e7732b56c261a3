"""The statistics of the verdict, beside those of SciPy."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from events.kinds.space.metrics import METRICS
from stages.experiment.statistics.validation import (
    CAUGHT,
    SAME,
    Pair,
    Reading,
    doubted,
    judge,
    mean_interval,
    pair_of,
)

values = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=3, max_size=12)


@given(values=values)
def test_the_interval_is_students(values: list[float]) -> None:
    assume(max(values) - min(values) > 0.01)
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=stats.tmean(values), scale=stats.sem(values))
    assert interval.low == pytest.approx(low, rel=1e-6, abs=1e-9)
    assert interval.high == pytest.approx(high, rel=1e-6, abs=1e-9)


@given(values=values, direction=st.sampled_from(["increase", "decrease"]))
def test_it_passes_exactly_where_the_interval_lies_on_the_claimed_side(
    values: list[float], direction: str
) -> None:
    pairs = [Pair(number, 0.0, value) for number, value in enumerate(values)]
    judgement = judge(pairs, direction)  # type: ignore[arg-type]
    assert judgement.interval is not None
    on_its_side = judgement.interval.low > 0 if direction == "increase" else judgement.interval.high < 0
    assert (judgement.verdict == "pass") == on_its_side


def test_a_pair_that_diverged_refutes() -> None:
    pairs = [Pair(1, 0.1, 0.9), Pair(2, 0.1, 0.9), Pair(3, 0.1, 0.91), Pair(4, 0.1, None)]
    assert judge(pairs, "increase").verdict == "fail"


@given(rows=values, seeds=values)
def test_the_chance_of_rows_adds_to_that_of_seeds_as_in_welchs_interval(
    rows: list[float], seeds: list[float]
) -> None:
    assume(min(max(rows) - min(rows), max(seeds) - min(seeds)) > 0.01)
    without = [(sum(rows) - row) / (len(rows) - 1) for row in rows]
    known = stats.ttest_ind(seeds, rows, equal_var=False).confidence_interval(0.95)
    found = mean_interval(seeds, without)
    assert found.high - found.low == pytest.approx(known.high - known.low, rel=1e-6)


def test_where_seeds_agree_the_interval_is_that_of_the_rows() -> None:
    rows = [0.1, 0.5, -0.2, 0.4, 0.2]
    found = mean_interval([0.2, 0.2, 0.2], [(sum(rows) - row) / 4 for row in rows])
    known = mean_interval(rows)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))


def readings(values: list[float], without: list[list[float]], answers: str) -> list[Reading]:
    return [
        Reading({"nll": value}, tuple(others), each)
        for value, others, each in zip(values, without, answers, strict=True)
    ]


def test_seeds_that_agree_say_nothing_of_the_rows_that_judge() -> None:
    one = readings([0.5] * 3, [[0.5, 0.5, 0.5]] * 3, "abc")
    other = readings([0.4] * 3, [[0.1, 0.6, 0.5]] * 3, "def")
    pairs = [pair_of(seed, *each, "nll") for seed, each in enumerate(zip(one, other, strict=True))]
    found = judge(pairs, "decrease")
    assert (found.verdict, found.reason) == ("fail", "the interval includes zero")


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [(("abc", "def"), "pass"), (("aba", "def"), "fail"), (("aaa", "def"), "fail"), (("abc", "ddd"), "fail")],
)
def test_an_arm_that_answers_the_same_for_several_seeds_is_no_replication(
    answers: tuple[str, str], verdict: str
) -> None:
    pairs = [
        Pair(seed, 0.9, 0.6 + seed / 100, answers=each)
        for seed, each in enumerate(zip(*answers, strict=True))
    ]
    found = doubted(judge(pairs, "decrease"), METRICS["nll"])
    assert (found.verdict, found.reason == SAME) == (verdict, verdict == "fail")


def test_a_program_that_knew_what_nobody_can_know_is_the_reason_of_its_verdict() -> None:
    known, good = Reading(None, is_caught=True), Reading({"nll": 0.5}, answers="x")
    for each in ((good, known), (known, good)):
        pairs = [pair_of(seed, *each, "nll") for seed in range(3)]
        assert judge(pairs, "decrease").reason == CAUGHT
