"""Queries on tombstones: what is left of runs and hypotheses that were deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers
from events.queue.journal import expression

PAGE_MAX: Final = 20  # that one round works on


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Puts tombstones, and notes how far the removal behind each of them is. None is ever removed."""

    db: Database

    @answers()
    async def find(self, identity: str) -> Document | None:
        """Return the tombstone of a run or a hypothesis."""
        return await self.db.tombstones.find_one({"_id": identity})

    @answers()
    async def put(self, identity: str, fields: Mapping[str, Any]) -> None:
        """Put a tombstone, by the store's clock; of one that is there only what it tells is renewed."""
        told = {name: expression(value) for name, value in fields.items()}
        first = {
            name: {"$ifNull": [f"${name}", value]}
            for name, value in {"deletedAt": "$$NOW", "dueAt": "$$NOW", "by": told.pop("by")}.items()
        }
        try:
            await self.db.tombstones.update_one(
                {"_id": identity}, [{"$set": {**told, **first, "tries": 0}}], upsert=True
            )
        except DuplicateKeyError:  # another replica put it at this moment
            await self.put(identity, fields)

    @answers()
    async def due(self) -> list[Document]:
        """Return tombstones behind which something is to be removed now, by the store's clock."""
        wanted = {"dueAt": {"$type": "date"}, "$expr": {"$lte": ["$dueAt", "$$NOW"]}}
        return await self.db.tombstones.find(wanted).sort("dueAt", 1).limit(PAGE_MAX).to_list()

    @answers()
    async def look_again(self, identity: str, after_s: float) -> None:
        """Note that all was removed, and that somebody looks once more for what came too late."""
        later = {"$dateAdd": {"startDate": "$$NOW", "unit": "second", "amount": int(after_s)}}
        sets = {"removedAt": "$$NOW", "dueAt": later, "tries": 0, "trouble": None}
        await self.db.tombstones.update_one({"_id": identity, "removedAt": None}, [{"$set": sets}])

    @answers()
    async def conclude(self, identity: str) -> None:
        """Note that nothing can come any more."""
        sets = {"dueAt": None, "tries": 0, "trouble": None}
        await self.db.tombstones.update_one({"_id": identity}, {"$set": sets})

    @answers()
    async def postpone(self, identity: str, tries: int, after_s: float, trouble: str) -> None:
        """Note what keeps the rest from being removed, and when it is tried again."""
        later = {"$dateAdd": {"startDate": "$$NOW", "unit": "second", "amount": int(after_s)}}
        sets = {"dueAt": later, "tries": tries, "trouble": {"$literal": trouble}}
        await self.db.tombstones.update_one({"_id": identity}, [{"$set": sets}])
