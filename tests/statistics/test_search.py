"""A search is worth its budget: better than random points, and never worse than what it was handed."""

from __future__ import annotations

from functools import cache
from statistics import fmean

import pytest

from tests.statistics.surfaces import LIMITS, SURFACES, gain

DRAWS = 200
NOISES = (0.25, 1.0, 4.0)  # of one training: below the step, at it, above it
WORSE_MAX = 0.05

places = [(surface, noise, preset) for surface in SURFACES for noise in NOISES for preset in LIMITS]


@cache
def gains(surface: str, noise: float, preset: str, how: str) -> tuple[float, ...]:
    return tuple(gain(surface, noise, preset, seed, how) for seed in range(DRAWS))


def worse(found: tuple[float, ...]) -> float:
    return fmean(each < -1e-9 for each in found)


@pytest.mark.parametrize(("surface", "noise", "preset"), places)
def test_a_search_hands_on_nothing_worse_than_it_was_handed(surface: str, noise: float, preset: str) -> None:
    assert worse(gains(surface, noise, preset, "shipped")) <= WORSE_MAX


@pytest.mark.parametrize(("surface", "noise", "preset"), [each for each in places if each[1] <= 1])
def test_a_search_gains_more_than_random_points_for_the_same_budget(
    surface: str, noise: float, preset: str
) -> None:
    shipped, anywhere = (fmean(gains(surface, noise, preset, how)) for how in ("shipped", "anywhere"))
    assert shipped > 1.5 * anywhere


def test_the_best_mean_alone_would_hand_on_what_is_worse() -> None:
    """Else the tests here would not see that the rule is gone."""
    assert worse(gains("smooth", 4.0, "standard", "best mean")) > 0.2
