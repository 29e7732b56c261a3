"""How often the sweeper of trees reads the digests of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from datetime import timedelta
from typing import Any, cast

from control_plane.files.tree_sweeper import KEYS_AT_ONCE, TreeSweeper
from control_plane.files.trees import CHUNKS
from events.runtime.clock import SystemClock, SystemIds

PAGE = 1_000
OBJECTS = KEYS_AT_ONCE + PAGE


class Listed:
    """A storage that lists many chunks, a page at a time."""

    async def older(self, prefix: str, _age: timedelta) -> AsyncIterator[list[str]]:
        if prefix == CHUNKS:
            for first in range(0, OBJECTS, PAGE):
                yield [f"{CHUNKS}{number:064x}" for number in range(first, first + PAGE)]


class AllHeld:
    """Trees that have every chunk; it counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def unused(self, *_: object) -> set[str]:
        return set()

    async def held(self, objects: Collection[str]) -> set[str]:
        self.asked.append(len(objects))
        return set(objects)


async def test_many_objects_are_looked_for_in_the_trees_at_once() -> None:
    trees = AllHeld()
    sweeper = TreeSweeper(cast(Any, trees), cast(Any, Listed()), SystemClock(), SystemIds())

    assert await sweeper.run_once() == 0

    assert trees.asked == [KEYS_AT_ONCE, PAGE]
