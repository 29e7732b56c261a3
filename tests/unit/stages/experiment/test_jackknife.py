"""The chance of the rows that judge, beside the formulas that are known for it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stages.experiment.statistics.jackknife import GROUPS_MAX, row_groups, standard_error


@pytest.mark.parametrize("rows", [2, 3, 45, 50, 51, 99, 540, 10_001])
def test_each_row_is_in_one_group_and_groups_are_equally_large(rows: int) -> None:
    groups = row_groups(rows)
    assert sorted(np.concatenate(groups)) == list(range(rows))
    assert 2 <= len(groups) <= GROUPS_MAX
    assert max(map(len, groups)) - min(map(len, groups)) <= 1


def test_one_row_says_nothing_of_others() -> None:
    assert row_groups(0) == row_groups(1) == []


def test_of_a_mean_it_is_the_usual_standard_error() -> None:
    values = np.random.default_rng(3).standard_normal(40)
    without = [float(np.delete(values, group).mean()) for group in row_groups(40)]
    assert standard_error(without) == pytest.approx(stats.sem(values))


def test_of_groups_and_of_a_root_it_is_about_the_spread_over_other_rows() -> None:
    chance = np.random.default_rng(3)
    samples = chance.standard_normal((400, 600))
    found = [
        standard_error([float(np.sqrt((np.delete(values, group) ** 2).mean())) for group in row_groups(600)])
        for values in samples[:40]
    ]
    assert np.mean(found) == pytest.approx(np.sqrt((samples**2).mean(axis=1)).std(), rel=0.1)
