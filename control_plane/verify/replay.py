"""Replays the log into new documents, which the stored ones must equal, pure.

Order: decisions by number, and before each the worker events of its attempt up to its `seq`; then the rest of
the current attempt. A decision is not made again: its entry has the fields that it set.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from control_plane.model.positions.interval_set import IntervalSet
from control_plane.model.projection import AttemptView, Fold, Write, fold_to
from control_plane.model.run import Entry
from control_plane.store.verify.evidence import Quiet
from events.envelope import Event
from events.lifecycle import Status, advance

STATUSES: Final = frozenset(status.value for status in Status)


@dataclass(slots=True)
class Replayed:
    """A run according to its log, the documents beside it, and every contradiction that was found.

    `unreached` names decisions that saw an event which the log does not have.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    writes: dict[tuple[str, str], Write] = field(default_factory=dict)
    attempts: dict[int, Fold] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """The events of an attempt that may have an effect, by position, and all positions that the log has."""

    events: Sequence[Event]
    held: IntervalSet

    def up_to(self, after: int, last: int) -> Sequence[Event]:
        """Return the events beyond `after`, up to position `last`."""
        return self.events[
            bisect_right(self.events, after, key=_sequence) : bisect_right(self.events, last, key=_sequence)
        ]


def replay(
    run_id: str, entries: Sequence[Entry], events: Iterable[Event], quiet: Iterable[Quiet] = ()
) -> Replayed:
    """Replay a log up to the first gap of its decisions; a contradiction is recorded, not raised.

    `quiet` are the stretches of events that change nothing but the position.
    """
    logs = _logs(events, quiet)
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


def _logs(events: Iterable[Event], quiet: Iterable[Quiet]) -> Mapping[int, AttemptLog]:
    found: dict[int, list[Event]] = {}
    spans: dict[int, list[tuple[int, int]]] = {}
    for event in sorted(events, key=lambda event: (event.attempt, _sequence(event))):
        log = found.setdefault(event.attempt, [])
        if not event.sequence or (log and log[-1].sequence == event.sequence):
            continue
        log.append(event)
        spans.setdefault(event.attempt, []).append((_sequence(event), _sequence(event)))
    for each in quiet:
        spans.setdefault(each.attempt, []).append((each.first, each.last))
    return {
        attempt: AttemptLog(found.get(attempt, ()), IntervalSet.of(held)) for attempt, held in spans.items()
    }


def _sequence(event: Event) -> int:
    return event.sequence or 0


def _fold_up_to(
    result: Replayed, run_id: str, attempt: int, seq: int | None, logs: Mapping[int, AttemptLog]
) -> None:
    """Fold the events of the current attempt that follow the cursor, up to `seq` or the first gap."""
    cursor = result.fields.get("lastEventSeq", 0)
    log = logs.get(attempt)
    last = cursor if log is None else log.held.last_contiguous(cursor)
    last = last if seq is None else min(last, seq)
    last = _up_to_seal(result, attempt, last)
    if log is None or last <= cursor or result.fields.get("status") not in STATUSES:
        return
    before = result.attempts.get(attempt)
    view = before.view if before and cursor else AttemptView(run_id, attempt)
    folded = fold_to(view, log.up_to(cursor, last), last)
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
    if folded.view.summary is not None:
        result.fields |= {"summary": folded.view.summary, "summaryAttempt": attempt}


def _up_to_seal(result: Replayed, attempt: int, last: int) -> int:
    """Return `last`, or an earlier position at which a person's verdict sealed the attempt's record."""
    sealed = result.fields.get("sealed")
    return min(last, sealed["last"]) if sealed and sealed["attempt"] == attempt else last


def _complete(result: Replayed, run_id: str, logs: Mapping[int, AttemptLog]) -> None:
    """Fold all events of each attempt: late events complete its record, whatever the run did meanwhile."""
    for attempt, log in logs.items():
        if attempt > result.fields.get("attempt", 0):
            continue  # not claimed yet: stored, and waiting
        last = _up_to_seal(result, attempt, log.held.last_contiguous(0))
        if not last:
            continue  # what is stored begins behind a gap: nothing of it can have been applied
        folded = fold_to(AttemptView(run_id, attempt), log.up_to(0, last), last)
        result.attempts[attempt] = folded
        result.writes |= folded.writes
