"""A run as decisions and projections see it: typed, complete, read in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.lifecycle import HELD, Failures, Standing, Status


@dataclass(frozen=True, slots=True)
class Lease:
    """Who owns the run until when; `until` is None once the owner has settled.

    `heard` is the run's revision of which the owner has heard, None where it never said so.
    """

    token_hash: str
    until: datetime | None
    renewals: int
    heard: int | None = None


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as the rescuer watches it."""

    run_id: str
    attempt: int
    renewals: int
    is_expired: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """What the worker said at the end of its attempt; `last` is its last sequence."""

    outcome: str
    last: int


@dataclass(frozen=True, slots=True)
class CurrentStage:
    """What the run does at the moment; `progress` from 0 to 1."""

    name: str
    progress: float
    activity: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A decision as the run's journal recorded it; `sets` holds the values the server evaluated."""

    n: int
    cause: str
    by: str
    at: datetime
    came_from: str | None
    to: str
    attempt: int
    seq: int
    sets: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One document of a claimable collection."""

    id: str
    kind: str
    status: Status
    revision: int
    attempt: int
    last_event_seq: int
    failures: Failures
    max_attempts: int
    review: bool
    class_key: str
    claimed_by: str | None
    lease: Lease | None
    settled: Settled | None
    log_open: bool
    log_incomplete: bool
    current_stage: CurrentStage | None
    started_at: datetime | None
    validation: Mapping[str, Any] | None
    journal: tuple[Entry, ...]
    hypothesis_id: str | None
    paused: bool
    notes_count: int

    @property
    def standing(self) -> Standing:
        """The part on which an end depends."""
        return Standing(self.status, self.failures, self.max_attempts, self.review)

    @property
    def is_held(self) -> bool:
        return self.status in HELD

    @property
    def has_news(self) -> bool:
        """Say whether somebody has decided something of which the run's owner has not heard yet."""
        heard = None if self.lease is None else self.lease.heard
        return self.is_held and heard is not None and heard < self.revision

    def has_lost(self, attempt: int) -> bool:
        """Say whether `attempt` ran once and owns the run no more, without having settled."""
        return attempt < self.attempt or (attempt == self.attempt > 0 and self.lease is None)
