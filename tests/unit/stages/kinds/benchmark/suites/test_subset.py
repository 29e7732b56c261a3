"""Subsets of items: seeded, nested, the same for everybody."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from events.kinds.benchmark import SUITE_ITEMS, BenchmarkSpec, items_wanted
from stages.kinds.benchmark.suites.item import Item
from stages.kinds.benchmark.suites.payload import Quantity
from stages.kinds.benchmark.suites.subset import chosen

ITEMS = [Item(id=f"item-{number}", prompt="?", payload=Quantity("1")) for number in range(200)]


def ids(**limits: float | int) -> list[str]:
    return [item.id for item in chosen("suite", ITEMS, **limits)]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_a_small_share_lies_within_a_larger_one(seed: int) -> None:
    shares = [set(ids(subset_pct=share, seed=seed)) for share in (0.1, 1, 10, 20, 50, 100)]
    assert [len(share) for share in shares] == [1, 2, 20, 40, 100, 200]
    assert all(small <= large for small, large in pairwise(shares))


def test_a_sample_lies_within_a_share() -> None:
    assert set(ids(sample_size=7, seed=3)) <= set(ids(subset_pct=10, seed=3))


def test_the_order_of_a_file_changes_nothing_and_is_kept() -> None:
    mixed = random.Random(1).sample(ITEMS, len(ITEMS))
    found = [item.id for item in chosen("suite", mixed, subset_pct=10, seed=3)]
    assert set(found) == set(ids(subset_pct=10, seed=3))
    assert found == [item.id for item in mixed if item.id in set(found)]


def test_seeds_and_suites_choose_differently() -> None:
    assert ids(subset_pct=10, seed=1) != ids(subset_pct=10, seed=2)
    assert ids(subset_pct=10, seed=1) != [item.id for item in chosen("other", ITEMS, subset_pct=10, seed=1)]


def test_without_a_limit_all_are_chosen() -> None:
    assert ids() == [item.id for item in ITEMS]
    assert ids(sample_size=1_000) == [item.id for item in ITEMS]
    assert chosen("suite", [], subset_pct=10) == []


@pytest.mark.parametrize("limit", [{}, {"subset_pct": 0.3}, {"subset_pct": 10.0}, {"sample_size": 100}])
def test_as_many_items_are_asked_as_an_estimate_says(limit: dict[str, Any]) -> None:
    spec = BenchmarkSpec(model="m", suites="gpqa", epochs=2, **limit)
    items = ITEMS[: SUITE_ITEMS["gpqa"]]
    assert items_wanted(spec, "gpqa") == 2 * len(chosen("gpqa", items, **limit))
