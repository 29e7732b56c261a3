"""What has to be true of each run when everything is quiet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from control_plane.model.run import Entry
from events.lifecycle import FINAL, HELD, LIVE
from testing.chaos.checking.evidence import Evidence, Violation

FINALS: Final = frozenset(status.value for status in FINAL)
LIVES: Final = frozenset(status.value for status in LIVE)
HELDS: Final = frozenset(status.value for status in HELD)
ENDINGS: Final = frozenset({"end: completed", "end: failed", "end: preempted", "end: canceled", "rescue"})
# What an ending of a live run is charged to; a failure by whose fault it was.
FAULTS: Final[Mapping[str, str]] = {"run": "app", "pod": "infra", "outside": "outside"}
FAILURES: Final = frozenset({"end: failed", "rescue"})
BUDGETS: Final[Mapping[str, str]] = {
    "end: preempted": "preempted",
    "end: canceled": "preempted",
}

FINAL_STATUS: Final = "each run in exactly one final status"
SUBMISSION: Final = "each acknowledged submission is one run"
CANCEL: Final = "each acknowledged cancel holds"
LEASED: Final = "nothing is left leased"
SWEPT: Final = "each decision has moved into the log"
GAPLESS: Final = "decisions are numbered without a gap"
CHARGED: Final = "each attempt is charged once, and to its own budget"


def final_status(evidence: Evidence) -> Iterator[Violation]:
    """Each run ended, by one decision, which nothing overrode."""
    for run_id, run in evidence.runs.items():
        if run["status"] not in FINALS:
            yield Violation(FINAL_STATUS, run_id, f"the run stands at {run['status']}")
        entered = [
            entry.n
            for entry in evidence.decisions.get(run_id, ())
            if entry.to in FINALS and entry.came_from not in FINALS
        ]
        if len(entered) != 1:
            yield Violation(FINAL_STATUS, run_id, f"decisions {entered} enter a final status")
        for entry in evidence.decisions.get(run_id, ()):
            if entry.came_from in FINALS and entry.to != entry.came_from:
                left = f"decision {entry.n} ({entry.cause}) leaves {entry.came_from} for {entry.to}"
                yield Violation(FINAL_STATUS, run_id, left)


def submissions(evidence: Evidence) -> Iterator[Violation]:
    """What was acknowledged to a user exists, and exists once."""
    keys = Counter((run.get("idempotency") or {}).get("key") for run in evidence.runs.values())
    for line in evidence.lines:
        if line.what != "submit" or line.phase != "ok":
            continue
        if line.run not in evidence.runs:
            yield Violation(SUBMISSION, line.run, f"submission {line.data['key']} is not stored")
        if keys[line.data["key"]] > 1:
            yield Violation(SUBMISSION, line.run, f"submission {line.data['key']} became several runs")


def cancels(evidence: Evidence) -> Iterator[Violation]:
    """A run whose cancel was acknowledged ends as canceled."""
    for line in evidence.lines:
        run = evidence.runs.get(line.run or "")
        if line.what == "cancel" and line.phase == "ok" and run is not None:
            status = run["status"]
            if status != "CANCELED":
                yield Violation(CANCEL, line.run, f"the cancel was acknowledged, and the run is {status}")


def leases(evidence: Evidence) -> Iterator[Violation]:
    """No lease runs when nobody works."""
    for run_id, run in evidence.runs.items():
        until = (run["lease"] or {}).get("until")
        if until is not None or run["status"] in HELDS:
            yield Violation(LEASED, run_id, f"{run['status']}, leased until {until} to {run['claimedBy']}")


def journals(evidence: Evidence) -> Iterator[Violation]:
    """The run's own journal was emptied into the log."""
    for run_id, run in evidence.runs.items():
        if run["journal"]:
            left = [entry["n"] for entry in run["journal"]]
            yield Violation(SWEPT, run_id, f"decisions {left} still wait in the run")


def numbers(evidence: Evidence) -> Iterator[Violation]:
    """The log holds every decision that the run's revision counts."""
    for run_id, run in evidence.runs.items():
        held = [entry.n for entry in evidence.decisions.get(run_id, ())]
        if held != list(range(1, run["revision"] + 1)):
            yield Violation(GAPLESS, run_id, f"revision {run['revision']}, but the log holds {held}")


def budgets(evidence: Evidence) -> Iterator[Violation]:
    """What was charged is what the log tells, no attempt ended twice, and none for a preemption."""
    # What was asked for last: a worker that died while it gave a run back finds its claim again, and goes on.
    asked = {
        (line.run, line.attempt): line.data["outcome"]
        for line in evidence.lines
        if line.what == "settle" and line.phase == "invoke"
    }
    for run_id, run in evidence.runs.items():
        entries = evidence.decisions.get(run_id, ())
        charges = Counter(_budget(entry) for entry in entries if entry.came_from in LIVES)
        for budget, charged in run["failures"].items():
            if charged != charges[budget]:
                told_of = f"{charged} charged as {budget}, the log tells of {charges[budget]}"
                yield Violation(CHARGED, run_id, told_of)
        ends = Counter(entry.attempt for entry in entries if entry.cause in ENDINGS)
        for attempt, times in ends.items():
            if times > 1:
                yield Violation(CHARGED, run_id, f"attempt {attempt} ended {times} times")
        for entry in entries:
            if entry.cause == "end: failed" and asked.get((run_id, entry.attempt)) == "preempted":
                message = f"attempt {entry.attempt} was preempted, and charged as a failure"
                yield Violation(CHARGED, run_id, message)


def _budget(entry: Entry) -> str | None:
    if entry.cause in FAILURES:
        return FAULTS[entry.sets["error"]["fault"]]
    return BUDGETS.get(entry.cause)
