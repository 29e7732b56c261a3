"""Queries on the catalogue of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page

_BY_NAME: Final[Order] = (("_id", 1),)
_DUPLICATE: Final = 11000


@dataclass(frozen=True, slots=True)
class Written:
    """How many entries a sync has added, and how many it has updated."""

    added: int
    updated: int


@dataclass(frozen=True, slots=True)
class ModelEntries:
    """Reads and changes of the catalogue; the last change of a name counts."""

    db: Database

    @answers()
    async def put(self, model_id: str, fields: Mapping[str, Any], by: str) -> Document:
        """Store an entry, in the place of what had its name, and return it."""
        set_fields = {name: {"$literal": value} for name, value in fields.items()}
        found = await self.db.models.find_one_and_update(
            {"_id": model_id},
            [{"$replaceWith": {"_id": model_id, **set_fields, **_kept_and_counted(by)}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert found is not None, "it was stored by this"
        return found

    @answers()
    async def put_listed(
        self, entries: Mapping[str, Mapping[str, Any]], base: str, url: str, by: str
    ) -> Written:
        """Store what a listing says of the entries at the address `base`; one of another address stays."""
        if not entries:
            return Written(0, 0)
        changes = [
            UpdateOne(
                {"_id": name, "endpoint.baseUrl": base}, [{"$set": _listed(fields, url, by)}], upsert=True
            )
            for name, fields in entries.items()
        ]
        try:
            done = await self.db.models.bulk_write(changes, ordered=False)
        except BulkWriteError as error:
            if any(each["code"] != _DUPLICATE for each in error.details["writeErrors"]):
                raise
            return Written(error.details["nUpserted"], error.details["nMatched"])
        return Written(done.upserted_count, done.matched_count)

    @answers()
    async def claim_sync(self, url: str, by: str, within_s: int) -> bool:
        """Say whether `by` shall read a listing: one does so in `within_s` seconds, by the store's clock."""
        since = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": within_s}}
        is_free = {"$lte": [{"$ifNull": ["$claimedAt", since]}, since]}
        fields = {
            "claimedAt": {"$cond": [is_free, "$$NOW", "$claimedAt"]},
            "claimedBy": {"$cond": [is_free, {"$literal": by}, "$claimedBy"]},
        }
        found = await self.db.model_syncs.find_one_and_update(
            {"_id": url}, [{"$set": fields}], upsert=True, return_document=ReturnDocument.AFTER
        )
        assert found is not None, "an upsert answers with its document"
        return bool(found["claimedBy"] == by)

    @answers()
    async def release_sync(self, url: str) -> None:
        """Let another try to read a listing."""
        await self.db.model_syncs.delete_one({"_id": url})

    @answers()
    async def bases(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the address of each of these entries that there are; None where it has none."""
        cursor = self.db.models.find({"_id": {"$in": list(names)}}, {"endpoint.baseUrl": 1})
        return {each["_id"]: _address(each.get("endpoint")) for each in await cursor.to_list()}

    @answers()
    async def count(self, most: int) -> int:
        """Return how many entries there are, counted up to `most`."""
        return await self.db.models.count_documents({}, limit=most, hint="_id_")

    @answers()
    async def find(self, model_id: str) -> Document | None:
        """Return one entry."""
        return await self.db.models.find_one({"_id": model_id})

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of entries, by name."""
        return await read_page(self.db, Wanted(collection="models", order=_BY_NAME, after=after, limit=limit))

    @answers()
    async def delete(self, model_id: str) -> bool:
        """Remove an entry. False where there is none."""
        return (await self.db.models.delete_one({"_id": model_id})).deleted_count == 1


def _kept_and_counted(by: str) -> Document:
    return {
        "createdBy": {"$ifNull": ["$createdBy", {"$literal": by}]},
        "createdAt": {"$ifNull": ["$createdAt", "$$NOW"]},
        "updatedBy": {"$literal": by},
        "updatedAt": "$$NOW",
        "revision": {"$add": [{"$ifNull": ["$revision", 0]}, 1]},
    }


def _listed(fields: Mapping[str, Any], url: str, by: str) -> Document:
    """Return the changes of one entry: what people said of it beside the listing stays."""
    told = {name: {"$literal": value} for name, value in fields.items() if name != "endpoint"}
    endpoint = {"$mergeObjects": [{"secret": None}, "$endpoint", {"$literal": fields["endpoint"]}]}
    synced = {"syncedFrom": {"$literal": url}, "syncedAt": "$$NOW"}
    return {**told, "endpoint": endpoint, **synced, **_kept_and_counted(by)}


def _address(endpoint: Any) -> str | None:
    found = endpoint.get("baseUrl") if isinstance(endpoint, dict) else None
    return found if isinstance(found, str) else None
