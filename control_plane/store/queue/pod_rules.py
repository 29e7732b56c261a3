"""Queries on `cordons`, one document a pod's name, and on `quarantines`, one document for the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.store.database import Database, Document, answers
from events.queue.journal import ServerTime, expression
from events.queue.rules import FLEET, Rules, cordon_at

CORDONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RuleStore:
    """Reads and writes the rules that keep pods from claiming."""

    db: Database

    @answers()
    async def now(self) -> datetime:
        """Return the moment by the store's clock."""
        told: datetime = (await self.db.command("hello"))["localTime"]
        return told

    @answers()
    async def in_force(self) -> Rules:
        """Return every rule in force by the store's clock; of cordons `CORDONS_MAX`."""
        now = await self.now()
        cordons = await self.db.cordons.find().sort("_id", 1).limit(CORDONS_MAX).to_list()
        standing = {each["_id"]: rule for each in cordons if (rule := cordon_at(each, now)) is not None}
        return Rules(standing, await self.db.quarantines.find_one({"_id": FLEET}))

    @answers()
    async def cordon(
        self, pod: str, reason: str, by: str, until: datetime | None, for_s: float | None
    ) -> None:
        """Keep a pod from claiming, until a moment, for some seconds, or until somebody lifts it."""
        ends: Any = until if for_s is None else expression(ServerTime(for_s))
        words = {"reason": {"$literal": reason}, "by": {"$literal": by}}
        fields = {**words, "since": "$$NOW", "until": ends}
        await self.db.cordons.update_one({"_id": pod}, [{"$set": fields}], upsert=True)

    @answers()
    async def uncordon(self, pod: str) -> bool:
        """Lift a cordon; False where there was none."""
        return bool((await self.db.cordons.delete_one({"_id": pod})).deleted_count)

    @answers()
    async def quarantines(self) -> Document:
        """Return the document of quarantines, as it begins where nobody has written it."""
        return await self.db.quarantines.find_one({"_id": FLEET}) or {"_id": FLEET, "revision": 0, "pods": []}

    @answers()
    async def keep(self, before: Document, pods: list[Document]) -> bool:
        """Store the quarantines; False if somebody has changed them since `before` was read."""
        revision = before["revision"]
        fields = {"pods": pods, "revision": revision + 1}
        if revision == 0:
            update = {"$setOnInsert": fields}
            made = await self.db.quarantines.update_one({"_id": FLEET}, update, upsert=True)
            return made.upserted_id is not None
        result = await self.db.quarantines.update_one({"_id": FLEET, "revision": revision}, {"$set": fields})
        return bool(result.matched_count)
