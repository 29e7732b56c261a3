"""The members of a group's round, counted; pure.

A slot stands where its newest run stands: a retry replaces the run that it repeats. A run that a person has
judged has succeeded, whatever the verdict on its claim: it did what it was to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ulid import ULID

from control_plane.model.groups.pruning import Stop
from events.lifecycle import Status

S = Status
COUNTED_AS: Final[Mapping[Status, str]] = {
    S.DELAYED: "waiting",
    S.QUEUED: "waiting",
    S.SCHEDULED: "running",
    S.RUNNING: "running",
    S.AUTO_VALIDATING: "running",
    S.CANCELING: "running",
    S.AWAITING_HUMAN: "reviewing",
    S.COMPLETED: "succeeded",
    S.HUMAN_VALIDATED: "succeeded",
    S.HUMAN_REJECTED: "succeeded",
    S.FAILED: "failed",
    S.CANCELED: "canceled",
}
SLOT_BYTES: Final = 4
HASH_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class Trial:
    """A slot of a study: its values, whether it has ended, and what it measured where that is known.

    `excess` says of each constraint by how much it breaks it; `stop` is where it was pruned. `second` is the
    number of a second goal. With `is_own_fault` it failed, and not by a fault of its pod or of the outside.
    `key` is what equal values have in common, where it was computed already.
    """

    slot: int
    values: Mapping[str, Any]
    has_ended: bool
    objective: float | None
    excess: Sequence[float] = ()
    stop: Stop | None = None
    second: float | None = None
    is_own_fault: bool = False
    key: bytes = b""


COUNTS: Final = ("waiting", "running", "reviewing", "succeeded", "failed", "canceled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """How many slots of the round stand where; of a study, each slot as a trial, and what it has used up.

    `used_usd` is of the budget of a group: the cost of the members that ended, and what the others may cost.
    """

    waiting: int = 0
    running: int = 0
    reviewing: int = 0
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    trials: Sequence[Trial] = ()
    elapsed_s: float = 0.0
    cost_usd: float = 0.0
    used_usd: float = 0.0

    @property
    def held(self) -> int:
        """How many wait for a pod or have one."""
        return self.waiting + self.running

    @property
    def live(self) -> int:
        """How many have not ended."""
        return self.held + self.reviewing

    @property
    def total(self) -> int:
        """How many slots have a run."""
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        """Return them as they are stored."""
        return {name: getattr(self, name) for name in COUNTS}


def counted(statuses: Mapping[str, int]) -> Members:
    """Return the members of which so many have each status."""
    counts = dict.fromkeys(COUNTS, 0)
    for status, count in statuses.items():
        counts[COUNTED_AS[Status(status)]] += count
    return Members(trials=(), **counts)


def member_id(group_id: str, since: datetime, slot: int) -> str:
    """Return the id of the run of a slot: it depends on group, round and slot only, so that there is one run.

    `since` is when the round began. In a round, the order of the ids is that of the slots.
    """
    moment_ms = round(since.timestamp() * 1000)
    digest = hashlib.sha256(f"{group_id}\n{moment_ms}\n{slot}".encode()).digest()[:HASH_BYTES]
    return str(ULID.from_bytes(moment_ms.to_bytes(6, "big") + slot.to_bytes(SLOT_BYTES, "big") + digest))


def newest(runs: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Return of each slot its newest run."""
    found: dict[int, Mapping[str, Any]] = {}
    for run in runs:
        if run["slot"] not in found or found[run["slot"]]["_id"] < run["_id"]:
            found[run["slot"]] = run
    return found
