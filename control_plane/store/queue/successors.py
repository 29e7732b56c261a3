"""Queries on runs that wait for others, and on those that they wait for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.status import GroupStatus
from control_plane.model.run import Run
from control_plane.model.views.readable import UnreadableDocument, reading_of
from control_plane.store.database import Database, Document, answers
from control_plane.store.queue.runs import decode
from events.kinds.declaring.queues import RUNS
from events.lifecycle import Status
from events.text.predecessors import OF_GROUP, group_in

PAGE_MAX: Final = 100  # of the runs that wait; each names 64 others at most
_WAITS: Final = {"status": Status.DELAYED.value, "waitsForRuns": True}
# Where a group stands, as if it were a run: what waits for it waits while it goes on.
_AS_OF_RUN: Final = {
    GroupStatus.COMPLETED: Status.COMPLETED,
    GroupStatus.FAILED: Status.FAILED,
    GroupStatus.CANCELED: Status.CANCELED,
}

_GROUP: Final = frozenset(each.value for each in GroupStatus)


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
    async def standing(self, names: Collection[str]) -> dict[str, Document]:
        """Return of each of these runs and groups its status, and whether more of its log is to come.

        A group has the status of a run: RUNNING until it is closed.
        """
        fields = {"status": 1, "logOpen": 1}
        groups = sorted(each for each in map(group_in, names) if each is not None)
        run_ids = sorted(each for each in names if group_in(each) is None)
        found = self.db[RUNS.collection].find({"_id": {"$in": run_ids}}, fields)
        standing = {each["_id"]: each async for each in found}
        if groups:
            async for each in self.db.groups.find({"_id": {"$in": groups}}, {"status": 1, "first": 1}):
                standing[f"{OF_GROUP}{each['_id']}"] = await self._of_group(each)
        return standing

    async def _of_group(self, group: Document) -> Document:
        status = group.get("status")
        stands = (
            _AS_OF_RUN.get(GroupStatus(status), Status.RUNNING)
            if isinstance(status, str) and status in _GROUP
            else Status.RUNNING
        )
        is_open = stands is Status.COMPLETED and await self._has_open_log(group)
        return {"status": stands.value, "logOpen": is_open}

    async def _has_open_log(self, group: Document) -> bool:
        """Say whether a member of this round may register further files."""
        wanted: dict[str, Any] = {"groupId": group["_id"], "slot": {"$gte": group.get("first", 0)}}
        found = self.db[RUNS.collection].find({**wanted, "logOpen": True}, {"_id": 1}).limit(1)
        return bool(await found.to_list())

    @answers()
    async def titles(self, run_ids: Collection[str]) -> dict[str, Any]:
        """Return the titles of these runs."""
        found = self.db[RUNS.collection].find({"_id": {"$in": sorted(run_ids)}}, {"title": 1})
        return {each["_id"]: each.get("title") async for each in found}

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
