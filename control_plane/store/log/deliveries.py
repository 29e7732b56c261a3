"""Queries on deliveries: what is to be sent to webhooks, how often that was tried, and how it went.

Law: whoever claims a delivery raises `tries` and has it for a while; what it writes then is bound to that
number. So several replicas send side by side, and a dead one loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import BulkWriteError

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.runtime.errors import Transient

PENDING: Final = "pending"
DELIVERED: Final = "delivered"
DEAD: Final = "dead"
DUPLICATE: Final = 11_000
REPLAYED_MAX: Final = 1_000  # at once: the next call replays the next ones
_NEWEST: Final[Order] = (("createdAt", -1), ("_id", -1))


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Reads of deliveries, and their changes, each of one document."""

    db: Database

    @answers()
    async def known(self, ids: Sequence[str]) -> set[str]:
        """Return those of these deliveries that are stored."""
        found = await self.db.deliveries.find({"_id": {"$in": list(ids)}}, {"_id": 1}).to_list()
        return {each["_id"] for each in found}

    @answers()
    async def add(self, documents: Sequence[Document]) -> int:
        """Store new deliveries; those that another replica has stored stay. Return how many are new."""
        try:
            return len((await self.db.deliveries.insert_many(documents, ordered=False)).inserted_ids)
        except BulkWriteError as error:
            told = error.details or {}
            if told.get("writeConcernErrors"):
                raise Transient("not_durable", "the deliveries were not confirmed") from error
            if any(each.get("code") != DUPLICATE for each in told.get("writeErrors", ())):
                raise
            return int(told.get("nInserted", 0))

    @answers()
    async def claim(self, webhook_id: str, now: datetime, lease: timedelta) -> Document | None:
        """Take the delivery of a webhook that is due longest, for a while; None where none is due."""
        return await self.db.deliveries.find_one_and_update(
            {"webhookId": webhook_id, "state": PENDING, "dueAt": {"$lte": now}},
            {"$inc": {"tries": 1}, "$set": {"dueAt": now + lease}},
            sort=[("dueAt", 1)],
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def finish(self, delivery: Mapping[str, Any], fields: Document) -> bool:
        """Write how a try ended; False where somebody has claimed the delivery since, or it is gone."""
        mine = {"_id": delivery["_id"], "state": PENDING, "tries": delivery["tries"]}
        return (await self.db.deliveries.update_one(mine, {"$set": fields})).matched_count > 0

    @answers()
    async def find(self, delivery_id: str) -> Document | None:
        """Return one delivery."""
        return await self.db.deliveries.find_one({"_id": delivery_id})

    async def page(
        self, webhook_id: str, state: str | None, after: Sequence[Any] | None, limit: int
    ) -> Slice:
        """Return a page of the deliveries of a webhook, newest first."""
        wanted = Wanted(
            collection="deliveries",
            leading={"webhookId": webhook_id},
            residual={} if state is None else {"state": state},
            order=_NEWEST,
            after=after,
            limit=limit,
        )
        return await read_page(self.db, wanted)

    @answers()
    async def replay(self, webhook_id: str, delivery_id: str | None, fields: Document) -> int:
        """Have a delivery sent again that has ended, or dead letters, the oldest first; return how many."""
        ended = {"$in": [DELIVERED, DEAD]} if delivery_id else DEAD
        wanted: Document = {"webhookId": webhook_id, "state": ended}
        if delivery_id:
            wanted["_id"] = delivery_id
        found = self.db.deliveries.find(wanted, {"_id": 1}).sort("createdAt", 1).limit(REPLAYED_MAX)
        ids = [each["_id"] for each in await found.to_list()]
        done = await self.db.deliveries.update_many(
            {"_id": {"$in": ids}, "state": ended}, {"$set": {**fields, "state": PENDING, "tries": 0}}
        )
        return done.modified_count

    @answers()
    async def trim(self, webhook_id: str, most: int, until: datetime) -> int:
        """Remove the oldest deliveries of a webhook beyond `most`, none younger than `until`."""
        newest = self.db.deliveries.find({"webhookId": webhook_id}, {"createdAt": 1}).sort(list(_NEWEST))
        for first in await newest.skip(most).limit(1).to_list():
            oldest = {"webhookId": webhook_id, "createdAt": {"$lte": min(first["createdAt"], until)}}
            return (await self.db.deliveries.delete_many(oldest)).deleted_count
        return 0

    @answers()
    async def remove_all(self, webhook_id: str) -> None:
        """Remove what was to be sent to a webhook, and what was."""
        await self.db.deliveries.delete_many({"webhookId": webhook_id})
