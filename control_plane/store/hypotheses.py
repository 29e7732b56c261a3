"""Queries on hypotheses and on the specifications of what waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from control_plane.store.database import Database, Document


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """Writes hypotheses and specifications."""

    db: Database

    async def insert(self, hypothesis: Document) -> None:
        """Store a new hypothesis."""
        await self.db.hypotheses.insert_one(hypothesis)

    async def find(self, hypothesis_id: str) -> Document | None:
        """Return a hypothesis as it is stored."""
        return await self.db.hypotheses.find_one({"_id": hypothesis_id})

    async def insert_spec(self, spec: Document) -> None:
        """Store the snapshot of what a run shall do, before the run itself."""
        await self.db.run_specs.insert_one(spec)

    async def spec(self, run_id: str) -> Document | None:
        """Return the snapshot of a run."""
        return await self.db.run_specs.find_one({"_id": run_id})

    async def enqueue(self, collection: str, run_id: str, creation: list[dict[str, Any]]) -> None:
        """Create a claimable document. Raises `DuplicateKeyError` when its idempotency key is taken."""
        await self.db[collection].update_one(
            {"_id": run_id, "revision": {"$exists": False}}, creation, upsert=True
        )

    async def by_idempotency_key(self, key: str) -> Document | None:
        """Return the run that was submitted under this key."""
        return await self.db.runs.find_one({"idempotency.key": key})
