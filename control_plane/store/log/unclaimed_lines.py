"""Queries on `early_lines`: numbered events of unclaimed attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pymongo.errors import BulkWriteError

from control_plane.store.database import Database, Document, answers
from control_plane.store.log.events import DUPLICATE_KEY
from control_plane.store.queue.runs import BATCH_MAX
from events.runtime.errors import Transient

EARLY_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class UnclaimedStore:
    """Lines that are kept beside the log, and have no position in it."""

    db: Database

    @answers()
    async def keep(self, lines: Sequence[Document]) -> set[int]:
        """Store the lines; return the indexes of those whose id is taken. Raises `Transient`."""
        try:
            await self.db.early_lines.insert_many(lines, ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            failed = details.get("writeErrors", ())
            if details.get("writeConcernErrors") or any(each["code"] != DUPLICATE_KEY for each in failed):
                raise Transient("not_durable", "early_lines: the write was not confirmed") from error
            return {each["index"] for each in failed}
        return set()

    @answers()
    async def hashes(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Return the digests of the stored lines with these ids."""
        found = await self.db.early_lines.find({"_id": {"$in": list(ids)}}, {"hash": 1}).to_list()
        return {document["_id"]: document["hash"] for document in found}

    @answers()
    async def capacity(self) -> int:
        """Return how many more lines may be kept."""
        return EARLY_MAX - await self.db.early_lines.count_documents({}, limit=EARLY_MAX)

    @answers()
    async def attempts(self, after: str) -> list[tuple[str, str, int]]:
        """Return a page of lines, in id order after `after`: id, run, attempt."""
        wanted = {"runId": 1, "attempt": 1}
        cursor = self.db.early_lines.find({"_id": {"$gt": after}}, wanted).sort("_id").limit(BATCH_MAX)
        return [(each["_id"], each["runId"], each["attempt"]) for each in await cursor.to_list()]

    @answers()
    async def read(self, ids: Sequence[str]) -> list[Document]:
        """Return these lines whole."""
        return await self.db.early_lines.find({"_id": {"$in": list(ids)}}).to_list()

    @answers()
    async def drop(self, ids: Sequence[str]) -> None:
        """Forget these lines."""
        await self.db.early_lines.delete_many({"_id": {"$in": list(ids)}})
