"""Groups of runs as the HTTP interface shows them: their plan, their rounds, and where their slots stand."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.answer import Amount, Answer, Count, Moment
from events.answers.plans.races import RaceStanding
from events.answers.plans.studies import StudyStanding
from events.answers.runs import RunRow


class GroupCounts(Answer, frozen=True, kw_only=True):
    """How many slots of a round stand where; a retry counts instead of the run that it repeats.

    `reviewing` wait for a person. What a person has judged has succeeded, whatever the verdict.
    """

    waiting: Count
    running: Count
    reviewing: Count
    succeeded: Count
    failed: Count
    canceled: Count


class GroupRound(Answer, frozen=True, kw_only=True):
    """An earlier round: its slots from `first` on, up to `next`, which is the first of the round after it."""

    round: Count
    first: Count
    next: Count
    status: str
    counts: GroupCounts
    since: Moment


class GroupDecision(Answer, frozen=True, kw_only=True):
    """A decision about a group, by a person or by `advancer`, which submits its slots."""

    n: Count
    action: str
    by: str
    at: Moment
    came_from: str = msgspec.field(name="from")
    to: str
    reason: str | None


class GroupRow(Answer, frozen=True, kw_only=True):
    """A group as lists show it.

    `status` is OPEN, PAUSED, CLOSING, CANCELING, COMPLETED, FAILED or CANCELED. Its round has the slots from
    `first` on; those before `next` are submitted. `run` is submitted for each slot, with the values of the
    slot in its specification. `plan` is as it was posted, in a list without its values.
    """

    id: str
    run: dict[str, Any]
    plan: dict[str, Any]
    status: str
    round: Count
    since: Moment
    first: Count
    next: Count
    counts: GroupCounts
    revision: Count
    created_by: str
    created_at: Moment
    updated_at: Moment


class GroupMember(Answer, frozen=True, kw_only=True):
    """A member of a group: the run in its slot, its values of what varies, and its headline numbers.

    `infeasible` names the constraints that it breaks, `pruned` says why a study ended it early.
    """

    slot: Count
    values: dict[str, Any]
    summary: dict[str, Amount | str | bool | None]
    infeasible: str | None
    pruned: str | None
    run: RunRow


class GroupBudget(Answer, frozen=True, kw_only=True):
    """The budget of a group in dollars: what ended members of its round have cost, and what others may.

    `reserved_usd` is null where nobody knows; with `is_partial` the cost of some that have ended is in it.
    """

    usd: Amount
    spent_usd: Amount
    reserved_usd: Amount | None
    is_partial: bool


class Group(GroupRow, frozen=True, kw_only=True):
    """A group with its decisions, and its earlier rounds; `slots` is how many a round has.

    Of its round so many slots were `pruned`, which count as canceled, and so many are `infeasible`. `race` is
    how its lanes stand, where its plan is a race, `study` how the search stands, where it is a study,
    `budget` what was spent, where it has one.
    """

    slots: Count
    pruned: Count
    infeasible: Count
    journal: list[GroupDecision]
    rounds: list[GroupRound]
    race: RaceStanding | UnsetType = UNSET
    study: StudyStanding | UnsetType = UNSET
    budget: GroupBudget | UnsetType = UNSET
