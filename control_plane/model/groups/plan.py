"""What a group does next: `next_slots(group, members) -> Submit | Close | Wait`, pure.

Law: slots are submitted while the group is OPEN, in their order, and only that many that `parallel` members
are held at once. A group closes when all of its members have ended; COMPLETED only if one succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.model.groups.matrix import Matrix, matrix_of
from control_plane.model.groups.members import Members
from control_plane.model.groups.races.race import Race, race_of
from control_plane.model.groups.status import GroupStatus
from control_plane.model.groups.study import Study, study_of

BATCH_MAX: Final = 1_000  # slots of one decision

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


@dataclass(frozen=True, slots=True)
class Submit:
    """So many further slots are to be submitted."""

    count: int


@dataclass(frozen=True, slots=True)
class Close:
    """The group is to go to this status: CLOSING while members have not ended, else its last one."""

    status: GroupStatus
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done until a member ends or a person decides."""


def next_slots(group: Group, members: Members) -> Submit | Close | Wait:
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
    return Submit(count) if count > 0 else Wait()


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
    )
