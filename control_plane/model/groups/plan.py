"""What a group does next: `next_slots(group, members) -> Submit | Close | Wait`, pure.

Law: slots are submitted while the group is OPEN, in their order, and only that many that `parallel` members
are held at once. A group closes when all of its members have ended; COMPLETED only if one succeeded.
With a budget, each slot has a part of it as the budget of its run; none is submitted whose part is not left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import floor
from typing import Any, Final

from control_plane.model.groups.matrix import Matrix, matrix_of
from control_plane.model.groups.members import Members
from control_plane.model.groups.races.race import Race, race_of
from control_plane.model.groups.status import GroupStatus
from control_plane.model.groups.study import Study, study_of
from events.runtime.errors import Rejected

BATCH_MAX: Final = 1_000  # slots of one decision
MICRO_USD: Final = 1e-6  # parts are whole ones
BUDGET: Final = "budget_usd"  # of a plan, and of what each slot runs
EXACT: Final = 1e-9  # what a division may lose

Plan = Matrix | Study | Race


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as a decision reads it.

    The slots of its round are those from `first` on; those before `next` are decided, and of these those
    before `filled` are known to have their runs. The others are submitted before anything else is decided.
    """

    id: str
    status: GroupStatus
    plan: Plan
    first: int
    next: int
    filled: int
    since: datetime
    is_canceled: bool
    member_usd: float | None = None  # the budget of each run, where its author gave one


@dataclass(frozen=True, slots=True)
class Submit:
    """So many further slots are to be submitted, of a group with a budget with so much of it each."""

    count: int
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """The group is to go to this status: CLOSING while members have not ended, else its last one."""

    status: GroupStatus
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done until a member ends or a person decides."""


NextSlots = Submit | Close | Wait


def next_slots(group: Group, members: Members) -> NextSlots:
    """Decide what a group does next; every slot before `next` has its run."""
    needs_all = isinstance(group.plan, Matrix) and group.plan.nodes > 0
    if group.status in (GroupStatus.CLOSING, GroupStatus.CANCELING):
        is_canceled = group.is_canceled or group.status is GroupStatus.CANCELING
        return Wait() if members.live else Close(end(members, is_canceled=is_canceled, needs_all=needs_all))
    if group.status is not GroupStatus.OPEN:
        return Wait()
    left = group.plan.slots - (group.next - group.first)
    if left <= 0:
        return Wait() if members.live else Close(end(members, is_canceled=False, needs_all=needs_all))
    if (reason := group.plan.stopped(members)) is not None:
        return Close(GroupStatus.CLOSING, reason)
    if isinstance(group.plan, Study) and group.plan.rests(members):
        return Wait()
    count = min(group.plan.parallel - members.held, left, BATCH_MAX)
    if count <= 0 or group.plan.budget_usd is None:
        return Submit(count) if count > 0 else Wait()
    return _affordable(group.plan.budget_usd, group.member_usd, members, left, count)


def _affordable(budget: float, each: float | None, members: Members, left: int, count: int) -> NextSlots:
    """Decide how many slots the rest of a budget pays for: each has its own, or an even part of the rest.

    A member that has not ended may give something back: it is waited for.
    """
    rest = max(0.0, budget - members.used_usd)
    part = floor(rest / left / MICRO_USD) * MICRO_USD if each is None else each
    paid = count if each is None else floor(rest / each + EXACT)
    if part > 0 and paid > 0:
        return Submit(min(count, paid), part)
    if members.live:
        return Wait()
    spent = f"{members.used_usd:.4g} of the {budget:g} USD of its budget are spent"
    return Close(GroupStatus.CLOSING, spent if each is None else f"{spent}, and a member may cost {each:g}")


def end(members: Members, *, is_canceled: bool, needs_all: bool = False) -> GroupStatus:
    """Return the status of a group all of whose members have ended; nodes of a job need each other."""
    if is_canceled:
        return GroupStatus.CANCELED
    if needs_all and (members.failed or members.canceled):
        return GroupStatus.FAILED
    return GroupStatus.COMPLETED if members.succeeded else GroupStatus.FAILED


def plan_of(plan: Mapping[str, Any]) -> Plan:
    """Return the plan in a body or a document. Raises `Rejected` for one that cannot be carried out."""
    match plan["kind"]:
        case "study":
            return study_of(plan)
        case "race":
            return race_of(plan)
    return matrix_of(plan)


def require_budget(plan: Plan, spec: Mapping[str, Any]) -> None:
    """Refuse a budget that does not pay for one member, or for all that start together. Raises `Rejected`."""
    if plan.budget_usd is None:
        return
    if BUDGET in plan.names:
        raise Rejected("bad_plan", f"plan: {BUDGET} of the members varies; with one of the group it cannot")
    each, at_once = _number(spec.get(BUDGET)), plan.slots if starts_together(plan) else 1
    if each is not None and each * at_once > plan.budget_usd * (1 + EXACT):
        who = f"{at_once} members that start together" if at_once > 1 else "a member"
        message = f"{plan.budget_usd:g} USD are less than {who} may cost, {each * at_once:g}"
        raise Rejected("bad_plan", f"plan.budget_usd: {message}; raise it, or lower {BUDGET} of the run")


def is_open(group: Group) -> bool:
    """Say whether slots of it are still to be submitted."""
    return group.status is GroupStatus.OPEN and group.next - group.first < group.plan.slots


def starts_together(plan: Plan) -> bool:
    """Say whether all slots of a plan run at once, or none does."""
    return isinstance(plan, Race) or (isinstance(plan, Matrix) and plan.nodes > 0)


def group_of(document: Mapping[str, Any]) -> Group:
    """Return a stored group in types."""
    return Group(
        id=document["_id"],
        status=GroupStatus(document["status"]),
        plan=plan_of(document["plan"]),
        first=document["first"],
        next=document["next"],
        filled=document["filled"],
        since=document["since"],
        is_canceled=document["canceled"],
        member_usd=_number(document["run"]["spec"].get(BUDGET)),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
