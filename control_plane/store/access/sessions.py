"""Queries on the sessions of browsers; an ended session is deleted."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.store.database import Database, Document, answers


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions by the digest of what the browser's cookie holds."""

    db: Database

    @answers()
    async def create(self, document: Document, most: int) -> None:
        """Store a new session; of more than `most` of its key the oldest end."""
        await self.db.sessions.insert_one(document)
        own = self.db.sessions.find({"keyHash": document["keyHash"]}, {"_id": 1})
        older = await own.sort("createdAt", -1).skip(most).to_list()
        if older:
            await self.db.sessions.delete_many({"_id": {"$in": [each["_id"] for each in older]}})

    @answers()
    async def find(self, session_id: str) -> Document | None:
        """Return one session."""
        return await self.db.sessions.find_one({"_id": session_id})

    @answers()
    async def take(self, session_id: str) -> Document | None:
        """Remove a session and return it, to one of several concurrent callers."""
        return await self.db.sessions.find_one_and_delete({"_id": session_id})

    @answers()
    async def remove(self, session_id: str) -> None:
        """End a session, if there is one."""
        await self.db.sessions.delete_one({"_id": session_id})
