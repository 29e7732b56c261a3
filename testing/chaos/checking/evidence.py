"""What a campaign left behind, in one piece: the stores, the journals and the outboxes.

Law: nothing else reaches the checker. It knows no fault, no seed and no process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from control_plane.model.run import Entry
from control_plane.verify.verifier import Finding
from testing.chaos.records.journal import Line
from testing.chaos.records.ledger import Given

Document = Mapping[str, Any]
Term = tuple[str, int]
"""A run and the number of one of its attempts."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One numbered event of the log."""

    run_id: str
    attempt: int
    sequence: int
    id: str
    type: str
    said_at: datetime | None = None
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What object storage holds under a key; `sha256` only where somebody registered it."""

    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class OutboxLeft:
    """One worker's outbox: all that it was ever given, and what still waits in it.

    `is_lost`: its disk is gone, and nobody can deliver what waits.
    """

    name: str
    is_lost: bool
    given: Sequence[Given]
    waiting: Sequence[tuple[str, int, int]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the checker reads."""

    runs: Mapping[str, Document]
    attempts: Mapping[str, Document]
    decisions: Mapping[str, Sequence[Entry]]
    """Of each run, by number: what the log holds, and what still waits in the run's own journal."""
    events: Sequence[StoredEvent]
    dead_letters: Sequence[Document] = ()
    artifacts: Sequence[Document] = ()
    objects: Mapping[str, StoredObject] | None = None
    """None where no object storage took part."""
    lines: Sequence[Line] = ()
    """Of every actor, in the order of the machine's monotonic clock."""
    outboxes: Sequence[OutboxLeft] = ()
    groups: Mapping[str, Document] = field(default_factory=dict)
    specs: Mapping[str, Document] = field(default_factory=dict)
    """Of each run, the specification that it was submitted with."""
    rows: Sequence[Document] = ()
    """Of each stored row of results: its run, attempt and key."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each worker that reported, what it said of its pod."""
    findings: Sequence[Finding] = ()
    """What the product's own audit says, a full comparison with the replay of the log in it."""

    @cached_property
    def stored(self) -> Mapping[Term, Mapping[int, StoredEvent]]:
        """The numbered events by term and sequence."""
        found: dict[Term, dict[int, StoredEvent]] = {}
        for event in self.events:
            found.setdefault((event.run_id, event.attempt), {})[event.sequence] = event
        return found

    @cached_property
    def lost_terms(self) -> frozenset[Term]:
        """The attempts of which an event went down with a disk."""
        return frozenset(
            (run_id, attempt)
            for outbox in self.outboxes
            if outbox.is_lost
            for run_id, attempt, _ in outbox.waiting
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, the run concerned, and what shows it."""

    invariant: str
    run_id: str | None
    message: str
