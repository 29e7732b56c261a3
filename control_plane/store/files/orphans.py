"""Queries on objects of runs: which runs are over for long, and which objects a document names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import FINAL

_FINAL: Final = sorted(status.value for status in FINAL)


@dataclass(frozen=True, slots=True)
class OrphanReads:
    """Reads what names the objects of runs, and forgets what was read of those that went."""

    db: Database

    @answers()
    async def may_upload(self, runs: Collection[str], ended: datetime) -> set[str]:
        """Return those of some runs that are not over, or have ended after a moment, or whose log is open."""
        over: Document = {"status": {"$in": _FINAL}, "finishedAt": {"$lt": ended}, "logOpen": {"$ne": True}}
        found: set[str] = set()
        for queue in QUEUES:
            wanted = {"_id": {"$in": [*runs]}, "$nor": [over]}
            found |= {each["_id"] async for each in self.db[queue].find(wanted, {"_id": 1})}
        return found

    @answers()
    async def with_trees(self, runs: Collection[str]) -> set[str]:
        """Return those of some runs whose files are a tree: it names their objects itself."""
        found = self.db.trees.find({"run": {"$in": [*runs]}}, {"run": 1})
        return {each["run"] async for each in found}

    @answers()
    async def registered(self, run_id: str, keys: Collection[str]) -> set[str]:
        """Return those of some objects under which an artifact of a run is registered."""
        found = self.db.artifacts.find({"runId": run_id, "key": {"$in": [*keys]}}, {"key": 1})
        return {each["key"] async for each in found}

    @answers()
    async def forget(self, keys: Collection[str]) -> None:
        """Remove the notes of what was read of objects that are gone."""
        await self.db.inspections.delete_many({"_id": {"$in": [*keys]}})
