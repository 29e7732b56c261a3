"""Queries on `lease_watches`, one document per queue: how long it was served, and which leases are over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pymongo import ReturnDocument

from control_plane.model.lease_watch import Overdue, Watch
from control_plane.store.database import Database, Document, answers


@dataclass(frozen=True, slots=True)
class LeaseWatches:
    """Reads and compare-and-sets of the watch over the leases of a queue."""

    db: Database

    @answers()
    async def read(self, queue: str) -> tuple[Watch | None, datetime]:
        """Return the watch of a queue, None before the first look, and the moment by the store's clock."""
        document = await self.db.lease_watches.find_one_and_update(
            {"_id": queue},
            [{"$set": {"readAt": "$$NOW"}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert document is not None, "an upsert answers with its document"
        return _watch(document), document["readAt"]

    @answers()
    async def known(self, queue: str) -> Watch | None:
        """Return the watch of a queue, and write nothing."""
        return _watch(await self.db.lease_watches.find_one({"_id": queue}) or {})

    @answers()
    async def keep(self, queue: str, before: Watch | None, watch: Watch) -> bool:
        """Store the watch; False if another replica has looked meanwhile."""
        looked = {"$exists": False} if before is None else before.looked_at
        overdue = [
            {"run": run_id, "attempt": each.attempt, "renewals": each.renewals, "sinceS": each.since_s}
            for run_id, each in watch.overdue.items()
        ]
        fields = {"lookedAt": watch.looked_at, "servedS": watch.served_s, "overdue": overdue}
        result = await self.db.lease_watches.update_one({"_id": queue, "lookedAt": looked}, {"$set": fields})
        return bool(result.matched_count)


def _watch(document: Document) -> Watch | None:
    if "lookedAt" not in document:
        return None
    overdue = {
        each["run"]: Overdue(each["attempt"], each["renewals"], each["sinceS"])
        for each in document["overdue"]
    }
    return Watch(document["lookedAt"], document["servedS"], overdue)
