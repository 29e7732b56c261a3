"""Queries on rows of results: which attempt has said any, which sets it has, and pages of a set.

Law: a page is a walk along one index, in segments: the rows with the value where it begins, those behind it,
and last those without a value. Filters on other columns are looked at in bounded steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from control_plane.model.projection import RESULTS
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.catalog import EventRefused, ResultRecorded, type_of
from events.kinds.results import SORT_NAMES, ColumnType, Value

SETS_READ_MAX: Final = 16  # also where a pod makes up sets that its kind does not declare
REFUSED_READ_MAX: Final = 1_000
# A condition that every value of a type meets, and that an index of such values can be walked along by.
EVERY: Final[Mapping[ColumnType, Document]] = {
    "number": {"$gte": float("-inf")},
    "text": {"$gte": ""},
    "bool": {"$gte": False},
}
BY_KEY: Final[Order] = (("key", 1),)
NO_VALUE: Final[Document] = {"$exists": True, "$eq": None}


@dataclass(frozen=True, slots=True)
class Sorted:
    """By what rows are sorted: the place of a column, its type, its direction, and conditions on it."""

    name: str
    type: ColumnType
    is_descending: bool = False
    conditions: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """The row that a page follows: its key, and its value in the column; `value` is None without one."""

    key: str
    value: Value = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRows:
    """Which rows of which set a page holds; without `sorted_by` they are in the order of their keys."""

    run_id: str
    attempt: int
    set: str
    sorted_by: Sorted | None = None
    residual: Document = field(default_factory=dict)
    is_descending: bool = False
    after: Place | None = None
    is_backward: bool = False  # the rows before `after`, the nearest first
    limit: int


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows, and the one after which the next page begins; None at the end of the set."""

    rows: Sequence[Document]
    stopped_at: Place | None


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch of an index: the condition on the column, its order, and the value that all have."""

    condition: Document
    order: Order
    value: Value = None


@dataclass(frozen=True, slots=True)
class ResultReads:
    """Bounded reads of results."""

    db: Database

    @answers()
    async def newest_attempt(self, run_id: str) -> int | None:
        """Return the newest attempt of a run that recorded rows: one seek."""
        found = await self.db[RESULTS].find_one(
            {"runId": run_id, "attempt": {"$gte": 0}}, {"attempt": 1}, sort=[("attempt", -1)]
        )
        return None if found is None else int(found["attempt"])

    @answers()
    async def sets(self, run_id: str, attempt: int) -> list[str]:
        """Return the sets of which an attempt has rows: one seek for each."""
        found: list[str] = []
        while len(found) < SETS_READ_MAX:
            query = {"runId": run_id, "attempt": attempt, "set": {"$gt": found[-1] if found else ""}}
            each = await self.db[RESULTS].find_one(query, {"set": 1}, sort=[("set", 1)])
            if each is None:
                break
            found.append(each["set"])
        return found

    @answers()
    async def refused(self, run_id: str) -> int:
        """Return how many rows of a run were refused, of the first `REFUSED_READ_MAX` refused lines."""
        counted = await self.db.events.aggregate(
            [
                {"$match": {"runId": run_id, "type": type_of(EventRefused)}},
                {"$limit": REFUSED_READ_MAX},
                {"$match": {"data.refused_type": type_of(ResultRecorded)}},
                {"$count": "count"},
            ]
        )
        return next((int(each["count"]) for each in await counted.to_list()), 0)

    @answers()
    async def row(self, run_id: str, attempt: int, set: str, key: str) -> Document | None:
        """Return one row: one seek."""
        query = {"runId": run_id, "attempt": attempt, "set": set, "key": key}
        return await self.db[RESULTS].find_one(query)

    @answers()
    async def count(self, wanted: WantedRows, most: int) -> int:
        """Return how many rows have a value in the column of the order, counted along its index."""
        assert wanted.sorted_by is not None, "an index counts them"
        query = {"runId": wanted.run_id, "attempt": wanted.attempt, "set": wanted.set}
        condition = {wanted.sorted_by.name: wanted.sorted_by.conditions}
        return await self.db[RESULTS].count_documents({**query, **condition}, limit=most)

    async def page(self, wanted: WantedRows) -> RowPage:
        """Return the page. Raises `Transient` when the store does not answer."""
        rows: list[Document] = []
        last: Place | None = None
        for segment in _segments(wanted):
            left = wanted.limit - len(rows)
            found = await read_page(self.db, _of_segment(wanted, segment, max(1, left)))
            if left == 0:
                # whether there are more is all that is asked; a segment that is not at its end may have some
                if found.documents or found.stopped_at is not None:
                    return RowPage(rows, last)
                continue
            rows += found.documents
            if found.stopped_at is not None:
                return RowPage(rows, _place(segment, found))
            if rows:
                last = _place_of(wanted, rows[-1])
        return RowPage(rows, None)


def _of_segment(wanted: WantedRows, segment: _Segment, limit: int) -> Wanted:
    leading: Document = {"runId": wanted.run_id, "attempt": wanted.attempt, "set": wanted.set}
    return Wanted(
        collection=RESULTS,
        leading={**leading, **segment.condition},
        residual=wanted.residual,
        order=segment.order,
        limit=limit,
        hidden=SORT_NAMES if wanted.sorted_by is None else (),
    )


def _segments(wanted: WantedRows) -> list[_Segment]:
    """Return the stretches of the index that follow a place, in their order."""
    by, after = wanted.sorted_by, wanted.after
    if wanted.is_backward:
        return _backward(wanted)
    if by is None:
        direction = -1 if wanted.is_descending else 1
        beyond = {} if after is None else {"key": {"$lt" if wanted.is_descending else "$gt": after.key}}
        return [_Segment(beyond, (("key", direction),))]
    direction, side = (-1, "$lt") if by.is_descending else (1, "$gt")
    along: Order = ((by.name, direction), ("key", direction))
    every = {**EVERY[by.type], **by.conditions}
    missing = [] if by.conditions else [_Segment({by.name: NO_VALUE}, BY_KEY)]
    if after is None:
        return [_Segment({by.name: every}, along), *missing]
    if after.value is None:
        return [_Segment({by.name: NO_VALUE, "key": {"$gt": after.key}}, BY_KEY)]
    ties = {by.name: {"$eq": after.value}, "key": {side: after.key}}
    same = _Segment(ties, (("key", direction),), after.value)
    if "$eq" in by.conditions:
        return [same]
    # one condition on a side: of two the planner may take the wider one
    kept = {name: each for name, each in every.items() if name not in (side, f"{side}e")}
    behind = _Segment({by.name: {**kept, side: after.value}}, along)
    return [same, behind, *missing]


def _backward(wanted: WantedRows) -> list[_Segment]:
    """Return the stretches before a place, rows without a value first: they are the last in order."""
    by, after = wanted.sorted_by, wanted.after
    turned = replace(wanted, is_backward=False, is_descending=not wanted.is_descending)
    if by is None:
        return _segments(turned)
    other = replace(by, is_descending=not by.is_descending)
    if after is not None and after.value is None:
        missing = _Segment({by.name: NO_VALUE, "key": {"$lt": after.key}}, (("key", -1),))
        return [missing, _segments(replace(turned, sorted_by=other, after=None))[0]]
    found = _segments(replace(turned, sorted_by=other))
    return [each for each in found if each.condition.get(by.name) != NO_VALUE]


def _place(segment: _Segment, found: Slice) -> Place:
    assert found.stopped_at is not None
    *value, key = found.stopped_at
    return Place(str(key), value[0] if value else segment.value)


def _place_of(wanted: WantedRows, row: Document) -> Place:
    return Place(str(row.get("key")), None if wanted.sorted_by is None else row.get(wanted.sorted_by.name))
