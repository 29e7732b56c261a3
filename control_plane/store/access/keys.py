"""Queries on keys. A key is never deleted, because the audit log refers to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page

_NEWEST: Final[Order] = (("createdAt", -1), ("_id", -1))


@dataclass(frozen=True, slots=True)
class Keys:
    """Reads of keys, and their changes, each of one document."""

    db: Database

    @answers()
    async def create(self, document: Document) -> None:
        """Store a new key."""
        await self.db.api_keys.insert_one(document)

    @answers()
    async def find(self, key_id: str) -> Document | None:
        """Return one key, whether it opens anything or not."""
        return await self.db.api_keys.find_one({"_id": key_id})

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of keys, the newest first."""
        wanted = Wanted(collection="api_keys", order=_NEWEST, after=after, limit=limit)
        return await read_page(self.db, wanted)

    @answers()
    async def has_any(self, scope: str) -> bool:
        """Say whether a key with this scope was ever made."""
        return await self.db.api_keys.find_one({"scopes": scope}, {"_id": 1}) is not None

    @answers()
    async def succeed(self, key_id: str, successor: str, until: datetime) -> Document | None:
        """Let a key end at `until`, or earlier; None where it has a successor already, or is revoked."""
        return await self.db.api_keys.find_one_and_update(
            {"_id": key_id, "successor": None, "revokedAt": None},
            [{"$set": {"successor": successor, "endsAt": {"$min": ["$endsAt", until]}}}],
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def revoke(self, key_id: str, by: str) -> Document | None:
        """Let a key open nothing from now on; again changes nothing. None where there is no such key."""
        await self.db.api_keys.update_one(
            {"_id": key_id, "revokedAt": None},
            {"$set": {"revokedBy": by}, "$currentDate": {"revokedAt": True}},
        )
        return await self.find(key_id)

    @answers()
    async def used(self, key_id: str, at: datetime) -> None:
        """Remember when a key was last used; never an earlier moment."""
        await self.db.api_keys.update_one({"_id": key_id}, {"$max": {"lastUsedAt": at}})
