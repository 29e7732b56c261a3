"""Queries on hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Slice, Wanted, read_page
from events.journal import expression


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """Reads and inserts hypotheses."""

    db: Database

    async def insert(self, hypothesis: Document) -> None:
        """Store a new hypothesis, stamped by the store's clock."""
        fields = {name: expression(value) for name, value in hypothesis.items()}
        pipeline = [{"$set": {**fields, "createdAt": "$$NOW"}}]
        async with answers():
            await self.db.hypotheses.update_one({"_id": hypothesis["_id"]}, pipeline, upsert=True)

    async def find(self, hypothesis_id: str) -> Document | None:
        """Return a hypothesis, with the state of its ideation as the queue has it now."""
        async with answers():
            hypothesis = await self.db.hypotheses.find_one({"_id": hypothesis_id})
            if hypothesis is None or hypothesis["ideation"] is None:
                return hypothesis
            request = await self.db.ideation_requests.find_one({"_id": hypothesis["ideation"]["requestId"]})
        if request is not None:
            hypothesis["ideation"] |= {"status": request["status"], "error": request["error"]}
        return hypothesis

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of hypotheses, newest first."""
        return await read_page(self.db, Wanted(collection="hypotheses", after=after, limit=limit))
