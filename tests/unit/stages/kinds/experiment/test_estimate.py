"""The mean over units, its bounds and p-values, and the regions of claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import convert
from scipy import stats

from events.kinds.space.effect import Direction, Effect
from events.kinds.space.metrics import METRICS
from stages.bounds import NODES_MAX, NUMBER_MAX, Number
from stages.kinds.experiment.judging.program_output import VALUE_MAX
from stages.kinds.experiment.statistics.estimate import LEVEL, estimate, overlap, rate_not_excluded
from stages.kinds.experiment.statistics.region import Region, equivalent, not_inferior, region_of, superior
from stages.kinds.experiment.statistics.scores import value_scores

values = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=3, max_size=20)
SHARED = 3 / 7


def spread_out(values: list[float]) -> bool:
    return float(np.std(values)) > 0.01


@given(values=values)
def test_the_interval_holds_that_of_nadeau_and_bengio(values: list[float]) -> None:
    assume(spread_out(values))
    found = estimate(values, SHARED)
    error = np.std(values, ddof=1) * math.sqrt(1 / len(values) + SHARED)
    low, high = stats.t.interval(1 - 2 * LEVEL, len(values) - 1, loc=np.mean(values), scale=error)
    assert found.error == pytest.approx(error)
    assert found.low <= low + 1e-9
    assert found.high >= high - 1e-9


def test_where_there_is_no_skewness_it_is_that_interval() -> None:
    units = [0.1, 0.2, 0.3, 0.4, 0.5]
    found = estimate(units, SHARED)
    error = np.std(units, ddof=1) * math.sqrt(1 / 5 + SHARED)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(1 - 2 * LEVEL, 4, loc=0.3, scale=error))


def test_a_long_tail_moves_the_bound_on_the_other_side() -> None:
    """A mean that a long lower tail keeps down is far from its effect more often above than below."""
    found = estimate([0.5, 0.5, 0.4, 0.5, 0.6, 0.4, 0.5, 0.5, 0.4, -1.5], SHARED)
    assert found.mean - found.low > 1.1 * (found.high - found.mean)
    mirrored = estimate([-0.5, -0.5, -0.4, -0.5, -0.6, -0.4, -0.5, -0.5, -0.4, 1.5], SHARED)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


@given(values=values, threshold=st.floats(-50, 50))
def test_a_p_value_is_below_the_level_exactly_where_the_interval_leaves_the_threshold_out(
    values: list[float], threshold: float
) -> None:
    assume(spread_out(values))
    found = estimate(values, SHARED)
    assume(min(abs(found.low - threshold), abs(found.high - threshold)) > 1e-6)
    assert (found.p_above(threshold) < LEVEL) == (found.low > threshold)
    assert (found.p_below(threshold) < LEVEL) == (found.high < threshold)


@given(values=values, other=values)
def test_many_at_once_are_what_each_is_alone(values: list[float], other: list[float]) -> None:
    count = min(len(values), len(other))
    both = np.array([values[:count], other[:count]])
    together = estimate(both, SHARED)
    for place, row in enumerate(both):
        alone = estimate(row, SHARED)
        for name in ("mean", "low", "high", "spread", "error", "skew"):
            assert getattr(together, name)[place] == pytest.approx(float(getattr(alone, name)))


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e-12])
def test_units_that_agree_have_no_spread_and_no_p_value(value: float) -> None:
    found = estimate([value] * 10, SHARED)
    assert (found.spread, found.low, found.high) == (0.0, pytest.approx(value), pytest.approx(value))
    assert math.isnan(found.p_above(0.0))


@given(values=values, scale=st.sampled_from([1e-6, 1e3]))
def test_a_measure_in_another_unit_gives_the_same_interval_in_that_unit(
    values: list[float], scale: float
) -> None:
    assume(spread_out(values))
    one, other = estimate(values, SHARED), estimate([each * scale for each in values], SHARED)
    assert (other.low, other.high) == pytest.approx((one.low * scale, one.high * scale))
    assert other.smallest_seen() == pytest.approx(one.smallest_seen() * scale)


def test_more_units_see_smaller_effects_and_more_common_rows_larger_ones() -> None:
    few, many = ([0.1, -0.1] * half for half in (5, 10))
    assert estimate(many, SHARED).smallest_seen() < estimate(few, SHARED).smallest_seen()
    assert estimate(few, 0.1).smallest_seen() < estimate(few, SHARED).smallest_seen()


def test_what_units_share_follows_from_the_rows_that_judge() -> None:
    assert overlap(30, 100) == pytest.approx(3 / 7)
    assert rate_not_excluded(10) == pytest.approx(0.3)
    assert rate_not_excluded(2) == 1.0


@pytest.mark.parametrize(
    ("region", "low", "high", "expected"),
    [
        (superior("increase"), 0.1, 0.2, "supported"),
        (superior("increase"), -0.1, 0.2, "inconclusive"),
        (superior("increase"), -0.2, -0.1, "contradicted"),
        (superior("decrease"), -0.2, -0.1, "supported"),
        (superior("decrease"), 0.1, 0.2, "contradicted"),
        (superior("increase", 0.02), 0.01, 0.2, "inconclusive"),
        (superior("increase", 0.02), 0.03, 0.2, "supported"),
        (superior("increase", 0.02), -0.1, 0.01, "contradicted"),
        (superior("decrease", 0.02), -0.1, -0.01, "inconclusive"),
        (not_inferior("increase", 0.02), -0.01, 0.2, "supported"),
        (not_inferior("increase", 0.02), -0.03, 0.2, "inconclusive"),
        (not_inferior("increase", 0.02), -0.2, -0.03, "contradicted"),
        (not_inferior("decrease", 0.02), -0.2, 0.01, "supported"),
        (equivalent(0.02), -0.01, 0.01, "supported"),
        (equivalent(0.02), -0.01, 0.03, "inconclusive"),
        (equivalent(0.02), 0.03, 0.04, "contradicted"),
        (equivalent(0.02), -0.04, -0.03, "contradicted"),
    ],
)
def test_a_claim_is_judged_by_where_the_interval_lies(
    region: Region, low: float, high: float, expected: str
) -> None:
    assert region.concluded(low, high) == expected


@given(values=values, margin=st.floats(0.1, 50), direction=st.sampled_from(["increase", "decrease"]))
def test_a_claim_is_supported_exactly_where_its_p_value_is_below_the_level(
    values: list[float], margin: float, direction: str
) -> None:
    assume(spread_out(values))
    found = estimate(values, SHARED)
    assume(all(abs(abs(bound) - margin) > 1e-6 for bound in (found.low, found.high)))
    for region in (superior(direction, margin), not_inferior(direction, margin), equivalent(margin)):  # type: ignore[arg-type]
        is_supported = region.concluded(float(found.low), float(found.high)) == "supported"
        assert (region.p_value(found) < LEVEL) == is_supported
        is_contradicted = region.concluded(float(found.low), float(found.high)) == "contradicted"
        assert (region.p_against(found) < LEVEL) == is_contradicted


@pytest.mark.parametrize("direction", ["increase", "decrease"])
def test_an_effect_of_a_claim_becomes_its_region(direction: Direction) -> None:
    accuracy = METRICS["accuracy"]
    assert region_of(Effect(accuracy, direction)) == superior(direction)
    assert region_of(Effect(accuracy, direction, margin=0.02)) == superior(direction, 0.02)
    assert region_of(Effect(accuracy, direction, "not_inferior", 0.02)) == not_inferior(direction, 0.02)
    assert region_of(Effect(accuracy, direction, "equivalent", 0.02)) == equivalent(0.02)


def test_no_number_of_a_checkpoint_is_too_large_to_be_squared_and_added_up() -> None:
    with np.errstate(over="raise", invalid="raise"):
        far = np.full(NODES_MAX, NUMBER_MAX) - np.full(NODES_MAX, -NUMBER_MAX)
        assert np.isfinite((far**2).sum())
        assert np.isfinite(
            value_scores(np.full(NODES_MAX, VALUE_MAX), np.full(NODES_MAX, -VALUE_MAX))["rmse"]
        )
        found = estimate(np.resize([NUMBER_MAX, -NUMBER_MAX], NODES_MAX), SHARED)
        assert np.isfinite([found.mean, found.low, found.high, found.error, found.p_above(0.01)]).all()


def test_the_score_of_any_answers_fits_into_a_checkpoint() -> None:
    worst = value_scores(np.array([VALUE_MAX]), np.array([-VALUE_MAX]))["rmse"]
    assert convert(worst, Number) == worst


@pytest.mark.parametrize("scale", [1e-150, 1.0])
def test_an_effect_out_of_all_proportion_has_a_p_value(scale: float) -> None:
    found = estimate([scale, 3 * scale, scale, 3 * scale], SHARED)
    with np.errstate(over="raise", invalid="raise"):
        assert found.p_above(1e150) == 1.0
        assert 0 <= found.p_below(1e150) < 1e-100
