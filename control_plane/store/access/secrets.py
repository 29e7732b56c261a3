"""Queries on secrets: their encrypted values, and who may name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.lifecycle import Status

_BY_NAME: Final[Order] = (("_id", 1),)
_WAITING: Final = [Status.QUEUED.value, Status.DELAYED.value]
_SEALED: Final = ("sealed",)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Reads of secrets, and their changes, each of one document."""

    db: Database

    @answers()
    async def put(self, name: str, stored: Document, lists: Mapping[str, Any]) -> Document:
        """Store a secret, new or in the place of what there is; a list that is None stays as it is."""
        fields: Document = {each: {"$literal": value} for each, value in stored.items()}
        for each, value in lists.items():
            fields[each] = {"$ifNull": [f"${each}", []]} if value is None else {"$literal": value}
        times = {"setAt": "$$NOW", "createdAt": {"$ifNull": ["$createdAt", "$$NOW"]}}
        document = await self.db.secrets.find_one_and_update(
            {"_id": name},
            [{"$set": {**fields, **times}}],
            projection=dict.fromkeys(_SEALED, 0),
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert document is not None, "an upsert answers with its document"
        return document

    @answers()
    async def has_room(self, name: str, most: int) -> bool:
        """Say whether a secret of this name could be stored: it is there, or there are fewer than `most`."""
        if await self.db.secrets.find_one({"_id": name}, {"_id": 1}) is not None:
            return True
        return await self.db.secrets.count_documents({}, limit=most) < most

    @answers()
    async def of_names(self, names: Sequence[str]) -> list[Document]:
        """Return the secrets of these names, as many as there are."""
        return await self.db.secrets.find({"_id": {"$in": list(names)}}).to_list()

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of secrets by name, without their values."""
        wanted = Wanted(collection="secrets", order=_BY_NAME, after=after, limit=limit, hidden=_SEALED)
        return await read_page(self.db, wanted)

    @answers()
    async def of_other_keys(self, key_id: str, *, after: Sequence[str], limit: int) -> list[Document]:
        """Return secrets that were encrypted with another key, without those of the names `after`."""
        other = {"keyId": {"$ne": key_id}, "_id": {"$nin": list(after)}}
        return await self.db.secrets.find(other).sort("_id", 1).limit(limit).to_list()

    @answers()
    async def reseal(self, name: str, old: bytes, new: bytes, key_id: str) -> int:
        """Put a value that was encrypted anew in the place of `old`; 0 where that is gone."""
        result = await self.db.secrets.update_one(
            {"_id": name, "sealed": old}, {"$set": {"sealed": new, "keyId": key_id}}
        )
        return result.modified_count

    @answers()
    async def delete(self, name: str) -> bool:
        """Remove a secret; False where there is none."""
        return (await self.db.secrets.delete_one({"_id": name})).deleted_count > 0

    @answers()
    async def waiting(self, names: Sequence[str], limit: int) -> list[Document]:
        """Return runs that wait and name one of these secrets."""
        wanted = {"secrets": {"$in": list(names)}, "status": {"$in": _WAITING}}
        cursor = self.db.runs.find(wanted, {"secrets": 1, "title": 1, "status": 1})
        return await cursor.hint("by_secret").limit(limit).to_list()
