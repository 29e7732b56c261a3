"""Queries on the audit log: entries are added, and never changed or removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Slice, Wanted, read_page

# The filters that an index serves; the first that is asked for leads.
INDEXED = ("object", "by", "keyId")


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Adds and reads entries."""

    db: Database

    @answers()
    async def add(self, entry: Document) -> None:
        """Keep an entry."""
        await self.db.audit.insert_one(entry)

    @answers()
    async def add_once(self, entry: Document) -> None:
        """Keep an entry unless one of its id is there."""
        await self.db.audit.update_one({"_id": entry["_id"]}, {"$setOnInsert": entry}, upsert=True)

    async def page(self, filters: Mapping[str, str], after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of entries, the newest first."""
        leading = next((name for name in INDEXED if name in filters), None)
        wanted = Wanted(
            collection="audit",
            leading={} if leading is None else {leading: filters[leading]},
            residual={name: value for name, value in filters.items() if name != leading},
            after=after,
            limit=limit,
        )
        return await read_page(self.db, wanted)

    async def all(self, filters: Mapping[str, str]) -> AsyncIterator[Document]:
        """Yield every entry, the oldest first."""
        async with answers():
            async for entry in self.db.audit.find(dict(filters)).sort("_id", 1):
                yield entry
