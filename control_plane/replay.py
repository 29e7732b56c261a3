"""The log into fresh documents, pure: what the stored ones must be equal to.

Order: decisions by number, and before each the worker events of its attempt up to its
`seq`; then the rest of the current attempt. A decision is never made again: its entry says
what it set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from control_plane.projection import AttemptView, Fold, Write, fold
from control_plane.run import Entry
from events.envelope import Event
from events.lifecycle import Status, advance


@dataclass(slots=True)
class Replayed:
    """A run as its log tells it, the documents beside it, and every contradiction on the way.

    `unreached` names decisions that saw an event which the log does not have.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    writes: dict[tuple[str, str], Write] = field(default_factory=dict)
    attempts: dict[int, Fold] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)


def replay(run_id: str, entries: Sequence[Entry], events: Iterable[Event]) -> Replayed:
    """Replay a log as far as its decisions have no gap; a contradiction is noted, never an exception."""
    logs: dict[int, list[Event]] = {}
    for event in sorted(events, key=lambda event: (event.attempt, event.sequence or 0)):
        logs.setdefault(event.attempt, []).append(event)
    result = Replayed()
    for number, entry in enumerate(sorted(entries, key=lambda entry: entry.n), 1):
        if entry.n != number:
            break
        _fold_up_to(result, run_id, entry.attempt, entry.seq, logs)
        _decide(result, entry)
    current = result.fields.get("attempt", 0)
    _fold_up_to(result, run_id, current, None, logs)
    _complete(result, run_id, logs)
    return result


def _decide(result: Replayed, entry: Entry) -> None:
    status = result.fields.get("status")
    if entry.came_from != status:
        left = f"decision {entry.n} left {entry.came_from}"
        result.contradictions.append(f"{left}, but the log stands at {status}")
    if result.fields.get("lastEventSeq", 0) != entry.seq:
        result.unreached.append(f"decision {entry.n} saw event {entry.seq}, which the log does not reach")
    if entry.cause == "submit":
        result.fields |= {"attempt": 0, "lastEventSeq": 0, "currentStage": None, "startedAt": None}
    result.fields |= {**entry.sets, "status": entry.to, "revision": entry.n}


def _fold_up_to(
    result: Replayed, run_id: str, attempt: int, seq: int | None, logs: Mapping[int, Sequence[Event]]
) -> None:
    """Fold the events of the current attempt that follow the cursor, up to `seq` or the first gap."""
    cursor = result.fields.get("lastEventSeq", 0)
    stretch = contiguous(logs.get(attempt, ()), cursor, seq)
    if not stretch:
        return
    before = result.attempts.get(attempt)
    view = before.view if before and cursor else AttemptView(run_id, attempt)
    folded = fold(view, stretch, cursor)
    result.attempts[attempt] = folded
    status = Status(result.fields["status"])
    for cause in folded.phases:
        status = advance(status, cause)
    stage = folded.view.current_stage
    result.fields |= {
        "status": status.value,
        "lastEventSeq": folded.seq,
        "currentStage": None if stage is None else asdict(stage),
        "startedAt": folded.view.started_at,
        "validation": folded.view.validation,
    }


def _complete(result: Replayed, run_id: str, logs: Mapping[int, Sequence[Event]]) -> None:
    """Fold each attempt whole: late events complete its own record, whatever the run did meanwhile."""
    for attempt, log in logs.items():
        if attempt > result.fields.get("attempt", 0):
            continue  # not claimed yet: stored, and waiting
        stretch = contiguous(log, 0, None)
        if not stretch:
            continue  # what is stored begins behind a gap: nothing of it can have been applied
        folded = fold(AttemptView(run_id, attempt), stretch, 0)
        result.attempts[attempt] = folded
        result.writes |= folded.writes


def contiguous(log: Sequence[Event], after: int, up_to: int | None) -> list[Event]:
    """Return the events that follow `after` without a gap, up to `up_to`."""
    stretch: list[Event] = []
    for event in log:
        sequence = event.sequence or 0
        if sequence <= after or (up_to is not None and sequence > up_to):
            continue
        if sequence != after + len(stretch) + 1:
            break
        stretch.append(event)
    return stretch
