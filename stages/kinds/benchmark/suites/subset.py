"""Chooses the items of a run: seeded, nested, and the same for every model, pure.

Law: an item's rank depends on the seed, its suite and its id only. So a smaller subset lies within a larger
one, and two runs with one seed ask the same questions, whatever else is in their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from events.kinds.benchmark import subset_count
from stages.kinds.benchmark.suites.item import Item


def chosen(
    suite: str,
    items: Sequence[Item],
    *,
    subset_pct: float | None = None,
    sample_size: int | None = None,
    seed: int = 0,
) -> list[Item]:
    """Return the items with the lowest ranks, in the order of the suite; all where neither limit is given.

    A share is rounded up, so that a subset is never empty where there are items.
    """
    count = len(items)
    if subset_pct is not None:
        count = subset_count(count, subset_pct)
    if sample_size is not None:
        count = min(count, sample_size)
    if count >= len(items):
        return list(items)
    kept = set(sorted((item.id for item in items), key=lambda id: _rank(seed, suite, id))[:count])
    return [item for item in items if item.id in kept]


def _rank(seed: int, suite: str, id: str) -> bytes:
    return sha256(f"{seed}\n{suite}\n{id}".encode()).digest()
