"""Queries on the times of pods: the lives of workers, and the attempts that they held."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.ownership import IMPORTED
from control_plane.model.run import Entry
from control_plane.store.database import Database, Document, answers
from control_plane.store.log.pod_lives import with_lives
from control_plane.store.queue.runs import Runs
from events.kinds.declaring.queues import QUEUES

HELD_MAX: Final = 120_000  # of one reading: some 150 MB
WORKERS_MAX: Final = 20_000
LATER_MAX: Final = 50_000
ATTEMPTS_MAX: Final = 10_000  # of a run
# An attempt that ended so long after the window is not looked for: none takes longer.
AFTER: Final = timedelta(days=30)
_HELD: Final = dict.fromkeys(
    ("runId", "attempt", "pod", "claimedAt", "endedAt", "outcome", "code", "fault", "marks"), 1
)
_WORKER: Final = dict.fromkeys(("startedAt", "reportedAt", "usdPerHour", "capabilities.gpus.name"), 1)


@dataclass(frozen=True, slots=True)
class HeldTimes:
    """Bounded reads of who was held by whom, and when."""

    db: Database

    @answers()
    async def workers(self, since: datetime, until: datetime) -> list[Document]:
        """Return workers that lived in a window, at most `WORKERS_MAX`, those that reported last first."""
        wanted = {"reportedAt": {"$gte": since}, "startedAt": {"$lt": until}}
        order = [("reportedAt", -1)]
        return await with_lives(self.db, wanted, _WORKER, sort=order, limit=WORKERS_MAX)

    @answers()
    async def held(self, since: datetime, until: datetime) -> list[Document]:
        """Return the attempts that were held in a window, at most `HELD_MAX`, the open ones first."""
        begun: Document = {"claimedAt": {"$lt": until}, IMPORTED: None}
        found: list[Document] = []
        for ended in (None, {"$gte": since, "$lt": until + AFTER}):
            cursor = self.db.attempts.find({"endedAt": ended, **begun}, _HELD).limit(HELD_MAX - len(found))
            found += await cursor.to_list() if len(found) < HELD_MAX else []
        return found

    @answers()
    async def later(self, runs: Collection[str]) -> list[Document]:
        """Return the marks of all attempts of these runs, at most `LATER_MAX`."""
        fields = {"runId": 1, "attempt": 1, "marks": 1}
        cursor = self.db.attempts.find({"runId": {"$in": list(runs)}}, fields).limit(LATER_MAX)
        return await cursor.to_list()

    @answers()
    async def attempts_of(self, run_id: str) -> tuple[dict[int, Document], Sequence[Entry]]:
        """Return the attempts of a run by number, and the decisions that they do not have yet."""
        found = await self.db.attempts.find({"runId": run_id}, _HELD).limit(ATTEMPTS_MAX).to_list()
        run = await Runs(self.db).find(run_id)
        waiting = () if run is None else run.run.journal
        return {each["attempt"]: each for each in found if isinstance(each.get("attempt"), int)}, waiting

    @answers()
    async def prices(self, workers: Collection[str]) -> dict[str, object]:
        """Return the price of each of these workers, by its id."""
        found = await with_lives(self.db, {"_id": {"$in": list(workers)}}, {"usdPerHour": 1})
        return {each["_id"]: each.get("usdPerHour") for each in found}

    @answers()
    async def fields(self, runs: Collection[str], *names: str) -> dict[str, dict[str, Any]]:
        """Return these fields of runs, by their ids."""
        found: dict[str, dict[str, Any]] = {}
        for queue in QUEUES:
            cursor = self.db[queue].find({"_id": {"$in": list(runs)}}, dict.fromkeys(names, 1))
            found |= {each["_id"]: each async for each in cursor}
        return found
