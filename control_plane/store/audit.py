"""Queries of the audit: whole runs and their whole logs, read and never written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from control_plane.store.database import Database, Document
from control_plane.store.schema import QUEUES


@dataclass(frozen=True, slots=True)
class AuditReads:
    """Reads what is compared."""

    db: Database

    async def run_ids(self) -> AsyncIterator[tuple[str, str]]:
        """Yield the collection and id of every run."""
        for collection in QUEUES:
            async for document in self.db[collection].find({}, {"_id": 1}).sort("_id"):
                yield collection, document["_id"]

    async def run(self, collection: str, run_id: str) -> Document | None:
        """Return a run as it is stored."""
        return await self.db[collection].find_one({"_id": run_id})

    async def history(self, run_id: str) -> list[Document]:
        """Return a run's whole log: decisions and numbered events."""
        query = {"runId": run_id, "$or": [{"sequence": {"$exists": True}}, {"revision": {"$exists": True}}]}
        return [document async for document in self.db.events.find(query)]

    async def document(self, collection: str, identity: str) -> Document | None:
        """Return one document."""
        return await self.db[collection].find_one({"_id": identity})
