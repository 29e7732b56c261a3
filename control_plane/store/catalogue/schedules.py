"""Queries on schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.lifecycle import FINAL

RUNS_LOOKED_AT: Final = 20

_NEWEST: Final[Order] = (("createdAt", -1), ("_id", -1))


@dataclass(frozen=True, slots=True)
class Schedules:
    """Reads of schedules, and their changes: each a compare-and-set on `revision`."""

    db: Database

    @answers()
    async def now(self) -> datetime:
        """Return the store's clock, by which everything is due."""
        cursor = await self.db.aggregate([{"$documents": [{}]}, {"$set": {"now": "$$NOW"}}])
        (answer,) = await cursor.to_list()
        now: datetime = answer["now"]
        return now

    @answers()
    async def create(self, schedule_id: str, fields: Document) -> Document | None:
        """Store a new schedule and return it; None where the id is taken."""
        stamps = {"createdAt": True, "updatedAt": True}
        fresh = {**fields, "revision": 1}
        try:
            return await self.db.schedules.find_one_and_update(
                {"_id": schedule_id, "revision": {"$exists": False}},
                {"$setOnInsert": fresh, "$currentDate": stamps},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None

    @answers()
    async def find(self, schedule_id: str) -> Document | None:
        """Return one schedule."""
        return await self.db.schedules.find_one({"_id": schedule_id})

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of schedules, newest first."""
        return await read_page(
            self.db, Wanted(collection="schedules", order=_NEWEST, after=after, limit=limit)
        )

    @answers()
    async def change(self, schedule: Document, fields: Document) -> Document | None:
        """Set `fields` if the schedule is still what was read, and return it; else None."""
        return await self.db.schedules.find_one_and_update(
            {"_id": schedule["_id"], "revision": schedule["revision"]},
            {"$set": fields, "$inc": {"revision": 1}, "$currentDate": {"updatedAt": True}},
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def delete(self, schedule_id: str) -> bool:
        """Remove a schedule; its runs stay. False where there is none."""
        result = await self.db.schedules.delete_one({"_id": schedule_id})
        return result.deleted_count == 1

    @answers()
    async def due(self, limit: int) -> list[Document]:
        """Return schedules whose next slot has come by the store's clock, which each carries as `now`."""
        come = {"nextAt": {"$type": "date"}, "$expr": {"$lte": ["$nextAt", "$$NOW"]}}
        cursor = await self.db.schedules.aggregate(
            [{"$match": come}, {"$sort": {"nextAt": 1}}, {"$limit": limit}, {"$set": {"now": "$$NOW"}}]
        )
        return await cursor.to_list()

    @answers()
    async def is_busy(self, label: str, run_id: str) -> bool:
        """Say whether a run with this label, other than `run_id`, is not over; looks at the newest."""
        cursor = self.db.runs.find({"labelList": label}, {"status": 1}).sort("_id", -1).limit(RUNS_LOOKED_AT)
        return any(run["status"] not in FINAL and run["_id"] != run_id for run in await cursor.to_list())
