"""Counts the runs of each status, and the waiting runs of each class, by bounded index scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.store.database import Database, Document, answers
from control_plane.store.schema import CLAIM_INDEX
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import FINAL, REVISED, Status

COUNT_MAX: Final = 10_000
CLASSES_MAX: Final = 200
# What the classes of a longer queue share: two hundred may each have a million.
SHARED_MAX: Final = 10_000

_BY_STATUS: Final = "by_status"
_WAITS: Final[Document] = {"status": Status.QUEUED.value}
_DEPTH: Final[Document] = {"depth": {"$sum": 1}, "oldest": {"$min": "$queuedAt"}}
# a group of names alone, in the order of the index, skips from one to the next
_NAMES: Final[Sequence[Document]] = (
    {"$match": _WAITS},
    {"$sort": {"status": 1, "classKey": 1}},
    {"$group": {"_id": "$classKey"}},
    {"$limit": CLASSES_MAX},
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A class of a queue: how many wait, and since when the oldest; of a partial one there are more."""

    collection: str
    class_key: str
    depth: int
    oldest: Any
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Tally:
    """How many runs are in each status, up to `COUNT_MAX`, and the classes in which something waits."""

    statuses: Mapping[Status, int]
    waiting: Sequence[Waiting]


@dataclass(slots=True)
class Tallies:
    """Counts runs. A status that none leaves is not counted again once it has `COUNT_MAX`."""

    db: Database
    _full: set[Status] = field(default_factory=set)

    @answers()
    async def look(self) -> Tally:
        """Count everything."""
        queued = {collection: await self._queued(collection) for collection in QUEUES}
        waiting = [each for name, count in queued.items() for each in await self._classes(name, count)]
        return Tally(await self._statuses(queued["runs"]), waiting)

    @answers()
    async def count(self, status: Status, most: int) -> int:
        """Return how many runs have `status`, counted up to `most`."""
        return await self.db.runs.count_documents({"status": status.value}, limit=most, hint=_BY_STATUS)

    @answers()
    async def running(self, kind: str, most: int) -> int:
        """Return how many runs of a kind are running, counted up to `most`; of all, no more than pods run."""
        query = {"status": Status.RUNNING.value, "kind": kind}
        return await self.db.runs.count_documents(query, limit=most, hint=_BY_STATUS)

    async def _queued(self, collection: str) -> int:
        # the command, unlike an aggregation, counts keys without making documents of them: four times as fast
        answer = await self.db.command("count", collection, query=_WAITS, limit=COUNT_MAX, hint=CLAIM_INDEX)
        return int(answer["n"])

    async def _statuses(self, queued: int) -> Mapping[Status, int]:
        statuses = [status for status in Status if status not in self._full and status != Status.QUEUED]
        pipeline = _together("runs", [_counted(status) for status in statuses])
        cursor = await self.db.runs.aggregate(pipeline, hint=_BY_STATUS)
        found = {Status(each["_id"]): each["count"] for each in await cursor.to_list()}
        self._full |= {status for status in FINAL - REVISED.keys() if found.get(status, 0) >= COUNT_MAX}
        found |= {Status.QUEUED: queued, **dict.fromkeys(self._full, COUNT_MAX)}
        return {status: found.get(status, 0) for status in Status}

    async def _classes(self, collection: str, queued: int) -> list[Waiting]:
        """Count a short queue in one go; of a long one, each class up to its share."""
        if queued < COUNT_MAX:
            share = COUNT_MAX
            whole: list[Document] = [
                {"$match": _WAITS},
                {"$limit": COUNT_MAX},
                {"$group": {"_id": "$classKey", **_DEPTH}},
            ]
            groups = await self._groups(collection, whole) if queued else []
        else:
            names = [each["_id"] for each in await self._groups(collection, _NAMES)]
            share = min(COUNT_MAX, SHARED_MAX // max(1, len(names)))
            pipelines = [_shared(name, share) for name in names]
            groups = await self._groups(collection, _together(collection, pipelines)) if names else []
        groups.sort(key=lambda group: str(group["_id"]))
        return [
            Waiting(collection, group["_id"], group["depth"], group["oldest"], group["depth"] >= share)
            for group in groups[:CLASSES_MAX]
        ]

    async def _groups(self, collection: str, pipeline: Sequence[Document]) -> list[Document]:
        cursor = await self.db[collection].aggregate(list(pipeline), hint=CLAIM_INDEX)
        return await cursor.to_list()


def _counted(status: Status) -> list[Document]:
    return [
        {"$match": {"status": status.value}},
        {"$limit": COUNT_MAX},
        {"$group": {"_id": None, "count": {"$sum": 1}}},
        {"$set": {"_id": status.value}},
    ]


def _shared(class_key: str, most: int) -> list[Document]:
    return [
        {"$match": {**_WAITS, "classKey": class_key}},
        {"$limit": most},
        {"$group": {"_id": None, **_DEPTH}},
        {"$set": {"_id": {"$literal": class_key}}},
    ]


def _together(collection: str, pipelines: Sequence[Sequence[Document]]) -> list[Document]:
    """Return one aggregation of `collection` that answers all of these."""
    first, *others = pipelines
    return [*first, *({"$unionWith": {"coll": collection, "pipeline": list(each)}} for each in others)]
