"""Runs every race with its bug and without, and says which invariant saw the bug."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient

from testing.chaos.bugs import BUGS, PRODUCT, Parts, leave_schema
from testing.chaos.checking.evidence import Violation
from testing.chaos.controls.failover import claimed_on_a_minority
from testing.chaos.controls.races import RACES, Race
from testing.chaos.controls.scene import Scene
from testing.chaos.system.cluster import Cluster

W1: Final = "w:1"
NAMES: Final = tuple(BUGS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker said of one race, with its bug and without."""

    name: str
    with_bug: tuple[Violation, ...]
    without: tuple[Violation, ...]

    @property
    def is_right(self) -> bool:
        """Red where the bug is, green where it is not."""
        return bool(self.with_bug) and not self.without

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The invariants that saw the bug."""
        return tuple(dict.fromkeys(each.invariant for each in self.with_bug))

    def lines(self) -> Iterator[str]:
        """Yield the verdict for people."""
        yield f"{self.name}: {'caught' if self.is_right else 'NOT AS IT SHOULD BE'}"
        yield from (f"    by: {invariant}" for invariant in self.caught_by)
        yield from (f"    without the bug: {each.invariant} | {each.message}" for each in self.without)


def run_control(name: str, cluster: Cluster, home: Path) -> Verdict:
    """Run the race of a bug twice, each on an empty database; its indexes are made once."""
    race = claimed_on_a_minority(cluster) if name == W1 else RACES[name]
    place = name.replace(" ", "_").replace(":", "_").replace("-", "_")
    outcomes: list[tuple[Violation, ...]] = []
    for kind, parts in (("with", BUGS[name]), ("without", PRODUCT)):
        with _emptied(cluster.url("races"), parts) as url:
            outcomes.append(tuple(asyncio.run(run_race(race, Scene(url, home / place / kind, parts)))))
    return Verdict(name, *outcomes)


@contextmanager
def _emptied(url: str, parts: Parts) -> Iterator[str]:
    """Delete every document first, and afterwards what `parts` made of the schema."""
    with MongoClient[dict[str, Any]](url) as client:
        db = client.get_default_database()
        for name in db.list_collection_names():
            db[name].delete_many({})
        try:
            yield url
        finally:
            if parts.schema is not leave_schema:
                db.drop_collection("events")  # the next migration makes it anew


async def run_race(race: Race, scene: Scene) -> list[Violation]:
    """Run a race to its rest, and check what it leaves."""
    async with scene:
        await race(scene)
        await scene.rest()
        return await scene.violations()
