"""Queries on what an archive of a run holds: its documents and its log, each in one order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.projection import LANES, RESULTS
from control_plane.store.database import Database, Document, answers
from control_plane.store.verify.decoding import UNREAD, decoded
from events.kinds import DOCUMENTS
from events.kinds.declaring.queues import RUNS

PAGE: Final = 200
# What a run has beside itself, by the names of the collections.
LISTS: Final = (
    "attempts", "stages", "artifacts", RESULTS, "validations", LANES, *(each.name for each in DOCUMENTS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArchiveReads:
    """Reads a run of the queue of runs, one document in memory at a time."""

    db: Database

    @answers()
    async def run(self, run_id: str) -> Document | None:
        """Return the document of a run."""
        return await self._one(RUNS.collection, run_id)

    @answers()
    async def spec(self, run_id: str) -> Document | None:
        """Return the specification of a run."""
        return await self._one("run_specs", run_id)

    def listed(self, collection: str, run_id: str) -> AsyncGenerator[Document, None]:
        """Yield the documents of a run in a collection, in the order of their ids."""
        below = {"_id": {"$gt": f"{run_id}/", "$lt": f"{run_id}0"}}  # the sign behind the slash
        return self._read(collection, below, [("_id", 1)])

    def decisions(self, run_id: str) -> AsyncGenerator[Document, None]:
        """Yield the decisions of a run, by number."""
        return self._read("events", {"runId": run_id, "revision": {"$exists": True}}, [("revision", 1)])

    def numbered(self, run_id: str) -> AsyncGenerator[Document, None]:
        """Yield the numbered events of a run, by attempt and sequence."""
        order = [("runId", 1), ("attempt", 1), ("sequence", 1)]
        return self._read("events", {"runId": run_id, "sequence": {"$exists": True}}, order)

    def others(self, run_id: str) -> AsyncGenerator[Document, None]:
        """Yield the other events of a run that are kept as long as it, in the order of their arrival."""
        neither: Document = {"sequence": {"$exists": False}, "revision": {"$exists": False}}
        kept: Document = {"runId": run_id, **neither, "expiresAt": None, "orphan": None}
        return self._read("events", kept, [("position", 1)])

    async def _one(self, collection: str, identity: str) -> Document | None:
        unread = self.db.get_collection(collection, codec_options=UNREAD)
        found = await unread.find_one({"_id": identity})
        return None if found is None else decoded(found)[0]

    async def _read(
        self, collection: str, query: Document, order: Sequence[tuple[str, int]]
    ) -> AsyncGenerator[Document, None]:
        unread: Any = self.db.get_collection(collection, codec_options=UNREAD)
        async with answers():
            async for raw in unread.find(query).sort([*order]).batch_size(PAGE):
                yield decoded(raw)[0]
