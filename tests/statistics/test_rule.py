"""The rule of the verdict keeps its promises: how often it is wrong, and what it says that it can see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from events.kinds.space.data_sets import SHARES
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.data.divisions import WINDOWS_MIN
from stages.kinds.experiment.data.reserve import JUDGING_SHARE
from stages.kinds.experiment.statistics.estimate import (
    LEVEL,
    POWER,
    Estimate,
    Values,
    estimate,
    overlap,
    rate_not_excluded,
)
from stages.kinds.experiment.statistics.looks import LEVEL_BY_TIME, Look, looks_of, units_of
from stages.kinds.experiment.statistics.region import equivalent, not_inferior, superior
from stages.kinds.experiment.statistics.several import corrected
from stages.kinds.experiment.statistics.validation import Interval, Judgement, Registration
from tests.statistics.populations import (
    SETS,
    SHAPES,
    SHARED,
    Learner,
    drawn,
    grouped_twins,
    neighbours,
    ridge,
    twins,
    windowed_twins,
    with_noise,
)

UNITS = (10, 20)  # of the presets
WRONG_MAX = 0.035
COVERED_MIN = 0.93
POWER_TOLERANCE = 0.03


def wrong(found: Estimate) -> tuple[float, float]:
    """Return how often a claim of a rise, and one of a fall, are supported."""
    return float((found.low > 0).mean()), float((found.high < 0).mean())


def covered(found: Estimate) -> float:
    return float(((found.low <= 0) & (found.high >= 0)).mean())


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "independent"])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_null_claim_is_seldom_supported_in_either_direction(
    shape: str, units: int, is_shared: bool
) -> None:
    found = estimate(drawn(shape, 20_000, units, is_shared=is_shared, seed=7), SHARED)
    assert max(wrong(found)) <= WRONG_MAX
    assert covered(found) >= COVERED_MIN


def test_without_its_corrections_the_rule_would_not_hold() -> None:
    """Else the tests here would not see that one is gone."""
    shared = drawn("normal", 20_000, 10, is_shared=True, seed=7)
    assert min(wrong(estimate(shared, 0.0))) > 2 * WRONG_MAX, "units taken for independent"
    skewed = estimate(drawn("exponential", 20_000, 10, is_shared=True, seed=7), SHARED)
    plain = skewed.mean - _students(skewed)
    assert float((plain > 0).mean()) > WRONG_MAX, "skewness left alone"


def _students(found: Estimate) -> Values:
    """Return how far Student's interval of the same level reaches."""
    normal = estimate(np.array([-1.0, 0.0, 1.0] * 3 + [0.0]), SHARED)
    reach: Values = (normal.high - normal.mean) / normal.error * found.error
    return reach


@pytest.mark.parametrize("rows", [150, 500])
def test_two_arms_that_are_equal_by_symmetry_are_seldom_told_apart(rows: int) -> None:
    found = estimate(twins(2_000, 10, rows, seed=5), SHARED)
    assert max(wrong(found)) <= WRONG_MAX
    assert covered(found) >= COVERED_MIN


def test_a_replication_judged_by_rows_of_the_reserve_seldom_tells_equal_arms_apart() -> None:
    shared = overlap(round(150 * JUDGING_SHARE), 150)
    found = estimate(twins(2_000, 10, 1_000, seed=8, by_reserve=True), shared)
    assert max(wrong(found)) <= WRONG_MAX
    assert covered(found) >= COVERED_MIN
    assert min(wrong(estimate(twins(500, 10, 1_000, seed=8, by_reserve=True), 0.0))) > 2 * WRONG_MAX


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("rows", [150, 500, 2_000])
@pytest.mark.long("`make test` has the smallest ones: real learners take minutes for many rows")
@pytest.mark.timeout(900)
def test_two_equal_arms_whatever_the_size(rows: int, units: int) -> None:
    found = estimate(twins(2_000, units, rows, seed=6), SHARED)
    assert max(wrong(found)) <= WRONG_MAX
    assert covered(found) >= COVERED_MIN


@pytest.mark.parametrize(("groups", "each"), [(10, 20), (40, 8)])
def test_two_equal_arms_are_seldom_told_apart_where_groups_are_drawn(groups: int, each: int) -> None:
    differences = grouped_twins(1_000, 10, groups, each, seed=31)
    judging = round(groups * SHARES["test"])
    found = estimate(differences, overlap(judging, groups))
    assert max(wrong(found)) <= WRONG_MAX
    assert covered(found) >= COVERED_MIN


