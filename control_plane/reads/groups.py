"""What the API and the pages read of groups."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from control_plane.model.groups.constraints import Constraint, broken
from control_plane.model.groups.members import COUNTED_AS
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.plan import Plan, plan_of
from control_plane.model.groups.pruning import stop_of
from control_plane.model.groups.study import Study
from control_plane.model.presentation import plain
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.readable import reading_of, typed
from control_plane.model.views.runs import run_row
from control_plane.reads import paging
from control_plane.reads.reading import listing, moment_key, required
from control_plane.store.queue.group_numbers import GroupNumbers
from control_plane.store.queue.groups import SUCCEEDED, Groups
from events.answers.answer import Listing
from events.answers.groups import Group, GroupMember, GroupRow
from events.kinds.declaring.spec import FIELD_NAME
from events.kinds.results import is_measured
from events.lifecycle import Status
from events.runtime.errors import Rejected
from events.text.truncation import brief

Item = TypeVar("Item")

VALUE_CHARS_MAX: Final = 100
CURVES_MAX: Final = 50  # members of a group whose curves are read
CURVES_AT_ONCE: Final = 10
NAMED_BY_MEMBERS: Final = 5  # by which the metrics of a group are found


@dataclass(frozen=True, slots=True)
class Cause:
    """Why members failed: a code, how many, and the newest of them."""

    code: str | None
    message: str | None
    count: int
    run_id: str


@dataclass(frozen=True, slots=True)
class Best:
    """A member that measured one of the best values of a headline number."""

    slot: int
    run_id: str
    value: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The newest run of a slot, and its headline number: None unless it counts for the goal."""

    slot: int
    run_id: str
    status: str
    has_begun: bool
    value: float | None


@dataclass(frozen=True, slots=True)
class Curves:
    """One metric of some members: of each its step, or the number of the measurement, with its value.

    `names` are the metrics that could be chosen. Of those that have begun, `members` have a curve each, which
    may be empty.
    """

    names: Sequence[str]
    name: str | None
    begun: int
    members: Sequence[Measured]
    points: Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The reads of groups. Each is bounded; lists are paged."""

    groups: Groups
    numbers: GroupNumbers

    async def groups_page(
        self, limit: int, after: str | None = None, project: str | None = None
    ) -> Listing[GroupRow]:
        """Return a page of groups, or of those of a project, newest first."""
        found = await self.groups.page(moment_key("groups", after), paging.limited(limit), project)
        return listing("groups", found, _row)

    async def group(self, group_id: str) -> Group:
        """Return one group. Raises `NotFound`."""
        document = required(await self.groups.find(group_id), "group", group_id)
        with reading_of("group", group_id):
            plan, aside = plan_of(document["plan"]), {"pruned": 0, "infeasible": 0}
            require_names(plan)
            if isinstance(plan, Study) and (plan.constraints or plan.pruning):
                aside = await self.groups.aside(group_id, document["first"], plan.constraints)
            return typed(from_document(Group, _told(document), slots=plan.slots, **aside))

    async def members(self, group: Group, limit: int, after: str | None = None) -> Listing[GroupMember]:
        """Return a page of the members of a group, in the order of their slots."""
        key = None if after is None else paging.decode("members", after, str)
        found = await self.groups.page_of_members(group.id, key, paging.limited(limit))
        plan = plan_of(group.plan)
        values = await self.groups.values([each["_id"] for each in found.documents], plan.names)
        return listing("members", found, lambda run: _member(run, values[run["_id"]], plan))

    async def causes(self, group: Group) -> list[Cause]:
        """Return why members of this round failed, the most frequent cause first."""
        return [
            Cause(plain(each["_id"]), brief(plain(each["message"]), 500), each["count"], each["run"])
            for each in await self.groups.causes(group.id, group.first)
        ]

    async def headline(self, group: Group) -> Sequence[str]:
        """Return the names of the headline numbers that members of this round have."""
        found = await self.groups.summarized(group.id, group.first)
        summary = found["summary"] if found is not None else {}
        return [name for name, value in summary.items() if is_measured(value)]

    async def best(self, group: Group, name: str, *, is_lower_better: bool) -> list[Best]:
        """Return the members of this round with the best values of a headline number, the best first."""
        direction, plan = 1 if is_lower_better else -1, plan_of(group.plan)
        found = await self.groups.best(group.id, group.first, name, direction, _constraints(plan))
        return [Best(each["slot"], each["_id"], each["value"]) for each in found]

    async def measured(self, group: Group, name: str | None) -> list[Measured]:
        """Return every slot of this round with its headline number, in their order."""
        constraints = _constraints(plan_of(group.plan))
        others = [each.name for each in constraints]
        found = await self.numbers.headline(group.id, group.first, name, others)
        return sorted((_measured(each, constraints) for each in found), key=lambda each: each.slot)

    async def parameters(self, group: Group, members: Sequence[Measured]) -> list[Mapping[str, Any]]:
        """Return the values of the parameters that vary, of each of these members."""
        names = plan_of(group.plan).names
        values = await self.groups.values([each.run_id for each in members], names)
        return [shown(values[each.run_id]) for each in members]

    async def curves(self, members: Sequence[Measured], wanted: str | None) -> Curves:
        """Return one metric of at most `CURVES_MAX` members that have begun; the first without `wanted`."""
        every = [each for each in members if each.has_begun]
        begun = evenly(every, CURVES_MAX)
        named = await asyncio.gather(
            *(self.numbers.metric_names(each.run_id) for each in evenly(begun, NAMED_BY_MEMBERS))
        )
        known = {f"{stage}: {name}": (stage, name) for found in named for stage, name in found}
        chosen = wanted if wanted is not None else next(iter(known), None)
        if chosen is None or chosen not in known:
            return Curves([*known], chosen, len(every), (), ())
        points: list[Sequence[tuple[float, float]]] = []
        for start in range(0, len(begun), CURVES_AT_ONCE):
            part = begun[start : start + CURVES_AT_ONCE]
            read = await asyncio.gather(*(self.numbers.curve(each.run_id, *known[chosen]) for each in part))
            points += map(_points, read)
        return Curves([*known], chosen, len(every), begun, points)


def _row(document: Mapping[str, Any]) -> GroupRow:
    """Return a group as a list shows it. Raises `UnreadableDocument`."""
    with reading_of("group", document.get("_id")):
        return typed(from_document(GroupRow, _told(document)))


def _told(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a group of which pages can tell kind and plan. Raises `Rejected`."""
    run, plan = document["run"], document["plan"]
    told = {"run.kind": run["kind"], "plan.kind": plan["kind"]}
    if plan["kind"] != "race":  # its lanes are all submitted at once
        told["plan.parallel"] = plan["parallel"]
    if wrong := [name for name, value in told.items() if not isinstance(value, str | int)]:
        raise Rejected("bad_group", f"{wrong[0]} is {told[wrong[0]]!r}")
    return document


