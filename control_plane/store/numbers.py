"""Queries for the fleet's numbers, of a day or a moment: each reads a bounded count of index keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo.errors import OperationFailure

from control_plane.model.ownership import IMPORTED
from control_plane.model.positions.lag import Look
from control_plane.model.presentation import finite
from control_plane.store.database import Database, Document, answers
from events.catalog import RunUsage, StatusChanged, type_of
from events.kinds.declaring.queues import QUEUES

USAGE_MAX: Final = 200_000  # keys of one day
ENDED_MAX: Final = 200_000
LETTERS_MAX: Final = 10_000
OVERDUE_MAX: Final = 10_000
PODS_MAX: Final = 10_000
CODES_MAX: Final = 50
HELD_LOOKED_AT: Final = 50  # runs whose newest events are looked at

_USAGE: Final = "by_usage"
_IMPORTED_USAGE: Final = "imported_usage"
_FINISHED: Final = "by_finish"


@dataclass(frozen=True, slots=True)
class Spent:
    """What usage events of a stretch of time add up to; `is_partial` where there were more than are read."""

    gpu_s: float
    cost_usd: float
    events: int
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Overdue:
    """Leases that are over and not taken back, counted up to `OVERDUE_MAX`, and how long the oldest is."""

    count: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What live pods report: events that wait, the age of the oldest, the least free disk, failed uploads."""

    waiting: int = 0
    oldest_s: float = 0.0
    disk_free_bytes: int | None = None
    upload_failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumberReads:
    """Bounded sums over index keys."""

    db: Database

    @answers()
    async def spent(self, since: datetime, until: datetime) -> Spent:
        """Return the costs that events reported which arrived in that time, without those of other fleets."""
        arrived: Document = {"receivedAt": {"$gte": since, "$lt": until}}
        all_of_it = await self._spent({"type": type_of(RunUsage), **arrived}, _USAGE)
        foreign = await self._spent({IMPORTED: True, **arrived}, _IMPORTED_USAGE)
        return Spent(
            max(0.0, all_of_it.gpu_s - foreign.gpu_s),
            max(0.0, all_of_it.cost_usd - foreign.cost_usd),
            max(0, all_of_it.events - foreign.events),
            is_partial=all_of_it.is_partial or foreign.is_partial,
        )

    async def _spent(self, query: Document, hint: str) -> Spent:
        pipeline: list[Document] = [
            {"$match": query},
            {"$limit": USAGE_MAX},
            {"$project": {"_id": 0, "gpu": "$data.gpu_s", "usd": "$data.cost_usd"}},
            {
                "$group": {
                    "_id": None,
                    # what a pod says that it was given back hides nothing that others have spent
                    "gpu": {"$sum": {"$max": ["$gpu", 0]}},
                    "usd": {"$sum": {"$max": ["$usd", 0]}},
                    "events": {"$sum": 1},
                }
            },
        ]
        cursor = await self.db.events.aggregate(pipeline, hint=hint)
        for group in await cursor.to_list():
            return Spent(group["gpu"], group["usd"], group["events"], group["events"] >= USAGE_MAX)
        return Spent(0.0, 0.0, 0, is_partial=False)

    @answers()
    async def ended(self, since: datetime, until: datetime) -> Mapping[str, int]:
        """Return how many runs ended then, by status, counted up to `ENDED_MAX` in all."""
        pipeline: list[Document] = [
            {"$match": {"finishedAt": {"$gte": since, "$lt": until}}},
            {"$limit": ENDED_MAX},
            {"$group": {"_id": "$status", "count": {"$sum": 1}}},
        ]
        cursor = await self.db.runs.aggregate(pipeline, hint=_FINISHED)
        return {group["_id"]: group["count"] for group in await cursor.to_list()}

    @answers()
    async def dead_letters(self, since: datetime) -> Mapping[str, int]:
        """Return how many lines were refused or set aside since then, by code, at most `LETTERS_MAX`."""
        pipeline: list[Document] = [
            {"$match": {"at": {"$gte": since}}},
            {"$limit": LETTERS_MAX},
            {"$group": {"_id": "$code", "count": {"$sum": 1}}},
        ]
        cursor = await self.db.dead_letters.aggregate(pipeline, hint="by_time")
        return {group["_id"]: group["count"] for group in await cursor.to_list()}

    @answers()
    async def open_logs(self) -> Sequence[Look]:
        """Look at runs whose log is open: their newest event, and what is stored beyond what is applied."""
        pipeline: list[Document] = [
            {"$match": {"logOpen": True}},
            {"$sort": {"_id": -1}},
            {"$limit": HELD_LOOKED_AT},
            {"$project": {"attempt": 1, "lastEventSeq": 1}},
            {"$lookup": {"from": "events", "as": "newest", "let": {"run": "$_id"}, "pipeline": _newest()}},
            {
                "$lookup": {
                    "from": "events",
                    "as": "last",
                    "let": {"run": "$_id", "attempt": "$attempt"},
                    "pipeline": _last(),
                }
            },
        ]
        cursor = await self.db.runs.aggregate(pipeline)
        return [_look(each) for each in await cursor.to_list()]

    @answers()
    async def overdue(self) -> Overdue:
        """Return the leases that are over by the store's clock."""
        count, oldest_s = 0, 0.0
        for queue in QUEUES:
            pipeline: list[Document] = [
                {
                    "$match": {
                        "lease.until": {"$type": "date"},
                        "$expr": {"$lt": ["$lease.until", "$$NOW"]},
                    }
                },
                {"$limit": OVERDUE_MAX},
                {"$project": {"ms": {"$subtract": ["$$NOW", "$lease.until"]}}},
                {"$group": {"_id": None, "count": {"$sum": 1}, "ms": {"$max": "$ms"}}},
            ]
            for group in await (await self.db[queue].aggregate(pipeline, hint="lease")).to_list():
                count += group["count"]
                oldest_s = max(oldest_s, group["ms"] / 1000)
        return Overdue(count, oldest_s)

    @answers()
    async def deliveries(self, since: datetime) -> Deliveries:
        """Return what pods that reported since then wait to deliver, and where they have no room."""
        live: list[Document] = [
            {"$match": {"reportedAt": {"$gte": since}}},
            {"$limit": PODS_MAX},
            {"$match": {"state": {"$ne": "stopped"}, "delivery.waiting": {"$type": "number"}}},
        ]
        sums: Document = {
            "_id": None,
            "waiting": {"$sum": "$delivery.waiting"},
            "oldestS": {"$max": _number("$delivery.oldestS")},
            "free": {"$min": _number("$delivery.diskFreeBytes")},
        }
        failures: list[Document] = [
            {"$unwind": "$delivery.uploadFailures"},
            {
                "$group": {
                    "_id": "$delivery.uploadFailures.code",
                    "count": {"$sum": "$delivery.uploadFailures.count"},
                }
            },
            {"$sort": {"count": -1}},
            {"$limit": CODES_MAX},
        ]
        found = await (await self.db.pods.aggregate([*live, {"$group": sums}])).to_list()
        failed = await (await self.db.pods.aggregate([*live, *failures])).to_list()
        by_code = {each["_id"]: int(finite(each["count"])) for each in failed if isinstance(each["_id"], str)}
        for group in found:
            waiting, oldest_s, free = int(finite(group["waiting"])), group["oldestS"], group["free"]
            free = None if free is None else int(finite(free))
            return Deliveries(waiting, finite(oldest_s or 0.0), free, by_code)
        return Deliveries(upload_failures=by_code)

    @answers()
    async def disk_free_bytes(self) -> int | None:
        """Return the free bytes of the store's disk; None where the server does not tell."""
        try:
            told = await self.db.command("dbStats")
        except OperationFailure:
            return None
        total, used = told.get("fsTotalSize"), told.get("fsUsedSize")
        return None if total is None or used is None else int(total - used)


