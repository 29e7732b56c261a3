"""Runs every race with its bug and without, and says which invariant saw the bug."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.chaos.bugs import BUGS, PRODUCT, Parts
from scripts.chaos.evidence import Violation
from scripts.chaos.races import RACES, Race
from scripts.chaos.scene import Scene


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


def run_control(name: str, url_of: Callable[[str], str], home: Path) -> Verdict:
    """Run the race of a bug twice, each on a database of its own."""
    outcomes = [
        asyncio.run(run_race(RACES[name], url_of(kind), home / kind, parts))
        for kind, parts in (("with", BUGS[name]), ("without", PRODUCT))
    ]
    return Verdict(name, *(tuple(each) for each in outcomes))


async def run_race(race: Race, url: str, home: Path, parts: Parts) -> list[Violation]:
    """Run a race to its rest, and check what it leaves."""
    async with Scene(url, home, parts) as scene:
        await race(scene)
        await scene.rest()
        return await scene.violations()