def require_names(plan: Plan) -> None:
    """Require that the parameters of a plan have names. Raises `Rejected`."""
    if wrong := [name for name in plan.names if not re.fullmatch(FIELD_NAME, name)]:
        raise Rejected("bad_group", f"{wrong[0]!r} is no name of a parameter")


def evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Return at most `most` of the items at equal distances, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def _points(read: Sequence[tuple[Any, Any]]) -> list[tuple[float, float]]:
    """Return a curve in the order of its steps; a step that was measured again has the later value."""
    found: dict[float, float] = {}
    for step, value in read:
        if is_measured(step) and is_measured(value):
            found[float(step)] = float(value)
    return sorted(found.items())


def _constraints(plan: Plan) -> Sequence[Constraint]:
    return plan.constraints if isinstance(plan, Study) else ()


def _measured(found: Mapping[str, Any], constraints: Sequence[Constraint]) -> Measured:
    with reading_of("run", found["run"]):
        value, status = found.get("value"), found["status"]
        counts = status in SUCCEEDED and broken(constraints, found.get("summary", {})) is None
        return Measured(
            slot=found["slot"],
            run_id=found["run"],
            status=status,
            has_begun=bool(found.get("attempt")),
            value=float(value) if counts and is_measured(value) else None,
        )


def shown(values: Values) -> dict[str, Any]:
    """Return values of parameters as answers tell them: none too long."""
    return {name: brief(value, VALUE_CHARS_MAX) for name, value in values.items()}


def _member(run: Mapping[str, Any], values: Values, plan: Plan) -> GroupMember:
    with reading_of("run", run["_id"]):
        has_succeeded = COUNTED_AS[Status(run["status"])] == "succeeded"
        constraints = _constraints(plan) if has_succeeded else ()
        stop, summary = stop_of(run), run.get("summary") or {}
        return typed(
            GroupMember(
                slot=run["slot"],
                values=shown(values),
                summary=plain(summary),
                infeasible=broken(constraints, summary),
                pruned=None if stop is None else str(stop),
                run=run_row(run),
            )
        )
