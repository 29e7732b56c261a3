"""Queries for what webhooks are told of, and on the cursor up to which that was gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from control_plane.model.groups.status import CLOSED
from control_plane.model.ownership import IMPORTED
from control_plane.store.database import Database, Document, answers, moment
from events.kinds.declaring.queues import RUNS
from events.lifecycle import Status

FLEET: Final = "fleet"  # the id of the one document
BATCH_MAX: Final = 1_000
_RUN: Final[Document] = dict.fromkeys(
    ("kind", "title", "status", "classKey", "labels", "attempt", "error", "summary", "finishedAt"), 1
) | {"journal": {"$slice": 1}}


@dataclass(frozen=True, slots=True)
class NotificationSources:
    """Bounded reads of what happened since a moment."""

    db: Database

    async def now(self) -> datetime:
        """Return the moment by the store's clock. Raises `Transient`."""
        return await moment(self.db)

    @answers()
    async def cursor(self) -> Document | None:
        """Return up to when everything was gathered: `since`, and the `revision` of that."""
        return await self.db.notification_cursors.find_one({"_id": FLEET})

    @answers()
    async def move(self, revision: int, since: datetime) -> bool:
        """Move the cursor, if nobody has since `revision`; 0 where there is none."""
        new = {"_id": FLEET, "since": since, "revision": revision + 1}
        try:
            done = await self.db.notification_cursors.replace_one(
                {"_id": FLEET, "revision": revision}, new, upsert=revision == 0
            )
        except DuplicateKeyError:
            return False
        return bool(done.matched_count or done.upserted_id is not None)

    @answers()
    async def ended(self, since: datetime, until: datetime) -> list[Document]:
        """Return the runs that ended in this time, the oldest first, at most `BATCH_MAX`."""
        wanted = {"finishedAt": {"$gte": since, "$lte": until}, "importedFrom": None}
        found = self.db[RUNS.collection].find(wanted, _RUN)
        return await found.sort("finishedAt", 1).limit(BATCH_MAX).to_list()

    @answers()
    async def completed_attempts(self, since: datetime, until: datetime) -> list[Document]:
        """Return the attempts that completed in this time, the oldest first, at most `BATCH_MAX`."""
        wanted = {"endedAt": {"$gte": since, "$lte": until}, "outcome": "completed", IMPORTED: None}
        found = self.db.attempts.find(wanted, {"runId": 1, "endedAt": 1})
        return await found.sort("endedAt", 1).limit(BATCH_MAX).to_list()

    @answers()
    async def awaiting_review(self, run_ids: Sequence[str]) -> list[Document]:
        """Return those of these runs that wait for a person's verdict."""
        wanted = {"_id": {"$in": list(run_ids)}, "status": Status.AWAITING_HUMAN.value}
        return await self.db[RUNS.collection].find(wanted, _RUN).to_list()

    @answers()
    async def submitters(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """Return who submitted each of these runs, as far as the log tells."""
        wanted = {"runId": {"$in": list(run_ids)}, "revision": 1}
        found = self.db.events.find(wanted, {"runId": 1, "data.by": 1})
        return {each["runId"]: (each.get("data") or {}).get("by") for each in await found.to_list()}

    @answers()
    async def closed_groups(self, since: datetime, until: datetime) -> list[Document]:
        """Return the closed groups that changed in this time, the oldest first, at most `BATCH_MAX`."""
        wanted = {"updatedAt": {"$gte": since, "$lte": until}, "status": {"$in": sorted(CLOSED)}}
        fields = ("run", "counts", "journal", "revision", "createdBy", "updatedAt")
        found = self.db.groups.find(wanted, dict.fromkeys(fields, 1))
        return await found.sort("updatedAt", 1).limit(BATCH_MAX).to_list()

    @answers()
    async def failed_schedules(self, since: datetime, until: datetime) -> list[Document]:
        """Return the schedules that changed in this time, and whose last slot was refused."""
        wanted = {"error": {"$type": "object"}, "updatedAt": {"$gte": since, "$lte": until}}
        fields = ("run", "error", "createdBy", "updatedAt")
        found = self.db.schedules.find(wanted, dict.fromkeys(fields, 1))
        return await found.sort("updatedAt", 1).limit(BATCH_MAX).to_list()
