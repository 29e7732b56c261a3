"""What the API and the pages read of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from control_plane.model.groups.constraints import broken
from control_plane.model.groups.members import COUNTED_AS
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.plan import Plan, plan_of
from control_plane.model.groups.pruning import stop_of
from control_plane.model.groups.study import Study
from control_plane.model.presentation import plain
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.runs import run_row
from control_plane.reads import paging
from control_plane.reads.reading import listing, moment_key, required
from control_plane.store.queue.groups import Groups
from events.answers.answer import Listing
from events.answers.groups import Group, GroupMember, GroupRow
from events.kinds.results import is_measured
from events.lifecycle import Status
from events.text.truncation import brief

VALUE_CHARS_MAX: Final = 100


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
class GroupReading:
    """The reads of groups. Each is bounded; lists are paged."""

    groups: Groups

    async def groups_page(self, limit: int, after: str | None = None) -> Listing[GroupRow]:
        """Return a page of groups, newest first."""
        found = await self.groups.page(moment_key("groups", after), paging.limited(limit))
        return listing("groups", found, partial(from_document, GroupRow))

    async def group(self, group_id: str) -> Group:
        """Return one group. Raises `NotFound`."""
        document = required(await self.groups.find(group_id), "group", group_id)
        plan, aside = plan_of(document["plan"]), {"pruned": 0, "infeasible": 0}
        if isinstance(plan, Study) and (plan.constraints or plan.pruning):
            aside = await self.groups.aside(group_id, document["first"], plan.constraints)
        return from_document(Group, document, slots=plan.slots, **aside)

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
        constraints = plan.constraints if isinstance(plan, Study) else ()
        found = await self.groups.best(group.id, group.first, name, direction, constraints)
        return [Best(each["slot"], each["_id"], each["value"]) for each in found]


def _member(run: Mapping[str, Any], values: Values, plan: Plan) -> GroupMember:
    shown = {name: brief(value, VALUE_CHARS_MAX) for name, value in values.items()}
    has_succeeded = COUNTED_AS[Status(run["status"])] == "succeeded"
    constraints = plan.constraints if isinstance(plan, Study) and has_succeeded else ()
    stop = stop_of(run)
    return GroupMember(
        slot=run["slot"],
        values=shown,
        summary=plain(run.get("summary") or {}),
        infeasible=broken(constraints, run.get("summary") or {}),
        pruned=None if stop is None else str(stop),
        run=run_row(run),
    )
