"""Groups of runs as the HTTP interface shows them: their plan, their rounds, and where their slots stand."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Count, Moment
from events.answers.races import RaceStanding


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


class Group(GroupRow, frozen=True, kw_only=True):
    """A group with its decisions, and its earlier rounds; `slots` is how many a round has.

    `race` is how its lanes stand, where its plan is a race.
    """

    slots: Count
    journal: list[GroupDecision]
    rounds: list[GroupRound]
    race: RaceStanding | UnsetType = UNSET