def _number(field: str) -> Document:
    """Return the expression of a field that is a number; null stands for anything else."""
    return {"$cond": [{"$isNumber": field}, field, None]}


def _newest() -> list[Document]:
    """Return the lookup of a run's newest event that a pod sent."""
    is_of_run = {"$expr": {"$eq": ["$runId", "$$run"]}}
    return [
        {"$match": is_of_run},
        {"$sort": {"position": -1}},
        {"$limit": 5},
        {"$match": {"type": {"$ne": type_of(StatusChanged)}}},
        {"$limit": 1},
        {"$project": {"_id": 0, "time": 1, "receivedAt": 1}},
    ]


def _last() -> list[Document]:
    """Return the lookup of the last number that is stored of an attempt."""
    same = [{"$eq": ["$runId", "$$run"]}, {"$eq": ["$attempt", "$$attempt"]}]
    return [
        {"$match": {"$expr": {"$and": same}, "sequence": {"$exists": True}}},
        {"$sort": {"sequence": -1}},
        {"$limit": 1},
        {"$project": {"_id": 0, "sequence": 1}},
    ]


def _look(found: Mapping[str, Any]) -> Look:
    newest: Mapping[str, Any] = next(iter(found["newest"]), {})
    last: Mapping[str, Any] = next(iter(found["last"]), {})
    stored = last.get("sequence", 0)
    return Look(found["_id"], newest.get("time"), newest.get("receivedAt"), stored, found["lastEventSeq"])
