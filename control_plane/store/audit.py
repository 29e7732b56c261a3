"""Queries of the audit: whole runs and everything beside them, read and never written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from control_plane.evidence import Evidence
from control_plane.store.database import Database, Document, answers
from control_plane.store.schema import QUEUES
from events.lifecycle import HELD

PAGE: Final = 500
GROUPS_MAX: Final = 1_000
WITH_RUN: Final = ("attempts", "stages", "artifacts", "validations", "ideas")
BESIDE: Final = (*WITH_RUN, "dead_letters")


@dataclass(frozen=True, slots=True)
class AuditReads:
    """Reads what is held against the log; pages, so that no cursor stays open on a busy collection."""

    HELD: ClassVar[Mapping[str, Any]] = {"status": {"$in": sorted(HELD)}}

    db: Database

    async def collection_of(self, run_id: str) -> str | None:
        """Return where a run is queued."""
        for collection in QUEUES:
            async with answers():
                if await self.db[collection].find_one({"_id": run_id}, {"_id": 1}) is not None:
                    return collection
        return None

    async def run_ids(self, only: str | None = None) -> AsyncIterator[tuple[str, str]]:
        """Yield the collection and id of every run, or of one."""
        if only is not None:
            collection = await self.collection_of(only)
            if collection is not None:
                yield collection, only
            return
        for collection in QUEUES:
            async for run_id in self._ids(collection):
                yield collection, run_id

    async def _ids(self, collection: str) -> AsyncIterator[str]:
        after = ""
        while True:
            async with answers():
                cursor = self.db[collection].find({"_id": {"$gt": after}}, {"_id": 1}).sort("_id").limit(PAGE)
                page = await cursor.to_list()
            for document in page:
                yield document["_id"]
            if len(page) < PAGE:
                return
            after = page[-1]["_id"]

    @answers()
    async def position(self, collection: str, run_id: str) -> tuple[Any, ...] | None:
        """Return what moves when a run moves; the same twice means that it stood still in between."""
        fields = {"revision": 1, "lastEventSeq": 1, "journal.n": 1, "attempt": 1, "status": 1}
        run = await self.db[collection].find_one({"_id": run_id}, fields)
        count = await self.db.events.count_documents({"runId": run_id})
        return None if run is None else (run, count)

    @answers()
    async def evidence(self, collection: str, run_id: str) -> Evidence | None:
        """Return everything that is stored about a run."""
        pipeline: list[Document] = [{"$match": {"_id": run_id}}, {"$set": {"now": "$$NOW"}}]
        found = await (await self.db[collection].aggregate(pipeline)).to_list()
        if not found:
            return None
        now = found[0].pop("now")
        query = {"runId": run_id}
        beside = {name: await self.db[name].find(query).to_list() for name in BESIDE}
        numbered = {"$or": [{"sequence": {"$exists": True}}, {"revision": {"$exists": True}}]}
        return Evidence(
            collection=collection,
            run=found[0],
            log=await self.db.events.find({**query, **numbered}).to_list(),
            attempts=beside["attempts"],
            stages=beside["stages"],
            artifacts=beside["artifacts"],
            validations=beside["validations"],
            letters=beside["dead_letters"],
            ideas=beside["ideas"],
            now=now,
        )

    @answers()
    async def artifacts(self, run_id: str) -> list[Document]:
        """Return the registered files of a run."""
        return await self.db.artifacts.find({"runId": run_id}).to_list()

    @answers()
    async def shared(self, field: str, condition: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
        """Return values of `field` that several runs have, with those runs."""
        found: list[tuple[str, list[str]]] = []
        for collection in QUEUES:
            pipeline: list[Document] = [
                {"$match": {**condition, field: {"$type": "string"}}},
                {"$group": {"_id": f"${field}", "runs": {"$push": "$_id"}, "count": {"$sum": 1}}},
                {"$match": {"count": {"$gt": 1}}},
                {"$limit": GROUPS_MAX},
            ]
            cursor = await self.db[collection].aggregate(pipeline, allowDiskUse=True)
            found += [(group["_id"], sorted(group["runs"])) for group in await cursor.to_list()]
        return found

    async def runs_without_spec(self) -> AsyncIterator[str]:
        """Yield the runs that nobody could carry out."""
        async for _, run_id in self.run_ids():
            async with answers():
                spec = await self.db.run_specs.find_one({"_id": run_id}, {"_id": 1})
            if spec is None:
                yield run_id

    async def orphans(self) -> AsyncIterator[tuple[str, str]]:
        """Yield documents' collections and run ids for which there is no run; one index seek a run."""
        for collection in WITH_RUN:
            after = ""
            while True:
                async with answers():
                    query = {"runId": {"$gt": after}}
                    found = await self.db[collection].find_one(query, {"runId": 1}, sort=[("runId", 1)])
                if found is None:
                    break
                after = found["runId"]
                if await self.collection_of(after) is None:
                    yield collection, after

    async def letters_of_nobody(self) -> AsyncIterator[Document]:
        """Yield the refused lines of runs that do not exist, and those that name none."""
        after: Any = None
        while True:
            query = {} if after is None else {"_id": {"$gt": after}}
            async with answers():
                page = await self.db.dead_letters.find(query).sort("_id").limit(PAGE).to_list()
            for letter in page:
                run_id = letter.get("runId")
                if run_id is None or await self.collection_of(run_id) is None:
                    yield letter
            if len(page) < PAGE:
                return
            after = page[-1]["_id"]
