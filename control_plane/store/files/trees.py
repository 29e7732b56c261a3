"""Queries on file trees, and on the named versions of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson.binary import Binary
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page

_BRIEF: Final = {"digests": 0, "keys": 0}
# A tree that was used within this time counts as used now: whole sweeps name one tree.
USED_S: Final = 3600.0
_WHOLE: Final[Document] = {"pending": None}
_LIVE: Final[Document] = {"removedAt": None}
_NEWEST_OF_EACH: Final[Order] = (("name", 1), ("version", -1))


@dataclass(frozen=True, slots=True)
class Trees:
    """Reads and changes of trees, which are added and removed as they are, and of data sets."""

    db: Database

    @answers()
    async def begin(self, tree_id: str, fields: Document, chunks: bytes, by: str) -> None:
        """Store a tree as one that is being added, unless it is there: its objects are held from now on."""
        stored: Document = {**fields, "digests": Binary(chunks), "createdBy": by, "pending": True}
        is_new = {"$eq": [{"$type": "$createdAt"}, "missing"]}
        fresh = {"$mergeObjects": [{"$literal": stored}, {"createdAt": "$$NOW"}, "$$ROOT"]}
        whole = {"$cond": [is_new, fresh, "$$ROOT"]}
        await self.db.trees.update_one(
            {"_id": tree_id},
            [{"$replaceWith": {"$mergeObjects": [whole, {"usedAt": "$$NOW"}]}}],
            upsert=True,
        )

    @answers()
    async def confirm(self, tree_id: str) -> Document | None:
        """Note that a tree has all of its objects, and return it; None where it was removed meanwhile."""
        return await self.db.trees.find_one_and_update(
            {"_id": tree_id},
            {"$unset": {"pending": ""}},
            return_document=ReturnDocument.AFTER,
            projection=_BRIEF,
        )

    @answers()
    async def find(self, tree_id: str, *, is_whole: bool = False) -> Document | None:
        """Return a tree; the digests of its chunks where it shall be whole."""
        return await self.db.trees.find_one({"_id": tree_id, **_WHOLE}, None if is_whole else _BRIEF)

    @answers()
    async def use(self, tree_id: str) -> Document | None:
        """Return a tree, which is kept for a while from now on, whoever names it."""
        limit = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(USED_S)}}
        # The note before the look: what is found without it was used a short while ago.
        await self.db.trees.update_one(
            {"_id": tree_id, "$expr": {"$lt": [{"$ifNull": ["$usedAt", "$createdAt"]}, limit]}},
            {"$currentDate": {"usedAt": True}},
        )
        return await self.find(tree_id)

    @answers()
    async def count(self, most: int) -> int:
        """Return how many trees there are, counted up to `most`."""
        return await self.db.trees.count_documents({}, limit=most, hint="_id_")

    @answers()
    async def count_versions(self, most: int) -> int:
        """Return how many versions of data sets there are, counted up to `most`."""
        return await self.db.data_sets.count_documents({}, limit=most, hint="_id_")

    @answers()
    async def latest(self, name: str) -> Document | None:
        """Return the latest version of a data set."""
        return await self.db.data_sets.find_one({"name": name, **_LIVE}, sort=[("version", -1)])

    @answers()
    async def last_number(self, name: str) -> int:
        """Return the number of the last version of a data set, though it may be removed; 0 for none."""
        found = await self.db.data_sets.find_one({"name": name}, {"version": 1}, sort=[("version", -1)])
        return 0 if found is None else int(found["version"])

    @answers()
    async def count_live(self, name: str, most: int) -> int:
        """Return how many versions of a data set there are, counted up to `most`."""
        return await self.db.data_sets.count_documents({"name": name, **_LIVE}, limit=most)

    @answers()
    async def remove_version(self, name: str, version: int, by: str) -> bool:
        """Remove a version of a data set, whose number stays taken; say whether there was one."""
        result = await self.db.data_sets.update_one(
            {"name": name, "version": version, **_LIVE},
            {"$set": {"removedBy": by}, "$unset": {"tree": ""}, "$currentDate": {"removedAt": True}},
        )
        return result.matched_count == 1

    @answers()
    async def version(self, name: str, version: int) -> Document | None:
        """Return a version of a data set."""
        return await self.db.data_sets.find_one({"name": name, "version": version, **_LIVE})

    @answers()
    async def add_version(self, name: str, version: int, fields: Document, by: str) -> Document | None:
        """Store a version of a data set and return it; None where there is one of this number."""
        stored = {**fields, "name": name, "version": version, "createdBy": by}
        try:
            return await self.db.data_sets.find_one_and_update(
                {"_id": f"{name}/{version}", "name": {"$exists": False}},
                [
                    {
                        "$replaceWith": {
                            "$mergeObjects": ["$$ROOT", {"$literal": stored}, {"createdAt": "$$NOW"}]
                        }
                    }
                ],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None

    async def page(self, name: str | None, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of versions, by name, the newest of each first."""
        wanted = Wanted(
            collection="data_sets",
            leading={} if name is None else {"name": name},
            residual=_LIVE,
            order=_NEWEST_OF_EACH,
            after=after,
            limit=limit,
        )
        return await read_page(self.db, wanted)
