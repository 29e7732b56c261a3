"""What has to be true of what runs ask for: their changes hold, and no other pod took them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from events.queue.labels import missing
from events.queue.requirements import read_class
from events.queue.rules import pod_name
from testing.chaos.checking.evidence import Evidence, Violation

CHANGED: Final = "each acknowledged change of a waiting run holds"
ASKED_FOR: Final = "a run is claimed by a pod that has what it asks for"


def changes(evidence: Evidence) -> Iterator[Violation]:
    """The label that came with an acknowledged change is on its run, and a decision tells of it."""
    for line in evidence.lines:
        run = evidence.runs.get(line.run or "")
        if line.what != "change" or line.phase != "ok" or run is None:
            continue
        label = line.data["label"]
        if label not in run["labels"]:
            yield Violation(CHANGED, line.run, f"the change that set {label} was acknowledged, and is lost")
        decided = [entry for entry in evidence.decisions.get(line.run or "", ()) if entry.cause == "change"]
        if sum(label in entry.sets.get("labels", ()) for entry in decided) == 0:
            yield Violation(CHANGED, line.run, f"no decision of the log sets {label}")


def claimed(evidence: Evidence) -> Iterator[Violation]:
    """Each claim fits the class in which the run waited then: its pin, and its labels."""
    for run_id, entries in evidence.decisions.items():
        asked = None
        for entry in entries:
            if (key := entry.sets.get("classKey")) is not None:
                asked = read_class(key)
            if entry.cause != "claim" or asked is None:
                continue
            name = pod_name(entry.by)
            if asked.pod not in (None, name):
                yield Violation(ASKED_FOR, run_id, f"{entry.by} took it, and it was pinned to {asked.pod}")
            said = evidence.labels.get(entry.by)
            for label, value in () if said is None else missing(asked.labels, said):
                yield Violation(ASKED_FOR, run_id, f"{entry.by} took it, and lacks {label}={value}")
