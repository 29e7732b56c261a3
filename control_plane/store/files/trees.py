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
_NEWEST_OF_EACH: Final[Order] = (("name", 1), ("version", -1))


@dataclass(frozen=True, slots=True)
class Trees:
    """Reads and changes of trees, which are added and never changed, and of data sets."""

    db: Database

    @answers()
    async def add(self, tree_id: str, fields: Document, chunks: bytes, by: str) -> Document:
        """Store a tree, unless it is there, and return it."""
        stored: Document = {**fields, "digests": Binary(chunks), "createdBy": by}
        found = await self.db.trees.find_one_and_update(
            {"_id": tree_id},
            [{"$replaceWith": {"$mergeObjects": [{"$literal": stored}, {"createdAt": "$$NOW"}, "$$ROOT"]}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
            projection=_BRIEF,
        )
        assert found is not None, "it was stored by this"
        return found

    @answers()
    async def find(self, tree_id: str, *, is_whole: bool = False) -> Document | None:
        """Return a tree; the digests of its chunks where it shall be whole."""
        return await self.db.trees.find_one({"_id": tree_id}, None if is_whole else _BRIEF)

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
        return await self.db.data_sets.find_one({"name": name}, sort=[("version", -1)])

    @answers()
    async def version(self, name: str, version: int) -> Document | None:
        """Return a version of a data set."""
        return await self.db.data_sets.find_one({"name": name, "version": version})

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
        leading = {} if name is None else {"name": name}
        wanted = Wanted(
            collection="data_sets", leading=leading, order=_NEWEST_OF_EACH, after=after, limit=limit
        )
        return await read_page(self.db, wanted)
