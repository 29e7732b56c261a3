"""How much is read at once: a pod decides how much a run has to tell, and anybody how many ask for it."""

from __future__ import annotations

import asyncio
from typing import Any

from control_plane.kinds.experiment.parts import page_of_nodes
from control_plane.reads import paging
from control_plane.reads.reading import LARGE_READS_MAX, Reading
from control_plane.store.pages import Slice
from events.runtime.errors import NotFound
from events.testing import RUN_ID, ManualClock


class Reads:
    """A store that notes how many read at once."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0

    async def _read(self) -> None:
        self.now, self.all = self.now + 1, self.all + 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1

    async def events(self, run_id: str, **_: Any) -> Slice:
        await self._read()
        return Slice([], None)

    async def find(self, run_id: str) -> None:
        await self._read()

    async def spec(self, run_id: str) -> None:
        return None


async def test_of_what_may_be_large_few_are_read_at_once_and_all_in_the_end() -> None:
    reads: Any = Reads()
    nobody: Any = None
    reading = Reading(reads, nobody, nobody, nobody, nobody, nobody, nobody, ManualClock(), nobody)

    async def ask(number: int) -> None:
        try:
            match number % 3:
                case 0:
                    await reading.run(RUN_ID)
                case 1:
                    await page_of_nodes(reading, RUN_ID)
                case _:
                    await reading.events(RUN_ID, after=paging.encode("events, newest first", "p"))
        except NotFound:
            return  # whoever is refused gives his turn back, too

    await asyncio.gather(*(ask(number) for number in range(60)))
    assert (reads.most, reads.all) == (LARGE_READS_MAX, 60)
