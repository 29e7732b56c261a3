"""A run as decisions and projections read it: typed and complete, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from events.lifecycle import HELD, Failures, PastFault, Standing, Status
from events.queue.claims import waits_s
from events.queue.faults import boot_of, place_of
from events.queue.lease_times import LEASE_TTL_S, held_s
from events.text.attempt_id import AttemptId


@dataclass(frozen=True, slots=True)
class Lease:
    """Who owns the run until when; `until` is None once the owner has settled.

    `heard` is the run's revision of which the owner has heard, None where it never said so. `ttl_s` is its
    whole length.
    """

    token_hash: str
    until: datetime | None
    renewals: int
    heard: int | None = None
    ttl_s: float = LEASE_TTL_S


@dataclass(frozen=True, slots=True)
class AttemptToken:
    """Who claimed an attempt: the token's hash, the id of the key it was claimed with, when it opens no more.

    `key_id` is None for a pod that claims in the database itself, `ends_at` until the attempt has ended,
    `last` is the last position of its log, None unless it has settled.
    """

    attempt: int
    hash: str
    key_id: str | None
    ends_at: datetime | None
    last: int | None = None

    def is_open(self, now: datetime) -> bool:
        """Say whether events of the holder are still accepted at `now`."""
        return self.ends_at is None or now < self.ends_at


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that is over by the store's clock; `ttl_s` is its whole length."""

    run_id: str
    attempt: int
    renewals: int
    ttl_s: float = LEASE_TTL_S


@dataclass(frozen=True, slots=True)
class Settled:
    """What the worker said at the end of its attempt: its last sequence, and the root of the lines up to it.

    A worker that lost its disk, and one from before there were roots, knows no root.
    """

    outcome: str
    last: int
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Seal:
    """Where a person's verdict closed the record: `last` is the last position of `attempt` that it counts.

    `whole` is False where the person knew that a part of the record was missing; `root` is that of the
    lines, None for a verdict from before there were roots.
    """

    attempt: int
    last: int
    whole: bool
    root: str | None = None


@dataclass(frozen=True, slots=True)
class CurrentStage:
    """What the run does at the moment; `progress` from 0 to 1."""

    name: str
    progress: float
    activity: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The headline numbers of the newest attempt that said any."""

    attempt: int
    values: Mapping[str, Any]


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
    faults: tuple[PastFault, ...] = ()
    tokens: tuple[AttemptToken, ...] = ()
    sealed: Seal | None = None
    priority: int = 0
    queued_at: datetime | None = None
    not_before: datetime | None = None
    queue_limit_s: int | None = None
    queue_deadline: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, Any] | None = None  # None: those of its specification, which nobody changed
    secrets: tuple[str, ...] = ()
    user_id: str | None = None  # whose access token it gets, where it names that
    group_id: str | None = None
    slot: int | None = None  # in its group
    summary: Summary | None = None
    start_at: datetime | None = None  # of a lane of a race, once it was told
    after: tuple[str, ...] = ()  # the runs for which it waits, or has waited
    waits_for_runs: bool = False
    node: Mapping[str, Any] | None = None  # of a job of several: what an attempt was told
    preempt: Mapping[str, Any] | None = None  # which attempt gives its pod back
    is_imported: bool = False  # another fleet ran it

    @property
    def attempt_id(self) -> AttemptId:
        """Its current attempt."""
        return AttemptId(self.id, self.attempt)

    @property
    def standing(self) -> Standing:
        """The part on which an end depends."""
        stage = self.current_stage
        place = None if stage is None else place_of(stage.name, stage.progress)
        return Standing(
            status=self.status,
            failures=self.failures,
            max_attempts=self.max_attempts,
            review=self.review,
            pod=boot_of(self.claimed_by or ""),
            place=place,
            past=self.faults,
            waits_s=waits_s(self.preempt, self.attempt),
            held_s=0.0 if self.lease is None else held_s(self.lease.renewals, self.lease.ttl_s),
        )

    @property
    def is_held(self) -> bool:
        return self.status in HELD

    @property
    def has_news(self) -> bool:
        """Say whether there is a decision that the run's owner has not received yet."""
        heard = None if self.lease is None else self.lease.heard
        return self.is_held and heard is not None and heard < self.revision

    def token_of(self, attempt: int) -> AttemptToken | None:
        """Return the token that an attempt was claimed with; None long after its end."""
        return next((each for each in self.tokens if each.attempt == attempt), None)

    def leased_until(self, attempt: int) -> datetime | None:
        """Return until when `attempt` holds the run, None where it does not; what is over may go on."""
        return self.lease.until if self.lease and self.is_held and attempt == self.attempt else None

    def is_of(self, attempt: int) -> bool:
        """Say whether `attempt` holds the run, or has settled and its log is not complete yet."""
        is_last = attempt == self.attempt and self.lease is not None
        return is_last and (self.is_held or self.log_open)

    def closes(self, attempt: int, sequence: int | None) -> str | None:
        """Return why no new event is accepted at this position, or without one; None if it is."""
        if self.sealed is not None:
            return f"the record of run {self.id} was sealed by a person's verdict"
        token = self.token_of(attempt)
        last = None if token is None else token.last
        if self.settled is not None and attempt == self.attempt:
            last = self.settled.last
        if sequence is None or last is None or sequence <= last:
            return None
        return f"attempt {attempt} of run {self.id} was settled with {last} as its last event"

    def has_lost(self, attempt: int) -> bool:
        """Say whether `attempt` ran once and owns the run no more, without having settled."""
        return attempt < self.attempt or (attempt == self.attempt > 0 and self.lease is None)
