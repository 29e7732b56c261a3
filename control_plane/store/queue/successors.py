"""Queries on runs that wait for others, and on those that they wait for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from control_plane.model.run import Run
from control_plane.model.views.readable import UnreadableDocument, reading_of
from control_plane.store.database import Database, Document, answers
from control_plane.store.queue.runs import decode
from events.kinds.declaring.queues import RUNS
from events.lifecycle import Status

PAGE_MAX: Final = 100  # of the runs that wait; each names 64 others at most
_WAITS: Final = {"status": Status.DELAYED.value, "waitsForRuns": True}


@dataclass(frozen=True, slots=True)
class Successors:
    """Reads the runs that wait for others. Each read is bounded, and seeks in an index."""

    db: Database

    async def waiting(self, after: str) -> list[Run]:
        """Return the next runs that wait for others, behind an id."""
        return await self._read({**_WAITS, "_id": {"$gt": after}}, "waiting")

    async def waiting_for(self, run_ids: Collection[str], after: str) -> list[Run]:
        """Return the next runs that wait for one of these, behind an id."""
        wanted = {**_WAITS, "after": {"$in": sorted(run_ids)}, "_id": {"$gt": after}}
        return await self._read(wanted, "by_predecessor")

    @answers()
    async def standing(self, run_ids: Collection[str]) -> dict[str, Document]:
        """Return of each of these runs its status, and whether more of its log is to come."""
        fields = {"status": 1, "logOpen": 1}
        found = self.db[RUNS.collection].find({"_id": {"$in": sorted(run_ids)}}, fields)
        return {each["_id"]: each async for each in found}

    @answers()
    async def retried(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return of each of these runs that was run again the newest of its retries."""
        found = self.db[RUNS.collection].find({"parentRunId": {"$in": [*run_ids]}}, {"parentRunId": 1})
        newest = found.hint("by_parent").sort("_id", 1).limit(PAGE_MAX)
        return {each["parentRunId"]: each["_id"] async for each in newest}

    @answers()
    async def _read(self, wanted: Document, index: str) -> list[Run]:
        """Return a page of runs; a damaged one holds up no other, and is not among them."""
        runs: list[Run] = []
        while True:
            room = PAGE_MAX - len(runs)
            query = self.db[RUNS.collection].find(wanted).hint(index).sort("_id", 1).limit(room)
            found = await query.to_list()
            for each in found:
                with suppress(UnreadableDocument), reading_of("run", each["_id"]):
                    runs.append(decode(each))
            if len(found) < room or len(runs) == PAGE_MAX:
                return runs
            wanted = {**wanted, "_id": {"$gt": found[-1]["_id"]}}
