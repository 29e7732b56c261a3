"""Queries on the sessions of browsers; an ended session is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers

OF_USER_MAX: Final = 10  # sessions of a user that are looked at for a token, the newest


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

    @answers()
    async def of_user(self, user: str) -> list[Document]:
        """Return the newest sessions of a user that keep tokens."""
        found = self.db.sessions.find({"keyHash": user, "grant": {"$exists": True}})
        return await found.sort("createdAt", -1).limit(OF_USER_MAX).to_list()

    @answers()
    async def use(self, name: str, until: datetime) -> bool:
        """Note that what may be used once was used; False where it was before."""
        try:
            await self.db.sessions.insert_one({"_id": name, "expiresAt": until})
        except DuplicateKeyError:
            return False
        return True

    @answers()
    async def take_turn(self, session_id: str, revision: int, now: datetime, until: datetime) -> bool:
        """Take the turn to refresh the tokens of this revision; False where another has it."""
        is_free = {"$or": [{"grant.turnUntil": None}, {"grant.turnUntil": {"$lte": now}}]}
        changed = await self.db.sessions.update_one(
            {"_id": session_id, "grant.revision": revision, **is_free}, {"$set": {"grant.turnUntil": until}}
        )
        return changed.modified_count == 1

    @answers()
    async def leave_turn(self, session_id: str, revision: int) -> None:
        """Let another refresh the tokens of this revision."""
        await self.db.sessions.update_one(
            {"_id": session_id, "grant.revision": revision}, {"$set": {"grant.turnUntil": None}}
        )

    @answers()
    async def regrant(self, session_id: str, revision: int, fields: Mapping[str, Any]) -> bool:
        """Put new tokens in the place of those of a revision; False where the session is over."""
        changed = await self.db.sessions.update_one(
            {"_id": session_id, "grant.revision": revision}, {"$set": dict(fields)}
        )
        return changed.matched_count == 1
