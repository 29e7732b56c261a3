"""The lifecycle of a group: which action leads from which status to which, pure.

`TRANSITIONS` names every change; an action on a status without a row is refused with the statuses that it
takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from events.runtime.errors import Conflict


class GroupStatus(StrEnum):
    """Where a group stands."""

    OPEN = "OPEN"  # its slots are submitted
    PAUSED = "PAUSED"  # nothing new is submitted
    CLOSING = "CLOSING"  # nothing new will be; it waits for the members that have not ended
    CANCELING = "CANCELING"  # the same, and they are canceled
    COMPLETED = "COMPLETED"  # all have ended, at least one succeeded
    FAILED = "FAILED"  # all have ended, and none succeeded
    CANCELED = "CANCELED"


class Action(StrEnum):
    """Why the status of a group changes, or its plan."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    EDIT = "edit"
    AGAIN = "again"
    STOP = "stop"  # by its plan: after failures, or a goal that is reached
    START = "start"  # of a race: its lanes start at the moment that is decided
    CLOSE = "close"
    RETRY = "retry"  # a member of a closed group is run again


S = GroupStatus
CLOSED: Final = frozenset({S.COMPLETED, S.FAILED, S.CANCELED})
ACTIVE: Final = frozenset(S) - CLOSED

TRANSITIONS: Final[Mapping[Action, Mapping[GroupStatus, tuple[GroupStatus, ...]]]] = {
    Action.PAUSE: {S.OPEN: (S.PAUSED,)},
    Action.RESUME: {S.PAUSED: (S.OPEN,)},
    Action.CANCEL: dict.fromkeys((S.OPEN, S.PAUSED, S.CLOSING), (S.CANCELING,)),
    Action.EDIT: {status: (status,) for status in (S.PAUSED, *sorted(CLOSED))},
    Action.AGAIN: dict.fromkeys(sorted(CLOSED), (S.OPEN,)),
    Action.STOP: {S.OPEN: (S.CLOSING,)},
    Action.START: {status: (status,) for status in (S.OPEN, S.CLOSING)},
    Action.CLOSE: {
        S.OPEN: (S.COMPLETED, S.FAILED),
        S.CLOSING: (S.COMPLETED, S.FAILED, S.CANCELED),
        S.CANCELING: (S.CANCELED,),
    },
    Action.RETRY: dict.fromkeys(sorted(CLOSED), (S.CLOSING,)),
}


def usual(action: Action, status: GroupStatus) -> GroupStatus:
    """Return where an action of a person leads. Raises `Conflict` that names the statuses that it takes."""
    row = TRANSITIONS[action]
    if status not in row:
        takes = ", ".join(sorted(row))
        raise Conflict(
            "illegal_group_action", f"the group is {status}; {action} is for a group that is {takes}"
        )
    return row[status][0]
