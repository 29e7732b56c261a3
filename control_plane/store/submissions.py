"""Queries that create work: specifications, and claimable documents that point to them."""

from __future__ import annotations

from dataclasses import dataclass

from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers


@dataclass(frozen=True, slots=True)
class Submissions:
    """Writes specifications and claimable documents."""

    db: Database

    async def insert_spec(self, spec: Document) -> None:
        """Store the snapshot of what a run shall do, before the run itself."""
        async with answers():
            await self.db.run_specs.insert_one(spec)

    async def spec(self, run_id: str) -> Document | None:
        """Return the snapshot of a run."""
        async with answers():
            return await self.db.run_specs.find_one({"_id": run_id})

    async def enqueue(self, collection: str, run_id: str, creation: list[Document]) -> bool:
        """Create a claimable document; False when its idempotency key is taken."""
        async with answers():
            try:
                await self.db[collection].update_one({"_id": run_id}, creation, upsert=True)
            except DuplicateKeyError:
                return False
        return True

    async def drop_spec(self, run_id: str) -> None:
        """Remove the snapshot of a run that came to nothing."""
        async with answers():
            await self.db.run_specs.delete_one({"_id": run_id})

    async def wishes(self, run_id: str) -> Document | None:
        """Return what the submitter of a run wished beside its specification: priority and labels."""
        async with answers():
            return await self.db.runs.find_one({"_id": run_id}, {"priority": 1, "labels": 1})

    async def by_idempotency_key(self, key: str) -> Document | None:
        """Return the run that was submitted under this key."""
        async with answers():
            return await self.db.runs.find_one({"idempotency.key": key})
