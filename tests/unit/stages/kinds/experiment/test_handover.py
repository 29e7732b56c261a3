"""A stage hands on what surpasses the node that it was handed, and else that node."""

from __future__ import annotations

import pytest

from stages.kinds.experiment.record.record import Finalist
from stages.kinds.experiment.search.handover import handed_on


def finalist(node: str, mean: float, error: float | None = 0.01) -> Finalist:
    return Finalist(node, (1, 2), (mean, mean), mean, error)


@pytest.mark.parametrize(("mean", "node"), [(0.95, "Stage_2/1"), (0.925, "Stage_1/1"), (0.8, "Stage_1/1")])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_root_stays_unless_it_is_surpassed_by_more_than_chance(
    mean: float, node: str, higher_is_better: bool
) -> None:
    sign = 1 if higher_is_better else -1
    found = [finalist("Stage_2/1", sign * mean), finalist("Stage_1/1", sign * 0.9)]
    assert handed_on(found, "Stage_1/1", higher_is_better=higher_is_better).node == node


def test_without_an_error_any_gain_surpasses_and_a_tie_does_not() -> None:
    root = finalist("Stage_1/1", 0.9, None)
    for mean, node in ((0.91, "Stage_2/1"), (0.9, "Stage_1/1")):
        found = [finalist("Stage_2/1", mean, None), root]
        assert handed_on(found, "Stage_1/1", higher_is_better=True).node == node


@pytest.mark.parametrize("root", [None, "Stage_1/9"])
def test_without_a_root_among_them_the_best_mean_is_handed_on(root: str | None) -> None:
    found = [finalist("Stage_3/1", 0.9), finalist("Stage_3/2", 0.901)]
    assert handed_on(found, root, higher_is_better=True).node == "Stage_3/2"