@pytest.mark.parametrize(
    ("units", "likeness", "drift"),
    [(10, 0.0, 0.0), (10, 0.9, 0.0), (WINDOWS_MIN, 0.0, 1.0), (10, 0.0, 1.0), (20, 0.0, 1.0)],
)
def test_two_equal_arms_are_seldom_told_apart_where_later_rows_judge(
    units: int, likeness: float, drift: float
) -> None:
    """Windows learn from much the same rows, so they are taken for units that share all that judges."""
    differences = windowed_twins(1_000, units, 300, seed=37, likeness=likeness, drift=drift)
    assert differences.shape[1] == units
    assert max(wrong(estimate(differences, SHARED, LEVEL_BY_TIME))) <= WRONG_MAX


@pytest.mark.parametrize("units", [WINDOWS_MIN, 10])
def test_two_equal_arms_are_seldom_told_apart_where_what_features_mean_changes(units: int) -> None:
    """So strongly that their sign does, on many rows: at the level of random splits it is beyond the rule."""
    differences = windowed_twins(1_000, units, 1_000, seed=43, drift=10.0)
    assert max(wrong(estimate(differences, SHARED, LEVEL_BY_TIME))) <= WRONG_MAX
    assert max(wrong(estimate(differences, SHARED))) > WRONG_MAX


def test_windows_that_are_taken_for_independent_support_more() -> None:
    differences = windowed_twins(500, 20, 300, seed=37, drift=2.0)
    assert max(wrong(estimate(differences, 0.0))) > WRONG_MAX


@pytest.mark.parametrize("learner", [ridge, neighbours])
@pytest.mark.parametrize("name", ["iris", "wine"])
def test_columns_of_noise_improve_nothing(name: str, learner: Learner) -> None:
    found = estimate(with_noise(name, 3, 300, 10, seed=3, learner=learner), SHARED)
    assert wrong(found)[0] <= WRONG_MAX


@pytest.mark.parametrize("learner", [ridge, neighbours])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.long("`make test` has the two small sets")
@pytest.mark.timeout(900)
def test_columns_of_noise_improve_nothing_on_any_set(name: str, columns: int, learner: Learner) -> None:
    draws = 100 if name == "digits" else 2_000
    found = estimate(with_noise(name, columns, draws, 10, seed=4, learner=learner), SHARED)
    assert wrong(found)[0] <= WRONG_MAX


@pytest.mark.parametrize("rows", [150, 500])
@pytest.mark.long("the choice of finalists takes five times the trainings")
@pytest.mark.timeout(900)
def test_a_choice_of_finalists_with_equal_tries_supports_no_more(rows: int) -> None:
    found = estimate(twins(2_000, 10, rows, seed=9, tries=5), SHARED)
    assert max(wrong(found)) <= WRONG_MAX


@pytest.mark.parametrize("units", UNITS)
def test_the_smallest_effect_that_can_be_seen_is_seen_as_often_as_is_said(units: int) -> None:
    null = drawn("normal", 40_000, units, is_shared=True, seed=11)
    said = float(np.sqrt((estimate(null, SHARED).smallest_seen() ** 2).mean()))
    seen = estimate(null + said, SHARED).low > 0
    assert float(seen.mean()) == pytest.approx(POWER, abs=POWER_TOLERANCE)


@pytest.mark.parametrize("units", UNITS)
def test_equivalence_and_non_inferiority_are_seldom_shown_where_the_effect_is_the_margin(units: int) -> None:
    margin = 3.0
    found = estimate(drawn("normal", 20_000, units, is_shared=True, seed=13) - margin, SHARED)
    for region in (equivalent(margin), not_inferior("increase", margin), superior("decrease", margin)):
        shown = [region.concluded(low, high) for low, high in zip(found.low, found.high, strict=True)]
        assert shown.count("supported") / len(shown) <= WRONG_MAX


def test_where_the_arms_are_equal_a_wide_margin_shows_equivalence() -> None:
    found = estimate(drawn("normal", 2_000, 20, is_shared=True, seed=17), SHARED)
    shown = [equivalent(4.0).concluded(low, high) for low, high in zip(found.low, found.high, strict=True)]
    assert shown.count("supported") / len(shown) > 0.8


