"""Queries for the pruning of studies: who is compared, and what each has measured. Each is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.constraints import Constraint
from control_plane.model.groups.pruning import PEERS_MAX
from control_plane.model.groups.status import GroupStatus
from control_plane.store.database import Database, Document, answers
from control_plane.store.queue.groups import MEMBERS, SUCCEEDED
from events.catalog import StageMetric, type_of
from events.lifecycle import LIVE
from events.text.attempt_id import AttemptId

STUDIES_MAX: Final = 200  # of one look; the next one goes on behind them
RUNNING_MAX: Final = 100  # of a group: those that were submitted first; when they have ended, others are
SAID_MAX: Final = 2_000  # numbers of an attempt that one read takes in; the next one goes on there

_GOING_ON: Final = [GroupStatus.OPEN.value, GroupStatus.PAUSED.value, GroupStatus.CLOSING.value]
_WORKING: Final = sorted(status.value for status in LIVE)
_ATTEMPT: Final = {"attempt": 1, "logOpen": 1, "slot": 1, "status": 1}


@dataclass(frozen=True, slots=True)
class PruneReads:
    """Reads the members of studies and the metrics in their logs."""

    db: Database

    @answers()
    async def studies(self, after: str) -> list[Document]:
        """Return the next groups after a name whose plan prunes, and that are neither closed nor canceled."""
        wanted = {"status": {"$in": _GOING_ON}, "plan.prune": {"$exists": True}, "_id": {"$gt": after}}
        found = self.db.groups.find(wanted, {"plan": 1, "first": 1}).sort("_id", 1).limit(STUDIES_MAX)
        return await found.to_list()

    async def working(self, group_id: str, first: int) -> list[Document]:
        """Return the attempts that work on members of the round, those of its first slots."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}, "status": {"$in": _WORKING}}
        return await self._members(wanted, 1, RUNNING_MAX)

    async def succeeded(self, group_id: str, first: int, constraints: Sequence[Constraint]) -> list[Document]:
        """Return the last attempts of members of the round that have succeeded, those of its last slots.

        One that is infeasible is no mark for others.
        """
        wanted: Document = {"groupId": group_id, "slot": {"$gte": first}, "status": {"$in": SUCCEEDED}}
        if constraints:
            wanted["$and"] = [
                {f"summary.{each.name}": {"$type": "number", "$lte" if each.is_upper else "$gte": each.bound}}
                for each in constraints
            ]
        return await self._members(wanted, -1, PEERS_MAX)

    @answers()
    async def _members(self, wanted: Document, direction: int, limit: int) -> list[Document]:
        found = self.db[MEMBERS].find(wanted, _ATTEMPT).hint("by_group").sort("_id", direction).limit(limit)
        return await found.to_list()

    @answers()
    async def said(self, attempt_id: AttemptId, metric: str, after: str) -> tuple[str, list[tuple[Any, Any]]]:
        """Return the steps and values that an attempt said of a metric after a position of the log.

        The first value is the position up to which was read.
        """
        of_run = {"runId": attempt_id.run_id, "type": type_of(StageMetric), "position": {"$gt": after}}
        is_wanted = {"$and": [
            {"$eq": ["$attempt", attempt_id.attempt]}, {"$eq": ["$data.name", {"$literal": metric}]},
        ]}  # fmt: skip
        point = {"s": {"$ifNull": ["$data.step", None]}, "v": "$data.value"}
        pipeline: list[Document] = [
            {"$match": of_run},
            {"$sort": {"position": 1}},
            {"$limit": SAID_MAX},
            {
                "$group": {
                    "_id": None,
                    "last": {"$last": "$position"},
                    "points": {"$push": {"$cond": [is_wanted, point, "$$REMOVE"]}},
                }
            },
        ]
        cursor = await self.db.events.aggregate(pipeline, hint="by_type")
        found = next(iter(await cursor.to_list()), None)
        if found is None:
            return after, []
        return found["last"], [(each["s"], each.get("v")) for each in found["points"]]
