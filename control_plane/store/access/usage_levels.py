"""Queries on the levels that quotas and disks have reached, and when they did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers

LEVELS_MAX: Final = 20_000  # eight disks of as many pods as can live, and two quotas of each project
BATCH_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class UsageLevels:
    """Reads of levels, and their changes: each a compare-and-set on `revision`."""

    db: Database

    @answers()
    async def all(self) -> list[Document]:
        """Return what has been noted of all uses, `LEVELS_MAX` at most."""
        return await self.db.usage_levels.find().limit(LEVELS_MAX).to_list()

    @answers()
    async def move(self, revision: int, document: Document) -> bool:
        """Put a document in the place of that of `revision`, 0 where there is none; False if it has moved."""
        try:
            done = await self.db.usage_levels.replace_one(
                {"_id": document["_id"], "revision": revision}, document, upsert=revision == 0
            )
        except DuplicateKeyError:
            return False
        return bool(done.matched_count or done.upserted_id is not None)

    @answers()
    async def moved(self, since: datetime, until: datetime) -> list[Document]:
        """Return those that changed in this time, the oldest first, at most `BATCH_MAX`."""
        found = self.db.usage_levels.find({"updatedAt": {"$gte": since, "$lte": until}})
        return await found.sort("updatedAt", 1).limit(BATCH_MAX).to_list()
