"""The statistics of the verdict, beside those of SciPy."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from stages.experiment.validation import Pair, judge, mean_interval

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
