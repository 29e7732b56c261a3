"""The recorded surfaces of the bench of searches: what their formula says, and hard to find at random."""

from __future__ import annotations

import random
import statistics
from math import comb

from testing.bench.search.searches import by_estimates, study_by, surface_of, trials_until_best
from testing.bench.search.surfaces import BEST_WITHIN, MACHINES, configurations, recorded, speed


def test_the_file_has_what_the_formula_says() -> None:
    chance = random.Random(24)
    for name, row in recorded().items():
        made = [speed(MACHINES[name], each, chance.gauss(0, 1)) for each in configurations()]
        assert [each is None for each in made] == [each is None for each in row]
        pairs = [
            (one, two) for one, two in zip(made, row, strict=True) if one is not None and two is not None
        ]
        assert max(abs(one - two) for one, two in pairs) <= 0.0051
    assert len(configurations()) == 200


def test_at_random_half_of_the_searches_need_forty_trials_or_more() -> None:
    for row in recorded().values():
        best = max(each for each in row if each is not None)
        good = sum(each is not None and each >= (1 - BEST_WITHIN) * best for each in row)
        within_39 = 1 - comb(200 - good, 39) / comb(200, 39)
        assert within_39 < 0.5


def test_a_study_by_estimates_needs_half_of_that() -> None:
    surface = surface_of(recorded()["large processor"])  # at random: 97 of 200, the median of all orders
    needed = [trials_until_best(surface, study_by("tpe", 1_000 * seed), by_estimates) for seed in range(5)]
    assert statistics.median(needed) <= 48
