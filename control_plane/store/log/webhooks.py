"""Queries on webhooks: who is told of what, where, with encrypted targets and secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import NEWEST, Slice, Wanted, read_page

HIDDEN: Final = ("sealed",)


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Reads of webhooks, and their changes: each a compare-and-set on `revision`."""

    db: Database

    @answers()
    async def add(self, document: Document) -> None:
        """Store a new webhook."""
        await self.db.webhooks.insert_one(document)

    @answers()
    async def find(self, webhook_id: str) -> Document | None:
        """Return one webhook."""
        return await self.db.webhooks.find_one({"_id": webhook_id})

    @answers()
    async def all(self, most: int) -> list[Document]:
        """Return the webhooks, the oldest first."""
        return await self.db.webhooks.find().sort("_id", 1).limit(most).to_list()

    @answers()
    async def has_room(self, most: int) -> bool:
        """Say whether one more webhook can be made."""
        return await self.db.webhooks.count_documents({}, limit=most) < most

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of webhooks, newest first, without what is encrypted."""
        wanted = Wanted(collection="webhooks", order=NEWEST, after=after, limit=limit, hidden=HIDDEN)
        return await read_page(self.db, wanted)

    @answers()
    async def change(self, webhook: Mapping[str, Any], fields: Document) -> Document | None:
        """Set `fields` if the webhook is still what was read, and return it; else None."""
        return await self.db.webhooks.find_one_and_update(
            {"_id": webhook["_id"], "revision": webhook["revision"]},
            {"$set": fields, "$inc": {"revision": 1}},
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def remove(self, webhook_id: str) -> bool:
        """Remove a webhook; False where there is none."""
        return (await self.db.webhooks.delete_one({"_id": webhook_id})).deleted_count > 0

    @answers()
    async def disable(self, webhook_id: str, revision: int, why: str, at: datetime) -> None:
        """Send nothing to a webhook any more, unless a person changed it since."""
        fields = {"enabled": False, "disabledWhy": why, "updatedAt": at}
        await self.db.webhooks.update_one(
            {"_id": webhook_id, "revision": revision}, {"$set": fields, "$inc": {"revision": 1}}
        )
