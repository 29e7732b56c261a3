"""Queries of retention: rules, how far each was carried out, the runs that are old, and what was taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from control_plane.model.projection import ARTIFACTS
from control_plane.store.database import Database, Document, answers
from events.files.checkpoints import PREFIX
from events.kinds.declaring.queues import QUEUES, RUNS

RULES_MAX: Final = 100
PAGE_MAX: Final = 200  # runs of one look
TIED_MAX: Final = 5_000  # that ended in the same millisecond
_END: Final = "\uffff"
_READ: Final = dict.fromkeys(("status", "kind", "labelList", "logOpen", "taken", "finishedAt"), 1)
_CHECKPOINTS: Final = {"$gte": PREFIX, "$lt": PREFIX + _END}


@dataclass(frozen=True, slots=True)
class Retention:
    """Reads and writes of retention; a sweep's place moves by compare-and-set on its `revision`."""

    db: Database

    @answers()
    async def rules(self) -> list[Document]:
        """Return the rules that people have set."""
        return await self.db.retention.find({}).sort("_id", 1).limit(RULES_MAX).to_list()

    @answers()
    async def put(self, rule_id: str, fields: Mapping[str, Any], by: str) -> None:
        """Set a rule, by the store's clock; its sweep begins anew."""
        values = {name: {"$literal": value} for name, value in fields.items()}
        stored = {"_id": rule_id, **values, "setBy": {"$literal": by}, "setAt": "$$NOW"}
        await self.db.retention.update_one({"_id": rule_id}, [{"$replaceWith": stored}], upsert=True)
        await self.db.retention_sweeps.delete_one({"_id": rule_id})

    @answers()
    async def remove(self, rule_id: str) -> bool:
        """Remove a rule; False where there is none."""
        done = await self.db.retention.delete_one({"_id": rule_id})
        await self.db.retention_sweeps.delete_one({"_id": rule_id})
        return done.deleted_count == 1

    @answers()
    async def sweep(self, rule_id: str) -> Document:
        """Return how far a rule was carried out."""
        found = await self.db.retention_sweeps.find_one({"_id": rule_id})
        return found or {"_id": rule_id, "revision": 0, "at": None, "waiting": [], "taken": 0, "bytes": 0}

    @answers()
    async def move(self, sweep: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
        """Note how far a rule was carried out; False where another replica did meanwhile."""
        values = {name: {"$literal": value} for name, value in fields.items()}
        sets = {**values, "revision": sweep["revision"] + 1, "sweptAt": "$$NOW"}
        query = {"_id": sweep["_id"], "revision": sweep["revision"]}
        try:
            done = await self.db.retention_sweeps.update_one(
                query, [{"$set": sets}], upsert=not sweep["revision"]
            )
        except DuplicateKeyError:
            return False
        return bool(done.matched_count or done.upserted_id)

    @answers()
    async def ended(self, after: datetime | None, before: datetime) -> list[Document]:
        """Return the next runs that ended after a moment, and before another, in the order of their ends.

        All that ended at the moment of the last are among them.
        """
        wanted: Document = {"$lt": before, **({"$gt": after} if after else {"$type": "date"})}
        runs = self.db[RUNS.collection]
        found = runs.find({"finishedAt": wanted}, _READ).sort("finishedAt", 1).hint("by_finish")
        page = await found.limit(PAGE_MAX).to_list()
        if len(page) < PAGE_MAX:
            return page
        last = page[-1]["finishedAt"]
        tied = await runs.find({"finishedAt": last}, _READ).hint("by_finish").limit(TIED_MAX).to_list()
        return [*(each for each in page if each["finishedAt"] != last), *tied]

    @answers()
    async def of(self, run_ids: Sequence[str]) -> list[Document]:
        """Return some runs, as far as rules read them."""
        return await self.db[RUNS.collection].find({"_id": {"$in": [*run_ids]}}, _READ).to_list()

    @answers()
    async def files(self, run_id: str, *, checkpoints: bool) -> list[tuple[str, int]]:
        """Return key and size of the registered files of a run, of its checkpoints or of all others."""
        name = _CHECKPOINTS if checkpoints else {"$not": {**_CHECKPOINTS}}
        prefix = f"{ARTIFACTS}{run_id}/"
        found = self.db.artifacts.find({"runId": run_id, "name": name}, {"key": 1, "size": 1})
        return [
            (each["key"], int(each["size"]))
            async for each in found
            # what a pod said leads nowhere else
            if isinstance(each.get("key"), str) and each["key"].startswith(prefix)
        ]

    @answers()
    async def begin(self, run_id: str, what: str, by: str) -> None:
        """Let a run say that something of it is taken, before that is removed."""
        mark = {"at": "$$NOW", "by": {"$literal": by}, "removedAt": None}
        query = {"_id": run_id, f"taken.{what}": {"$exists": False}}
        await self.db[RUNS.collection].update_one(query, [{"$set": {f"taken.{what}": mark}}])

    @answers()
    async def conclude(self, run_id: str, what: str) -> None:
        """Let a run say that something of it was taken whole."""
        query = {"_id": run_id, f"taken.{what}": {"$exists": True}}
        sets = {f"taken.{what}.removedAt": "$$NOW"}
        await self.db[RUNS.collection].update_one(query, [{"$set": sets}])

    @answers()
    async def drop_trees(self, run_id: str) -> None:
        """Remove the trees that are made of a run's files."""
        await self.db.trees.delete_many({"run": run_id})

    @answers()
    async def taken(self, run_id: str) -> Mapping[str, Any]:
        """Return what was taken of a run, by what it is."""
        for collection in QUEUES:
            found = await self.db[collection].find_one({"_id": run_id}, {"taken": 1})
            if found is not None:
                taken = found.get("taken")
                return taken if isinstance(taken, Mapping) else {}
        return {}