@pytest.mark.parametrize("units", [4, 7, *UNITS, 50])
def test_a_rate_of_failures_that_is_said_to_be_excluded_is_improbable_without_one(units: int) -> None:
    assert (1 - rate_not_excluded(units)) ** units <= 0.05


@pytest.mark.parametrize("units", UNITS)
def test_the_margin_within_which_no_effect_is_shown_is_one_as_often_as_is_said(units: int) -> None:
    found = estimate(drawn("normal", 40_000, units, is_shared=True, seed=19), SHARED)
    margin = float(np.sqrt((found.smallest_seen(2) ** 2).mean()))
    shown = (found.low > -margin) & (found.high < margin)
    assert float(shown.mean()) == pytest.approx(POWER, abs=2 * POWER_TOLERANCE)


@pytest.mark.parametrize("units", UNITS)
def test_an_effect_within_both_margins_or_beyond_one_is_seldom_taken_for_the_other(units: int) -> None:
    """A claim of equivalence is contradicted by either side, at its own level."""
    margin = 3.0
    found = estimate(drawn("normal", 20_000, units, is_shared=True, seed=23) + margin, SHARED)
    assert float((equivalent(margin).p_against(found) < LEVEL).mean()) <= WRONG_MAX


def test_of_several_null_claims_one_is_seldom_supported() -> None:
    found = estimate(drawn("normal", 80_000, 10, is_shared=True, seed=29), SHARED)
    p_values = superior("increase").p_value(found).reshape(4, -1)
    plan = Registration(METRICS["nll"], superior("increase"), 10, rows=500, test_rows=150)
    first = [min(each) for each in p_values.T]
    assert float((np.array(first) < LEVEL).mean()) > WRONG_MAX, "without a correction it often is"
    wrong_ones = sum(
        any(each.conclusion == "supported" for each in corrected(_judged(row, plan)))
        for row in p_values.T[p_values.min(axis=0) < LEVEL]
    )
    assert wrong_ones / len(first) <= WRONG_MAX


def _judged(p_values: Values, plan: Registration) -> list[Judgement]:
    """Return judgements with these p-values, each as it would be alone."""
    return [
        Judgement("supported" if each < LEVEL else "inconclusive", "", Interval(0, 0, 0, each, 0.5), (), plan)
        for each in map(float, p_values)
    ]


def _by_looks(differences: Values, shift: float, looks: Sequence[Look]) -> tuple[Values, Values, Values]:
    """Return where a look shows a rise, where one shows a fall, and where its interval holds the effect."""
    size = differences.shape[0]
    is_open, rises, falls = np.ones(size, bool), np.zeros(size, bool), np.zeros(size, bool)
    covers = np.zeros(size, bool)
    for look in looks:
        found = estimate(differences[:, : look.units] + shift, SHARED, look.level)
        low, high = found.low, found.high
        covers[is_open] = ((low <= shift) & (shift <= high))[is_open]
        rises |= is_open & (low > 0)
        falls |= is_open & (high < 0)
        is_open &= ~(rises | falls)
    return rises, falls, covers


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "independent"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_looking_again_with_more_units_supports_a_null_claim_no_more_often(
    shape: str, count: int, is_shared: bool
) -> None:
    drawn_units = drawn(shape, 20_000, units_of(count), is_shared=is_shared, seed=7)
    rises, falls, covers = _by_looks(drawn_units, 0.0, looks_of(count))
    assert max(rises.mean(), falls.mean()) <= WRONG_MAX
    assert covers.mean() >= COVERED_MIN


def test_looking_again_at_the_level_of_one_look_would_not_hold() -> None:
    looks = [Look(each.units, LEVEL) for each in looks_of(3)]
    heavy = drawn("t with 3 degrees", 20_000, units_of(3), is_shared=True, seed=7)
    assert max(each.mean() for each in _by_looks(heavy, 0.0, looks)[:2]) > WRONG_MAX


@pytest.mark.parametrize("count", [2, 3])
def test_what_is_foreseen_of_several_looks_is_seen_as_often_as_is_said(count: int) -> None:
    looks = looks_of(count)
    null = drawn("normal", 40_000, units_of(count), is_shared=True, seed=11)
    last = estimate(null, SHARED, looks[-1].level).smallest_seen()
    said = float(np.sqrt((last**2).mean()))
    rises, _, covers = _by_looks(null, said, looks)
    assert float(rises.mean()) == pytest.approx(POWER, abs=POWER_TOLERANCE)
    assert covers.mean() >= COVERED_MIN
