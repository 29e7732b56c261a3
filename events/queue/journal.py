"""A decision, and the one update that makes it and journals it, pure.

Law: a decision about a run raises `revision` and appends to `journal` in the same atomic update. The server
evaluates the entry, so a phase that moved meanwhile is recorded rightly. Both sides of the fleet decide
(the worker claims and settles, the control plane does the rest), therefore the update's shape is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final

from events.lifecycle import AT_REST, Cause, Failures, Status


@dataclass(frozen=True, slots=True)
class ServerTime:
    """The store's own clock, plus an offset; evaluated by the server."""

    plus_s: float = 0.0

    @property
    def offset(self) -> timedelta:
        """The offset as the store takes it: in whole milliseconds."""
        return timedelta(milliseconds=int(self.plus_s * 1000))


@dataclass(frozen=True, slots=True)
class Expression:
    """A server-side expression that stands for itself."""

    body: Any


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of a run: where it goes, why, by whom, and which fields change with it.

    `to` is None where the run stays where it is: a phase may move it until the update lands.
    `sets` is recorded in the journal and replayed; `silent` is written and not recorded
    (the lease, which only its owner and the store's clock judge).
    `by` ends in `#a<attempt>` when a worker decides: the actor's own term.
    """

    cause: Cause
    to: Status | None
    by: str
    sets: Mapping[str, Any] = field(default_factory=dict)
    silent: Mapping[str, Any] = field(default_factory=dict)


def update(decision: Decision) -> list[dict[str, Any]]:
    """Return the update pipeline of `decision`; every value in it is data, never an operator."""
    # Where nobody will work any more, nothing is left of a wish that the work stand still.
    sets = {**decision.sets, "paused": False} if decision.to in AT_REST else decision.sets
    recorded = {name: expression(value) for name, value in sets.items()}
    target: Any = "$status" if decision.to is None else {"$literal": decision.to.value}
    merged: Any = {"$mergeObjects": [recorded]} if recorded else {"$literal": {}}
    entry = {
        "n": {"$add": ["$revision", 1]},
        "cause": {"$literal": decision.cause.value},
        "by": {"$literal": decision.by},
        "at": "$$NOW",
        "from": "$status",
        "to": target,
        "attempt": "$attempt",
        "seq": "$lastEventSeq",
        "set": merged,
    }
    return [
        {
            "$set": {
                **recorded,
                **{name: expression(value) for name, value in decision.silent.items()},
                "status": target,
                "revision": {"$add": ["$revision", 1]},
                "journal": {"$concatArrays": ["$journal", [entry]]},
            }
        }
    ]


# What a replay needs of a submission; the rest of a new run is the same for all.
RECORDED_AT_SUBMIT: Final = (
    "priority", "classKey", "queuedAt", "notBefore", "maxAttempts", "queueDeadline", "waitsForRuns",
)  # fmt: skip


def kept_failures(failures: Failures) -> dict[str, int]:
    """Return failures as they are stored: `outside` once there is one, which older workers do not know."""
    return {name: count for name, count in asdict(failures).items() if count or name != "outside"}


def creation(fields: Mapping[str, Any], *, by: str) -> list[dict[str, Any]]:
    """Return the pipeline that, as an upsert, makes a new claimable document of `fields`.

    `fields` holds what the submitter decides, its status (QUEUED or DELAYED) among it.
    """
    given = {name: expression(value) for name, value in fields.items()}
    failures = {"$literal": kept_failures(Failures())}
    recorded: dict[str, Any] = {name: given[name] for name in RECORDED_AT_SUBMIT if name in given}
    entry = {
        "n": 1,
        "cause": {"$literal": Cause.SUBMIT.value},
        "by": {"$literal": by},
        "at": "$$NOW",
        "from": None,
        "to": given["status"],
        "attempt": 0,
        "seq": 0,
        "set": {**recorded, "failures": failures},
    }
    empty = (
        "claimedBy", "claimedAt", "lease", "settled", "cancelRequested", "logIncomplete", "currentStage",
        "lastHeartbeat", "error", "validation", "startedAt", "finishedAt",
    )  # fmt: skip
    return [
        {
            "$set": {
                **given,
                **dict.fromkeys(empty),
                "revision": 1,
                "attempt": 0,
                "lastEventSeq": 0,
                "logOpen": False,
                "paused": False,
                "notes": [],
                "faults": [],
                "failures": failures,
                "createdAt": "$$NOW",
                "journal": [entry],
            }
        }
    ]


def expression(value: Any) -> Any:
    """Return `value` as a server expression; a mapping replaces what was there, whole."""
    match value:
        case ServerTime(plus_s=0.0):
            return "$$NOW"
        case ServerTime(offset=offset):
            milliseconds = offset // timedelta(milliseconds=1)
            return {
                "$dateAdd": {
                    "startDate": "$$NOW",
                    "unit": "millisecond",
                    "amount": milliseconds,
                }
            }
        case Expression(body=body):
            return body
        case Mapping() if value:
            # `$set` would merge a bare document into the old one.
            return {"$mergeObjects": [{key: expression(each) for key, each in value.items()}]}
        case _:
            return {"$literal": value}
