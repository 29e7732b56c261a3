"""Queries on saved boards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page

_BY_NAME: Final[Order] = (("_id", 1),)


@dataclass(frozen=True, slots=True)
class SavedBoards:
    """Reads and changes of saved boards; the last change of a name counts."""

    db: Database

    @answers()
    async def save(self, board_id: str, fields: Document, by: str) -> Document:
        """Store a board, in the place of what had its name, and return it."""
        found = await self.db.boards.find_one_and_update(
            {"_id": board_id},
            [
                {
                    "$replaceWith": {
                        "_id": board_id,
                        **{name: {"$literal": value} for name, value in fields.items()},
                        "createdBy": {"$ifNull": ["$createdBy", {"$literal": by}]},
                        "createdAt": {"$ifNull": ["$createdAt", "$$NOW"]},
                        "updatedBy": {"$literal": by},
                        "updatedAt": "$$NOW",
                        "revision": {"$add": [{"$ifNull": ["$revision", 0]}, 1]},
                    }
                }
            ],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert found is not None, "it was stored by this"
        return found

    @answers()
    async def count(self, most: int) -> int:
        """Return how many boards are saved, counted up to `most`."""
        return await self.db.boards.count_documents({}, limit=most, hint="_id_")

    @answers()
    async def find(self, board_id: str) -> Document | None:
        """Return one board."""
        return await self.db.boards.find_one({"_id": board_id})

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of boards, by name."""
        return await read_page(self.db, Wanted(collection="boards", order=_BY_NAME, after=after, limit=limit))

    @answers()
    async def delete(self, board_id: str) -> bool:
        """Remove a board. False where there is none."""
        return (await self.db.boards.delete_one({"_id": board_id})).deleted_count == 1
