"""What has to be true of each event that a worker gave a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from testing.chaos.checking.evidence import Evidence, StoredEvent, Term, Violation
from testing.chaos.records.ledger import Given

STORED: Final = "each emitted event is stored once"
APPLIED: Final = "each stored event is applied once, in order"
DELIVERED: Final = "each outbox is empty"
REFUSED: Final = "nothing was refused that should not have been"
TIMED: Final = "events are told by the store's clock, whatever clocks were set to"
TIMED_WITHIN: Final = timedelta(seconds=5)  # a clock that drifts, and could not be measured for a while
COMPLETE: Final = "a log that is incomplete says what is missing, and why"


def stored(evidence: Evidence) -> Iterator[Violation]:
    """Each event that an outbox was given is in the log; a lost disk excuses only its own tail."""
    given: dict[Term, dict[int, Given]] = {}
    for outbox in evidence.outboxes:
        for each in outbox.given:  # the last one under a sequence is what stands there now
            given.setdefault((each.run_id, each.attempt), {})[each.sequence] = each
    for term, events in given.items():
        held = evidence.stored.get(term, {})
        missing = sorted(set(events) - set(held))
        if missing and not (term in evidence.lost_terms and missing[0] > max(held, default=0)):
            yield _of(STORED, term, f"given, and not in the log: {_ranges(missing)}")
        for sequence, each in events.items():
            other = held.get(sequence)
            if other is not None and other.id != each.id:
                yield _of(STORED, term, f"position {sequence} holds {other.id}, given was {each.id}")
    for term, held in evidence.stored.items():
        if evidence.outboxes and (foreign := sorted(set(held) - set(given.get(term, {})))):
            yield _of(STORED, term, f"in the log, and given by nobody: {_ranges(foreign)}")
    ids = Counter(event.id for event in evidence.events)
    for event in evidence.events:
        if ids[event.id] > 1:
            yield _of(
                STORED, (event.run_id, event.attempt), f"event {event.id} is stored {ids[event.id]} times"
            )


def applied(evidence: Evidence) -> Iterator[Violation]:
    """The cursors of attempts and runs stand at the end of what is stored without a gap."""
    for (run_id, attempt), held in evidence.stored.items():
        reach = _reach(held)
        if reach != max(held):
            yield _of(APPLIED, (run_id, attempt), f"a gap follows {reach}, and {max(held)} is stored")
        run = evidence.runs.get(run_id)
        if run is None:
            yield _of(APPLIED, (run_id, attempt), "the log knows a run that is not stored")
            continue
        if attempt > run["attempt"]:
            yield _of(APPLIED, (run_id, attempt), f"the run is at attempt {run['attempt']}")
            continue
        record = evidence.attempts.get(f"{run_id}/a{attempt}", {})
        cursors = {"attempt": record.get("lastEventSeq", 0)}
        if attempt == run["attempt"]:
            cursors["run"] = run["lastEventSeq"]
        for whose, cursor in cursors.items():
            if cursor != reach:
                yield _of(
                    APPLIED, (run_id, attempt), f"the {whose}'s cursor is {cursor}, the log reaches {reach}"
                )


def delivered(evidence: Evidence) -> Iterator[Violation]:
    """Nothing waits any more on a disk that is there."""
    for outbox in evidence.outboxes:
        if not outbox.is_lost:
            for (run_id, attempt), count in Counter((each[0], each[1]) for each in outbox.waiting).items():
                yield _of(DELIVERED, (run_id, attempt), f"{count} events wait in {outbox.name}")


def refused(evidence: Evidence) -> Iterator[Violation]:
    """Each dead letter is looked at by itself: a campaign sends nothing that deserves one."""
    for letter in evidence.dead_letters:
        where = f"{letter.get('attempt')}/{letter.get('sequence')}"
        why = f"{letter['code']}: {letter['message']}"
        yield Violation(REFUSED, letter.get("runId"), f"position {where} was refused, {why}")


def complete(evidence: Evidence) -> Iterator[Violation]:
    """Each log is closed, at its settlement or with a mark, which only a lost disk excuses."""
    for run_id, run in evidence.runs.items():
        term = (run_id, run["attempt"])
        if run["logOpen"]:
            yield _of(COMPLETE, term, "the log is still open")
        mark, settled = run["logIncomplete"], run["settled"]
        if mark is not None and term not in evidence.lost_terms:
            yield _of(COMPLETE, term, f"marked as incomplete ({mark}), and no disk was lost")
        short = settled is not None and run["lastEventSeq"] < settled["last"]
        if short and not run["logOpen"] and mark != {"from": run["lastEventSeq"] + 1, "to": settled["last"]}:
            missing = f"{run['lastEventSeq'] + 1} to {settled['last']} are missing, the mark says {mark}"
            yield _of(COMPLETE, term, missing)


def timed(evidence: Evidence) -> Iterator[Violation]:
    """No event is told to be of before its run was submitted, nor of after it was received."""
    for event in evidence.events:
        decisions = evidence.decisions.get(event.run_id)
        if event.said_at is None or event.received_at is None or not decisions:
            continue
        if not decisions[0].at - TIMED_WITHIN <= event.said_at <= event.received_at + TIMED_WITHIN:
            told = f"event {event.id} is of {event.said_at}, its run of {decisions[0].at}"
            yield _of(TIMED, (event.run_id, event.attempt), f"{told}, and it came at {event.received_at}")


def _reach(held: Mapping[int, StoredEvent]) -> int:
    """Return the last position that no gap is before."""
    reach = 0
    while reach + 1 in held:
        reach += 1
    return reach


def _ranges(numbers: list[int]) -> str:
    """Return numbers for people, neighbours joined."""
    parts: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(f"{first}" if first == last else f"{first} to {last}")
        if number is not None:
            first = last = number
    return ", ".join(parts)


def _of(invariant: str, term: Term, message: str) -> Violation:
    return Violation(invariant, term[0], f"attempt {term[1]}: {message}")
