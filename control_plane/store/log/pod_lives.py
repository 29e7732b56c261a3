"""Queries on workers that are gone: their rows expire, and what the ledger reads of them is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import UpdateOne

from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import HELD

PAGE: Final = 500
KEPT: Final = timedelta(days=400)  # a year of the ledger, and the month in which somebody reads it
_HELD: Final = sorted(status.value for status in HELD)
# What the ledger reads of a worker, and who it was.
LIFE: Final = ("startedAt", "reportedAt", "usdPerHour", "keyId")

Position = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class PodLives:
    """Reads the rows of silent workers, and makes lives of them. Several replicas may do so at once."""

    db: Database

    @answers()
    async def silent(self, before: datetime, after: Position | None) -> list[Document]:
        """Return workers that last reported before a moment, at most `PAGE`, the longest silent first.

        Those follow whose report and id are beyond `after`.
        """
        wanted: Document = {"reportedAt": {"$lt": before}}
        if after is not None:
            at, identity = after
            wanted["reportedAt"]["$gte"] = at
            wanted["$or"] = [{"reportedAt": {"$gt": at}}, {"_id": {"$gt": identity}}]
        fields = dict.fromkeys((*LIFE, "capabilities.gpus.name"), 1)
        return (
            await self.db.pods.find(wanted, fields)
            .sort([("reportedAt", 1), ("_id", 1)])
            .limit(PAGE)
            .to_list()
        )

    @answers()
    async def with_work(self, workers: Collection[str]) -> set[str]:
        """Return those of some workers that own an attempt which has not ended."""
        ids = {"$in": [*workers]}
        found: set[str] = {
            each["pod"] async for each in self.db.attempts.find({"pod": ids, "endedAt": None}, {"pod": 1})
        }
        for queue in QUEUES:
            held = self.db[queue].find({"claimedBy": ids, "status": {"$in": _HELD}}, {"claimedBy": 1})
            found |= {each["claimedBy"] async for each in held}
        return found

    @answers()
    async def retire(self, rows: Sequence[Document], before: datetime) -> int:
        """Keep the lives of workers, then remove the rows of those that are silent still; return how many."""
        if not rows:
            return 0
        # The life is there before the row goes: a reader finds one of them, or both.
        await self.db.pod_lives.bulk_write([_life(row) for row in rows], ordered=False)
        gone = {"_id": {"$in": [row["_id"] for row in rows]}, "reportedAt": {"$lt": before}}
        return (await self.db.pods.delete_many(gone)).deleted_count


def _life(row: Document) -> UpdateOne:
    cards = (row.get("capabilities") or {}).get("gpus")
    sets: Document = {name: row.get(name) for name in LIFE}
    sets |= {"capabilities": {"gpus": cards}, "expiresAt": row["reportedAt"] + KEPT}
    return UpdateOne({"_id": row["_id"]}, {"$set": sets}, upsert=True)


async def with_lives(db: Database, wanted: Document, fields: Document, **options: Any) -> list[Document]:
    """Return rows and lives of workers; of a worker that has both, its row. Options: `sort`, `limit`."""
    rows = await db.pods.find(wanted, fields, **options).to_list()
    known = {each["_id"] for each in rows}
    left = options.get("limit", 0) - len(rows)
    if options.get("limit") and left <= 0:
        return rows
    lives = await db.pod_lives.find(
        wanted, fields, **{**options, **({"limit": left} if left > 0 else {})}
    ).to_list()
    return [*rows, *(each for each in lives if each["_id"] not in known)]
