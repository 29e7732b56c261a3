"""Queries on what goes with a deleted run: what there is of it, what needs it, and its removal in pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.status import CLOSED
from control_plane.model.projection import ARTIFACTS, LANES, RESULTS
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import raw
from control_plane.store.queue.runs import Found
from events.kinds import DOCUMENTS, KINDS
from events.kinds.declaring.queues import QUEUES, RUNS
from events.lifecycle import FINAL, Status

PAGE: Final = 1_000  # documents of one removal
SHOWN_MAX: Final = 20  # ids that a preview names of each sort
MEMBERS_MAX: Final = 1_000  # runs that go with a hypothesis
# What outlives its run: a measurement that was made on test data was made, whatever became of its record.
OUTLIVES: Final = frozenset({"data_uses"})
# The events last: they say what the other documents were.
CHILDREN: Final = (
    *("stages", "artifacts", "validations", LANES, RESULTS),
    *(each.name for each in DOCUMENTS if each.name not in OUTLIVES),
    *("dead_letters", "attempts", "events"),
)
_LIVE: Final = sorted(status.value for status in Status if status not in FINAL)
_OPEN: Final = {"status": {"$nin": sorted(CLOSED)}}
_NAMES: Final = re.compile(rb"(?<![0-9A-Za-z])(?:[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{64})(?![0-9A-Za-z])")
_READ: Final = {"spec.inputs": 1, "spec.tree": 1, "spec.source": 1}


@dataclass(frozen=True, slots=True)
class RunRemovals:
    """Reads what belongs to runs and what needs them, and removes it."""

    db: Database

    @answers()
    async def counts(self, run_id: str) -> dict[str, int]:
        """Return how many documents of each collection tell of a run; of those that are there."""
        found = {name: await self.db[name].count_documents({"runId": run_id}) for name in CHILDREN}
        return {name: count for name, count in found.items() if count}

    @answers()
    async def bytes_of(self, run_id: str) -> int:
        """Return the bytes of the registered files of a run."""
        pipeline: list[Document] = [
            {"$match": {"runId": run_id, "size": {"$type": "number"}}},
            {"$group": {"_id": None, "bytes": {"$sum": "$size"}}},
        ]
        cursor = await self.db.artifacts.aggregate(pipeline)
        return sum(int(each["bytes"]) for each in await cursor.to_list())

    @answers()
    async def attempts(self, run_id: str) -> list[int]:
        """Return the numbers of the attempts that the log of a run tells of."""
        pipeline: list[Document] = [
            {"$match": {"runId": run_id, "sequence": {"$exists": True}}},
            {"$group": {"_id": "$attempt"}},
        ]
        cursor = await self.db.events.aggregate(pipeline, hint="by_sequence")
        return sorted(each["_id"] for each in await cursor.to_list())

    @answers()
    async def events_of(self, run_id: str, attempt: int) -> int:
        """Return how many numbered events of an attempt the log has."""
        wanted = {"runId": run_id, "attempt": attempt, "sequence": {"$exists": True}}
        return await self.db.events.count_documents(wanted, hint="by_sequence")

    @answers()
    async def retries(self, run_id: str) -> list[str]:
        """Return runs that repeat a run, the newest first."""
        found = self.db[RUNS.collection].find({"parentRunId": run_id}, {"_id": 1}).hint("by_parent")
        return [each["_id"] for each in await found.sort("_id", -1).limit(SHOWN_MAX).to_list()]

    @answers()
    async def successors(self, run_id: str) -> list[str]:
        """Return runs that waited for a run, the newest first."""
        found = self.db[RUNS.collection].find({"after": run_id}, {"_id": 1}).hint("by_predecessor")
        return [each["_id"] for each in await found.sort("_id", -1).limit(SHOWN_MAX).to_list()]

    @answers()
    async def of_hypothesis(self, hypothesis_id: str) -> list[str]:
        """Return what was queued for a hypothesis, one more than may go with it at most."""
        found: list[str] = []
        for name in QUEUES:
            cursor = self.db[name].find({"hypothesisId": hypothesis_id}, {"_id": 1}).sort("_id", -1)
            found += [each["_id"] for each in await cursor.limit(MEMBERS_MAX + 1).to_list()]
        return found

    @answers()
    async def has_hypothesis(self, hypothesis_id: str) -> bool:
        """Say whether there is a hypothesis of this id."""
        return await self.db.hypotheses.find_one({"_id": hypothesis_id}, {"_id": 1}) is not None

    @answers()
    async def drop_hypothesis(self, hypothesis_id: str) -> None:
        """Remove a hypothesis."""
        await self.db.hypotheses.delete_one({"_id": hypothesis_id})

    @answers()
    async def needed(self, run_ids: Collection[str]) -> dict[str, str]:
        """Return of each of some runs that something still needs one such thing, in words.

        That is a run that has not ended and waits for it, repeats it, or reads its files; a schedule, or a
        group that is not closed, that names it or its files; and the group that it is a member of, until
        that is closed. Specifications are read only where a tree is made of the files of one of the runs.
        """
        wanted = [*run_ids]
        runs = self.db[RUNS.collection]
        found: dict[str, str] = {}
        live = {"status": {"$in": _LIVE}}
        waiting = runs.find({"after": {"$in": wanted}, **live}, {"after": 1}).hint("by_predecessor")
        async for each in waiting:
            found |= dict.fromkeys(each["after"], f"run {each['_id']} waits for it")
        retries = runs.find({"parentRunId": {"$in": wanted}, **live}, {"parentRunId": 1}).hint("by_parent")
        async for each in retries:
            found[each["parentRunId"]] = f"run {each['_id']} repeats it, from its checkpoints"
        members = runs.find({"_id": {"$in": wanted}, "groupId": {"$type": "string"}}, {"groupId": 1})
        by_group: dict[str, list[str]] = {}
        async for each in members:
            by_group.setdefault(each["groupId"], []).append(each["_id"])
        async for each in self.db.groups.find({"_id": {"$in": [*by_group]}, **_OPEN}, {"_id": 1}):
            found |= dict.fromkeys(by_group[each["_id"]], f"its group {each['_id']} is not closed")
        found |= await self._named(wanted)
        return {run_id: found[run_id] for run_id in wanted if run_id in found}

    async def _named(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return of each run that is named, or whose files are, by whom."""
        names = {run_id.encode(): run_id for run_id in run_ids}
        trees = self.db.trees.find({"run": {"$in": [*run_ids]}}, {"run": 1})
        has_trees = False
        async for each in trees:
            has_trees = True
            names[each["_id"].encode()] = each["run"]
        found: dict[str, str] = {}
        for what, query in (("schedule", {}), ("group", _OPEN)):
            fields = {"run": 1, "group": 1, "plan": 1}
            async for holder in raw(self.db, f"{what}s").find(query, fields):
                for name in names.keys() & {*_NAMES.findall(holder.raw)}:
                    found[names[name]] = f"{what} {holder['_id']} names it, or its files"
        kinds = {name: kind.queue.collection for name, kind in KINDS.items() if kind.has_inputs}
        for collection in {*kinds.values()} if has_trees else ():
            cursor = self.db[collection].find({"status": {"$in": _LIVE}}, {"_id": 1}).batch_size(PAGE)
            async with cursor:
                while runs := await cursor.to_list(PAGE):
                    specs = {"_id": {"$in": [each["_id"] for each in runs]}, "kind": {"$in": [*kinds]}}
                    async for reader in raw(self.db, "run_specs").find(specs, _READ):
                        for name in names.keys() & {*_NAMES.findall(reader.raw)}:
                            found[names[name]] = f"run {reader['_id']} reads its files"
        return found

    @answers()
    async def drop_run(self, found: Found) -> bool:
        """Remove a run that has ended and is as it was read; False where it is not."""
        run = found.run
        wanted: dict[str, Any] = {"_id": run.id, "revision": run.revision, "lastEventSeq": run.last_event_seq}
        wanted["status"] = {"$in": sorted(status.value for status in FINAL)}
        removed = await self.db[found.collection].delete_one(wanted)
        return removed.deleted_count == 1

    @answers()
    async def stored(self, found: Found) -> Document:
        """Return a run as it is stored, empty where it is gone."""
        return await self.db[found.collection].find_one({"_id": found.run.id}) or {}

    async def drop_children(self, run_id: str) -> int:
        """Remove everything that is stored beside a run, in pages; return how many documents that were."""
        removed = 0
        for name in CHILDREN:
            removed += await self._drop_all(name, {"runId": run_id})
        below = {"$gte": f"{run_id}/", "$lt": f"{run_id}0"}  # the ids that begin with the run's and a slash
        removed += await self._drop_all("early_lines", {"_id": below})
        removed += await self._drop_all("byte_counts", {"_id": below})
        prefix = f"{ARTIFACTS}{run_id}"
        removed += await self._drop_all("inspections", {"_id": {"$gte": f"{prefix}/", "$lt": f"{prefix}0"}})
        removed += await self._drop_all("trees", {"run": run_id})
        return removed + await self._drop_all("run_specs", {"_id": run_id})

    async def _drop_all(self, collection: str, query: Document) -> int:
        removed = 0
        while True:
            async with answers():
                page = await self.db[collection].find(query, {"_id": 1}).limit(PAGE).to_list()
                if page:
                    ids = [each["_id"] for each in page]
                    done = await self.db[collection].delete_many({**query, "_id": {"$in": ids}})
                    removed += done.deleted_count
            if len(page) < PAGE:
                return removed
