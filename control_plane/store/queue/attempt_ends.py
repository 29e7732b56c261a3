"""Queries on the ends of attempts: who held them, with which key, and of which class their runs are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.model.ownership import IMPORTED
from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES

ENDS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class AttemptEnds:
    """Bounded reads of the ends of attempts, as their decisions tell them."""

    db: Database

    @answers()
    async def newest(self, since: datetime) -> list[Document]:
        """Return the attempts that ended since then, the newest first, at most `ENDS_MAX`."""
        fields = ("runId", "attempt", "pod", "claimedAt", "endedAt", "outcome", "code")
        wanted = {"endedAt": {"$gte": since}, IMPORTED: None}
        cursor = self.db.attempts.find(wanted, dict.fromkeys(fields, 1))
        return await cursor.sort("endedAt", -1).limit(ENDS_MAX).to_list()

    @answers()
    async def classes(self, run_ids: Iterable[str]) -> dict[str, Any]:
        """Return the class of each of these runs."""
        return await self._of(QUEUES, run_ids, "classKey")

    @answers()
    async def keys(self, pod_ids: Iterable[str]) -> dict[str, Any]:
        """Return the key with which each of these workers reports; one that never did is left out."""
        return await self._of(("pods",), pod_ids, "keyId")

    async def _of(self, collections: Iterable[str], ids: Iterable[str], field: str) -> dict[str, Any]:
        wanted = {"_id": {"$in": list(ids)}}
        found = [await self.db[name].find(wanted, {field: 1}).to_list() for name in collections]
        return {each["_id"]: each.get(field) for documents in found for each in documents}
