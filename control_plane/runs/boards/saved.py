"""Saved boards and views: the query of a page under a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads import paging
from control_plane.reads.reading import listing
from control_plane.store.queue.boards import SavedBoards
from events.answers.answer import Listing
from events.answers.kinds.boards import SavedBoard
from events.runtime.errors import NotFound, Rejected

SAVED_MAX: Final = 500  # of a fleet; a few more where several are saved at once
RESERVED: Final = frozenset({"view", "export"})  # addresses of their own beside the boards'
Page = Literal["board", "runs"]
PATHS: Final[Mapping[Page, str]] = {"board": "/boards/view", "runs": "/runs"}


@dataclass(frozen=True, slots=True)
class BoardShelf:
    """Saves queries under names, and finds them again. Raises `Rejected`, `NotFound`."""

    store: SavedBoards

    async def save(self, board_id: str, page: Page, query: Mapping[str, str], *, by: str) -> SavedBoard:
        """Save a query that was checked, in the place of what had its name."""
        if board_id in RESERVED:
            raise Rejected("reserved_id", f"id: {board_id!r} is taken by an address; choose another name")
        if await self.store.find(board_id) is None and await self.store.count(SAVED_MAX) >= SAVED_MAX:
            raise Rejected("too_many_boards", f"{SAVED_MAX} boards are saved, which is the most; remove one")
        return _saved(await self.store.save(board_id, {"page": page, "query": dict(query)}, by))

    async def find(self, board_id: str) -> SavedBoard:
        """Return what is saved under a name."""
        found = await self.store.find(board_id)
        if found is None:
            raise _unknown(board_id)
        return _saved(found)

    async def page(self, limit: int, after: str | None) -> Listing[SavedBoard]:
        """Return a page of what is saved, in the order of the names."""
        key = None if after is None else paging.decode("boards", after, str)
        return listing("boards", await self.store.page(key, paging.limited(limit)), _saved)

    async def remove(self, board_id: str) -> None:
        """Remove a name."""
        if not await self.store.delete(board_id):
            raise _unknown(board_id)


def _saved(document: Mapping[str, Any]) -> SavedBoard:
    with reading_of("board", document.get("_id")):
        path, query = PATHS[document["page"]], document["query"]
        return typed(from_document(SavedBoard, document, address=f"{path}?{urlencode(query)}"))


def _unknown(board_id: str) -> NotFound:
    return NotFound("unknown_board", f"there is no board {board_id!r}")
