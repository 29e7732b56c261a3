"""Queries on imports of archives: which are under way, and the documents that each brings.

Law: a document that is there is not written again, and has to be the same one. The run is the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import decode, encode
from pymongo.errors import BulkWriteError, DuplicateKeyError

from control_plane.store.database import Database, answers
from control_plane.store.log.events import DUPLICATE_KEY
from control_plane.store.log.run_removals import OUTLIVES, RunRemovals
from control_plane.store.verify.decoding import READ, UNREAD, decoded
from events.kinds.declaring.queues import QUEUES, RUNS
from events.runtime.errors import Conflict, Transient

PAGE_MAX: Final = 20
SWEPT: Final = ""  # the digest of no archive: what an import has left is being removed


@dataclass(frozen=True, slots=True)
class Imports:
    """Notes imports, and writes what they bring."""

    db: Database

    @answers()
    async def begin(self, run_id: str, digest: str, by: str) -> bool:
        """Note that an archive is being imported; False while another one of the same run is."""
        sets = {"digest": digest, "by": {"$literal": by}, "at": "$$NOW"}
        try:
            await self.db.imports.update_one({"_id": run_id, "digest": digest}, [{"$set": sets}], upsert=True)
        except DuplicateKeyError:
            return False
        return True

    @answers()
    async def renew(self, run_id: str, digest: str) -> bool:
        """Note that an import goes on; False where it was given up, or another one has ended it."""
        query = {"_id": run_id, "digest": digest}
        done = await self.db.imports.update_one(query, [{"$set": {"at": "$$NOW"}}])
        return done.matched_count == 1

    @answers()
    async def end(self, run_id: str) -> None:
        """Forget an import: its run is there, or nothing is left of it."""
        await self.db.imports.delete_one({"_id": run_id})

    @answers()
    async def abandoned(self, after_s: float) -> list[str]:
        """Return the runs of imports of which nobody was heard for so long, by the store's clock."""
        limit = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(after_s)}}
        query = {"$expr": {"$lt": ["$at", limit]}}
        found = self.db.imports.find(query, {"_id": 1}).sort("at", 1).limit(PAGE_MAX)
        return [each["_id"] for each in await found.to_list()]

    @answers()
    async def give_up(self, run_id: str, after_s: float) -> bool:
        """Let nobody go on with an import; False where somebody does, or did."""
        limit = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(after_s)}}
        query = {"_id": run_id, "$expr": {"$lt": ["$at", limit]}}
        done = await self.db.imports.update_one(query, [{"$set": {"digest": SWEPT, "at": "$$NOW"}}])
        return done.matched_count == 1

    @answers()
    async def has_run(self, run_id: str) -> bool:
        """Say whether there is a run, or a request, of this id."""
        for name in QUEUES:
            if await self.db[name].find_one({"_id": run_id}, {"_id": 1}) is not None:
                return True
        return False

    @answers()
    async def deleted(self, run_id: str) -> bool:
        """Say whether the run of this id was deleted here."""
        return await self.db.tombstones.find_one({"_id": run_id}, {"_id": 1}) is not None

    async def drop(self, run_id: str) -> None:
        """Remove what an import has left, but for its objects."""
        await RunRemovals(self.db).drop_children(run_id)
        async with answers():
            for name in OUTLIVES:
                await self.db[name].delete_many({"runId": run_id})

    @answers()
    async def add(self, collection: str, documents: Sequence[Mapping[str, Any]]) -> None:
        """Write documents. Raises `Conflict` where others stand in their places, `Transient`."""
        try:
            await self.db[collection].insert_many([dict(each) for each in documents], ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            failed = details.get("writeErrors", ())
            if details.get("writeConcernErrors") or any(each["code"] != DUPLICATE_KEY for each in failed):
                raise Transient("not_durable", f"{collection}: the write was not confirmed") from error
            await self._require_same(collection, [documents[each["index"]] for each in failed])

    async def _require_same(self, collection: str, documents: Sequence[Mapping[str, Any]]) -> None:
        wanted = {str(each["_id"]): each for each in documents}
        unread: Any = self.db.get_collection(collection, codec_options=UNREAD)
        found = [decoded(raw)[0] async for raw in unread.find({"_id": {"$in": [*wanted]}})]
        same = {str(each["_id"]) for each in found if each == decode(encode(wanted[str(each["_id"])]), READ)}
        if other := sorted(wanted.keys() - same):
            message = f"{collection} {other[0]}: another document stands in its place here"
            raise Conflict("documents_in_the_way", message)

    @answers()
    async def add_run(self, run: Mapping[str, Any]) -> bool:
        """Write the run, which makes all the rest visible; False where one of its id is there."""
        try:
            await self.db[RUNS.collection].insert_one(dict(run))
        except DuplicateKeyError:
            return False
        return True
