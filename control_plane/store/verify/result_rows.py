"""Queries of the verifier on rows of results: pages of rows, and pages of the events that make them.

A run may have 100,000 of both, so they are no part of its evidence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.projection import RESULTS
from control_plane.store.database import Database, Document, answers
from control_plane.store.verify.decoding import UNREAD, decoded
from events.catalog import ResultRecorded, type_of

ROWS_PAGE: Final = 500
RECORDED: Final = type_of(ResultRecorded)


@dataclass(frozen=True, slots=True)
class RowReads:
    """Reads rows of results, and the events that recorded them."""

    db: Database

    async def pages(self, run_id: str) -> AsyncIterator[Sequence[Document]]:
        """Yield the rows of a run."""
        async for page in self._pages(RESULTS, {"runId": run_id}):
            yield page

    async def recorded(self, run_id: str) -> AsyncIterator[Sequence[Document]]:
        """Yield the events that recorded rows of a run, in the order of arrival."""
        async for page in self._pages("events", {"runId": run_id, "type": RECORDED}):
            yield page

    async def rows(self, ids: Collection[str]) -> Mapping[str, Document]:
        """Return the rows of these ids."""
        query = {"_id": {"$in": sorted(ids)}}
        return {each["_id"]: each async for page in self._pages(RESULTS, query) for each in page}

    async def events_at(
        self, run_id: str, positions: Collection[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Document]:
        """Return the events at these positions, each an attempt and a sequence."""
        found: dict[tuple[int, int], Document] = {}
        for attempt in sorted({attempt for attempt, _ in positions}):
            sequences = sorted(sequence for of, sequence in positions if of == attempt)
            query = {"runId": run_id, "attempt": attempt, "sequence": {"$in": sequences}}
            async for page in self._pages("events", query):
                found |= {(each["attempt"], each["sequence"]): each for each in page}
        return found

    async def _pages(self, collection: str, query: Document) -> AsyncIterator[Sequence[Document]]:
        """Yield what a query finds, with its values read as the verifier reads them."""
        async with answers():
            unread = self.db.get_collection(collection, codec_options=UNREAD)
            page: list[Any] = []
            async for raw in unread.find(query).batch_size(ROWS_PAGE):
                page.append(decoded(raw)[0])
                if len(page) == ROWS_PAGE:
                    yield page
                    page = []
            if page:
                yield page
