"""Queries on what goes of file trees: which are unused, who names them, and objects that go just now."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bson.binary import Binary
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.cursor import AsyncCursor

from control_plane.concurrency.turns import in_turns
from control_plane.model.groups.status import CLOSED
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import raw
from events.kinds import KINDS
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import FINAL, Status

PAGE: Final = 1_000
DIGEST_BYTES: Final = 32
# So long an announcement holds: who made it has ended its removals by then, or died.
ANNOUNCED_S: Final = 600.0
_ID: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_CLOSED: Final = sorted(CLOSED)
_FINAL: Final = sorted(status.value for status in FINAL)
_LIVE: Final = sorted(status.value for status in Status if status not in FINAL)
_READ: Final = dict.fromkeys(("spec.tree", "spec.inputs", "spec.source"), 1)
_INPUTS: Final = {"run.spec.inputs": 1, "plan": 1}  # a plan may vary them


@dataclass(frozen=True, slots=True)
class TreeRemovals:
    """Reads what may go, and removes it."""

    db: Database

    @answers()
    async def unused(self, since: datetime, limit: int) -> set[str]:
        """Return trees that nobody has used since a moment, those of interrupted pushes among them."""
        cursor = self.db.trees.find(_unused(since), {"_id": 1}).sort("usedAt").limit(limit)
        return {document["_id"] for document in await cursor.to_list()}

    @answers()
    async def named(self, trees: Collection[str], ended: datetime) -> set[str]:
        """Return those of some trees that something names.

        That is a version of a data set, a schedule, a group, or a run; of the last two none that has ended
        before a moment. A specification whose run is yet to come names its trees, too.
        """
        wanted = {each.encode() for each in trees}
        db, found = self.db, set[bytes]()
        old = {"status": {"$in": _CLOSED}, "updatedAt": {"$lt": ended}}
        found |= await _ids_in(raw(db, "data_sets").find({"removedAt": None}, {"tree": 1})) & wanted
        found |= await _ids_in(raw(db, "schedules").find({}, {"run.spec": 1})) & wanted
        found |= await _ids_in(raw(db, "groups").find({"$nor": [old]}, {"run.spec": 1, "plan": 1})) & wanted
        kinds = [name for name, kind in KINDS.items() if kind.has_inputs]
        by_run: dict[str, set[bytes]] = {}
        async with raw(db, "run_specs").find({"kind": {"$in": kinds}}, _READ) as cursor:
            async for each in cursor:
                if named := {*_ID.findall(each.raw)} & wanted - found:
                    by_run[each["_id"]] = named
                if len(by_run) >= PAGE:
                    found |= await self._of_kept(by_run, ended)
                    by_run.clear()
        return {each.decode() for each in found | await self._of_kept(by_run, ended)}

    async def _of_kept(self, by_run: dict[str, set[bytes]], ended: datetime) -> set[bytes]:
        """Return what those of some runs name that have not ended before a moment."""
        old: set[str] = set()
        query = {"_id": {"$in": [*by_run]}, "status": {"$in": _FINAL}, "finishedAt": {"$lt": ended}}
        for collection in QUEUES if by_run else ():
            old |= {each["_id"] for each in await self.db[collection].find(query, {"_id": 1}).to_list()}
        return set().union(*(named for run_id, named in by_run.items() if run_id not in old))

    @answers()
    async def keep(self, trees: Collection[str]) -> None:
        """Note that trees are in use."""
        query = {"_id": {"$in": [*trees]}, "usedAt": {"$type": "date"}}
        await self.db.trees.update_many(query, {"$currentDate": {"usedAt": True}})
        query["usedAt"] = None  # of an earlier version
        await self.db.trees.update_many(query, {"$currentDate": {"usedAt": True}})

    @answers()
    async def drop(self, trees: Collection[str], since: datetime) -> int:
        """Remove trees; one that somebody has used since a moment stays. Return how many went."""
        result = await self.db.trees.delete_many({"_id": {"$in": [*trees]}, **_unused(since)})
        return result.deleted_count

    @answers()
    async def held(self, objects: Iterable[str]) -> set[str]:
        """Return those of some objects that a tree has, or one that is being added: manifests and chunks."""
        wanted, found = {*objects}, set[str]()
        async with self.db.trees.find({}, {"digests": 1}) as cursor:
            async for tree in cursor:
                found |= wanted & {tree["_id"]}
                digests = bytes(tree.get("digests", b""))
                async for at in in_turns(range(0, len(digests), DIGEST_BYTES), PAGE):
                    if (name := digests[at : at + DIGEST_BYTES].hex()) in wanted:
                        found.add(name)
        return found

    @answers()
    async def announce(self, removal: str, objects: Iterable[str]) -> None:
        """Say which objects go now: who adds a tree with one of them waits."""
        stored = {"objects": Binary(b"".join(map(bytes.fromhex, objects)))}
        await self.db.object_removals.update_one(
            {"_id": removal}, {"$set": stored, "$currentDate": {"at": True}}, upsert=True
        )

    @answers()
    async def conclude(self, removal: str, keys: Sequence[str]) -> None:
        """Forget what was read of objects that went, take back what was announced, and what died since."""
        await self.db.inspections.delete_many({"_id": {"$in": [*keys]}})
        await self.db.object_removals.delete_many({"$or": [{"_id": removal}, {"$expr": _is_over()}]})

    @answers()
    async def is_going(self, objects: Collection[str]) -> bool:
        """Say whether one of some objects goes now."""
        wanted = {bytes.fromhex(each) for each in objects}
        async for announced in self.db.object_removals.find({"$expr": {"$not": _is_over()}}):
            going = bytes(announced["objects"])
            pieces = (going[at : at + DIGEST_BYTES] for at in range(0, len(going), DIGEST_BYTES))
            if not wanted.isdisjoint(pieces):
                return True
        return False

    @answers()
    async def user_of(self, name: str, version: int, *, is_only: bool) -> str | None:
        """Return who still reads a version of a data set: a run, a group or a schedule that has not ended.

        The name alone is the newest version: who has it so needs one, and only this one is left.
        """
        exact = re.compile(
            rb"\x00" + re.escape(f"{name}/{version}".encode()) + rb"(@[0-9a-f]{64})?\x00"
            + (rb"|\x00" + re.escape(name.encode()) + rb"(@[0-9a-f]{64})?\x00" if is_only else b"")
        )  # fmt: skip
        holders: dict[str, Document] = {"schedule": {}, "group": {"status": {"$nin": _CLOSED}}}
        for what, query in holders.items():
            async for each in raw(self.db, f"{what}s").find(query, _INPUTS):
                if exact.search(each.raw):
                    return f"{what} {each['_id']}"
        kinds = {name: kind.queue.collection for name, kind in KINDS.items() if kind.has_inputs}
        for collection in {*kinds.values()}:
            cursor = self.db[collection].find({"status": {"$in": _LIVE}}, {"_id": 1}).batch_size(PAGE)
            async with cursor:
                while runs := await cursor.to_list(PAGE):
                    specs = {"_id": {"$in": [each["_id"] for each in runs]}, "kind": {"$in": [*kinds]}}
                    async for each in raw(self.db, "run_specs").find(specs, {"spec.inputs": 1}):
                        if exact.search(each.raw):
                            return f"run {each['_id']}"
        return None


def _unused(since: datetime) -> Document:
    return {"$or": [{"usedAt": {"$lt": since}}, {"usedAt": None, "createdAt": {"$lt": since}}]}


def _is_over() -> Document:
    limit = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(ANNOUNCED_S)}}
    return {"$lt": ["$at", limit]}


async def _ids_in(cursor: AsyncCursor[RawBSONDocument]) -> set[bytes]:
    """Return the ids of trees in any text of the documents: one too many keeps a tree, no more."""
    found: set[Any] = set()
    async with cursor:
        async for each in cursor:
            found.update(_ID.findall(each.raw))
    return found
