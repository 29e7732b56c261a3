"""Queries that create work: specifications, and claimable documents that point to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES
from events.runtime.errors import Transient

PAGE_MAX: Final = 1_000
SPEC_GRACE_S: Final = 3600.0  # so long a specification waits for its run
DUPLICATE_KEY: Final = 11000


@dataclass(frozen=True, slots=True)
class Submitted:
    """The run, and where it is new, what was made: the run as it began, and its specification."""

    run_id: str
    run: Document | None = None
    spec: Document = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        return self.run is not None


@dataclass(frozen=True, slots=True)
class Submissions:
    """Writes specifications and claimable documents."""

    db: Database

    async def put_spec(self, run_id: str, spec: Document) -> datetime:
        """Keep the snapshot of what a run shall do, before the run itself; return when, by the store.

        A snapshot that is there stays as it is, and counts as new for the sweep of orphans.
        """
        async with answers():
            document = await self.db.run_specs.find_one_and_update(
                {"_id": run_id},
                {"$setOnInsert": {**spec, "unchecked": True}, "$currentDate": {"putAt": True}},
                projection={"putAt": 1},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        assert document is not None, "an upsert answers with its document"
        put_at: datetime = document["putAt"]
        return put_at

    @answers()
    async def has_project(self, name: str) -> bool:
        """Say whether there is a project of this name."""
        return await self.db.projects.find_one({"_id": name}, {"_id": 1}) is not None

    async def spec(self, run_id: str) -> Document | None:
        """Return the snapshot of a run."""
        async with answers():
            return await self.db.run_specs.find_one({"_id": run_id})

    async def enqueue(self, collection: str, run_id: str, creation: list[Document]) -> Document | None:
        """Create a claimable document and return it, or None where it is there already.

        None also where another document holds its idempotency key.
        """
        # The second condition keeps a document that is there: the pipeline would begin it anew.
        missing: Document = {"_id": run_id, "revision": {"$exists": False}}
        async with answers():
            try:
                document = await self.db[collection].find_one_and_update(
                    missing,
                    creation,
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
            except DuplicateKeyError:
                return None
        assert document is not None, "an upsert answers with its document"
        return document

    @answers()
    async def put_specs(self, specs: Mapping[str, Document]) -> datetime:
        """Do as `put_spec` for many runs; return when the first was put."""
        first, *others = specs
        put_at = await self.put_spec(first, specs[first])
        writes = [
            UpdateOne(
                {"_id": run_id},
                {"$setOnInsert": {**specs[run_id], "unchecked": True}, "$currentDate": {"putAt": True}},
                upsert=True,
            )
            for run_id in others
        ]
        if writes:
            await self._write_all("run_specs", writes)
        return put_at

    @answers()
    async def enqueue_all(self, collection: str, creations: Mapping[str, list[Document]]) -> int:
        """Do as `enqueue` for many documents; return how many are new."""
        writes = [
            UpdateOne({"_id": run_id, "revision": {"$exists": False}}, creation, upsert=True)
            for run_id, creation in creations.items()
        ]
        return await self._write_all(collection, writes)

    async def _write_all(self, collection: str, writes: list[UpdateOne]) -> int:
        """Upsert documents, each by itself; those that are there already stay. Raises `Transient`."""
        try:
            result = await self.db[collection].bulk_write(writes, ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            if any(each.get("code") != DUPLICATE_KEY for each in details.get("writeErrors", ())):
                raise
            if details.get("writeConcernErrors"):
                raise Transient("not_durable", f"{collection}: the write was not confirmed") from error
            return int(details.get("nUpserted", 0))
        return result.upserted_count

    @answers()
    async def created_at(self, collection: str, run_id: str) -> datetime | None:
        """Return when a claimable document was made."""
        found = await self.db[collection].find_one({"_id": run_id}, {"createdAt": 1})
        return None if found is None else found["createdAt"]

    @answers()
    async def put_inputs(self, run_id: str, inputs: Mapping[str, Any]) -> None:
        """Replace the inputs of a snapshot whose run waits, by what they are exactly."""
        await self.db.run_specs.update_one({"_id": run_id}, {"$set": {"spec.inputs": {**inputs}}})

    async def drop_spec(self, run_id: str) -> None:
        """Remove the snapshot of a run that came to nothing."""
        async with answers():
            await self.db.run_specs.delete_one({"_id": run_id})

    @answers()
    async def old_specs(self, grace_s: float) -> set[str]:
        """Return a page of snapshots older than `grace_s` that nobody has held against their runs yet."""
        cursor = self.db.run_specs.find(_unchecked(grace_s), {"_id": 1}).sort("putAt").limit(PAGE_MAX)
        return {document["_id"] for document in await cursor.to_list()}

    @answers()
    async def check_specs(self, run_ids: set[str]) -> set[str]:
        """Note of each snapshot that has its run that it does; return those that have none."""
        used: set[str] = set()
        for collection in QUEUES:
            runs = self.db[collection].find({"_id": {"$in": list(run_ids)}}, {"_id": 1})
            used |= {document["_id"] for document in await runs.to_list()}
        await self.db.run_specs.update_many({"_id": {"$in": list(used)}}, {"$unset": {"unchecked": ""}})
        return run_ids - used

    @answers()
    async def drop_orphans(self, run_ids: set[str], grace_s: float) -> int:
        """Remove snapshots; one that was put again meanwhile stays, its run is about to come."""
        result = await self.db.run_specs.delete_many({"_id": {"$in": list(run_ids)}, **_unchecked(grace_s)})
        return result.deleted_count

    @answers()
    async def secrets(self, names: Sequence[str]) -> list[Document]:
        """Return the secrets of these names without their values, as many as there are."""
        return await self.db.secrets.find({"_id": {"$in": list(names)}}, {"sealed": 0}).to_list()

    @answers()
    async def retried(self, group_id: str, slot: int, parent_id: str) -> Document | None:
        """Return the run by which a member of a group was run again."""
        return await self.db.runs.find_one({"groupId": group_id, "slot": slot, "parentRunId": parent_id})

    async def by_idempotency_key(self, key: str) -> Document | None:
        """Return the run that was submitted under this key."""
        async with answers():
            return await self.db.runs.find_one({"idempotency.key": key})

    @answers()
    async def deleted_by_key(self, key: str) -> Document | None:
        """Return the tombstone of the run that was submitted under this key."""
        return await self.db.tombstones.find_one({"idempotency.key": key})

    @answers()
    async def deleted(self, run_ids: Collection[str]) -> set[str]:
        """Return those of these ids whose runs were deleted: none of them is made again."""
        found = self.db.tombstones.find({"_id": {"$in": [*run_ids]}}, {"_id": 1})
        return {each["_id"] for each in await found.to_list()}


def _unchecked(grace_s: float) -> Document:
    limit = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(grace_s)}}
    return {"unchecked": True, "$expr": {"$lt": ["$putAt", limit]}}
