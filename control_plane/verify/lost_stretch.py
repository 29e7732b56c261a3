"""Finds the stretches of a log that nobody will send any more, and what takes their place, pure.

After the restore of an older store its pods go on behind what they have delivered to the newer one. Each lost
position is filled with a line that says so: what lies behind it can be applied then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.model.positions.interval_set import IntervalSet
from control_plane.store.verify.evidence import Evidence
from control_plane.verify.invariants import applied_to, is_old_behind
from events.catalog import EventRefused
from events.codec import decode_structured
from events.envelope import Event, Head, wire
from events.runtime.clock import timestamp
from events.text.attempt_id import AttemptId

SOURCE: Final = "//podfleet/repair"
LOST: Final = "lost"
UNKNOWN_TYPE: Final = "unknown"
POSITIONS_MAX: Final = 100_000  # of one attempt; a longer gap is no accident


@dataclass(frozen=True, slots=True)
class LostStretch:
    """Positions of an attempt's log that are lost, both ends included."""

    attempt_id: AttemptId
    first: int
    last: int

    def __str__(self) -> str:
        return f"events {self.first} to {self.last} of attempt {self.attempt_id.attempt}"

    @property
    def is_too_long(self) -> bool:
        """Say whether it is not to be filled."""
        return self.last - self.first >= POSITIONS_MAX

    def mark(self, at: datetime, by: str) -> dict[str, Any]:
        """Return what the run keeps of it."""
        return {"attempt": self.attempt_id.attempt, "from": self.first, "to": self.last, "at": at, "by": by}

    def lines(self, at: datetime, by: str) -> Iterator[Event]:
        """Yield the events that take the place of the lost ones, one for each position."""
        message = f"lost, and marked as lost by {by}"
        for sequence in range(self.first, self.last + 1):
            head = Head(
                id=f"lost-{self.attempt_id.attempt}-{sequence}",
                source=SOURCE,
                attempt_id=self.attempt_id,
                sequence=sequence,
                time=timestamp(at),
            )
            event = decode_structured(wire(EventRefused(UNKNOWN_TYPE, LOST, message), head))
            assert isinstance(event, Event), event
            yield event


def lost_stretches(evidence: Evidence) -> list[LostStretch]:
    """Return the gaps behind which events have waited for longer than a pod takes to send."""
    found = []
    sealed = (evidence.run.get("sealed") or {}).get("attempt")
    for attempt, applied in sorted(applied_to(evidence).items()):
        held = evidence.positions.get(attempt, IntervalSet())
        if attempt == sealed:
            continue  # nothing is added to a record that a verdict rests on
        found += [
            LostStretch(AttemptId(evidence.run_id, attempt), first, last)
            for first, last in held.gaps(applied, held.last).spans
            if is_old_behind(evidence, attempt, first)
        ]
    return found
