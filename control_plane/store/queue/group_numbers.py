"""Queries for the charts of a group: headline numbers and curves of its members.

Law: each is bounded by the members that are asked for, and by `NUMBERS_MAX` of what a member measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.store.database import Database, Document, answers
from control_plane.store.queue.groups import MEMBERS, newest_of_slots
from events.catalog import StageMetric, type_of

NUMBERS_MAX: Final = 2_000  # of a member, the latest: of all its metrics
NAMES_MAX: Final = 100
NAMED_BY: Final = 200  # numbers of a member by which its metrics are named, the latest
POINTS_MAX: Final = 500  # of a curve


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """Reads of what the members of a group measured."""

    db: Database

    @answers()
    async def headline(
        self, group_id: str, first: int, name: str | None, others: Sequence[str]
    ) -> list[Document]:
        """Return of each slot from `first` on its newest run: slot, run, status, and the number `name`.

        `summary` has the `others` of its headline numbers.
        """
        fields: Document = {"attempt": "$attempt", **({"value": f"$summary.{name}"} if name else {})}
        fields |= {"summary": {each: f"$summary.{each}" for each in others}} if others else {}
        pipeline = newest_of_slots(group_id, first, fields)
        cursor = await self.db[MEMBERS].aggregate(pipeline, hint="by_group")
        return [{"slot": each["_id"], **each["newest"]} for each in await cursor.to_list()]

    @answers()
    async def metric_names(self, run_id: str) -> list[tuple[str, str]]:
        """Return stage and name of the metrics that a run measured lately."""
        pipeline: list[Document] = [
            {"$match": {"runId": run_id, "type": type_of(StageMetric)}},
            {"$sort": {"position": -1}},
            {"$limit": NAMED_BY},
            {"$group": {"_id": {"stage": "$data.stage", "name": "$data.name"}}},
            {"$limit": NAMES_MAX},
        ]
        cursor = await self.db.events.aggregate(pipeline, hint="by_type")
        found = [(each["_id"].get("stage"), each["_id"].get("name")) for each in await cursor.to_list()]
        return sorted(
            (stage, name) for stage, name in found if isinstance(stage, str) and isinstance(name, str)
        )

    @answers()
    async def curve(self, run_id: str, stage: str, name: str) -> list[tuple[Any, Any]]:
        """Return step and value of one metric of a run, in the order of its log.

        What has no step has its number among the latest. Of more than `POINTS_MAX` as many are taken evenly,
        the last one among them.
        """
        pipeline: list[Document] = [
            {"$match": {"runId": run_id, "type": type_of(StageMetric)}},
            {"$sort": {"position": -1}},
            {"$limit": NUMBERS_MAX},
            {"$match": {"data.stage": {"$eq": stage}, "data.name": {"$eq": name}}},
            {"$group": {"_id": None, "all": {"$push": {"step": "$data.step", "value": "$data.value"}}}},
            {"$project": {"points": _evenly("$all", POINTS_MAX), "count": {"$size": "$all"}}},
        ]
        cursor = await self.db.events.aggregate(pipeline, hint="by_type")
        for each in await cursor.to_list():
            apart = math.ceil(each["count"] / POINTS_MAX)
            numbers = range(each["count"] - 1, -1, -apart)
            newest_first = zip(numbers, each["points"], strict=True)
            return [(point.get("step", at), point.get("value")) for at, point in newest_first][::-1]
        return []


def _evenly(array: str, most: int) -> Document:
    """Return the expression for at most `most` elements of an array, from its first on at equal distances."""
    step = {"$toInt": {"$max": [1, {"$ceil": {"$divide": [{"$size": array}, most]}}]}}
    places = {"$range": [0, {"$size": array}, step]}
    return {"$map": {"input": places, "as": "at", "in": {"$arrayElemAt": [array, "$$at"]}}}
