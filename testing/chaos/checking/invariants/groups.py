"""What has to be true of each group and of its slots when everything is quiet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from testing.chaos.checking.evidence import Document, Evidence, Violation

CLOSED: Final = frozenset({"COMPLETED", "FAILED", "CANCELED"})
# Told anew, beside the product's own table: an error in that one has to show.
COUNTED: Final[Mapping[str, str]] = {
    "AWAITING_HUMAN": "reviewing",
    "COMPLETED": "succeeded",
    "HUMAN_VALIDATED": "succeeded",
    "HUMAN_REJECTED": "succeeded",
    "FAILED": "failed",
    "CANCELED": "canceled",
}

MADE: Final = "each acknowledged group is there, and has closed"
SLOT: Final = "each slot of a group is submitted once"
COUNTERS: Final = "the counters of a group are those of its members"
NOTHING_NEW: Final = "a closed group submits nothing"
GROUP_CANCEL: Final = "each acknowledged cancel of a group holds"


def made(evidence: Evidence) -> Iterator[Violation]:
    """What was acknowledged exists, and came to its end."""
    for line in evidence.lines:
        if line.what == "group" and line.phase == "ok" and line.data["group"] not in evidence.groups:
            yield Violation(MADE, None, f"group {line.data['group']} is not stored")
    for name, group in evidence.groups.items():
        if group["status"] not in CLOSED:
            yield Violation(MADE, None, f"group {name} stands at {group['status']}")


def slots(evidence: Evidence) -> Iterator[Violation]:
    """Each decided slot has one run, each run at most one retry, and no run has a slot of its own making."""
    places = Counter(
        (run["groupId"], run["slot"], run["parentRunId"]) for run in evidence.runs.values() if _name(run)
    )
    for (name, slot, parent), count in places.items():
        if count > 1:
            what = "" if parent is None else f"retries of {parent} "
            yield Violation(SLOT, parent, f"{count} {what}runs are in slot {slot} of group {name}")
    for name, group in evidence.groups.items():
        held = {slot for of, slot, parent in places if of == name and parent is None}
        if held != set(range(group["next"])):
            odd = sorted(held ^ set(range(group["next"])))
            told = f"{group['next']} slots are decided; too many or too few: {odd}"
            yield Violation(SLOT, None, f"group {name}: {told}")


def counters(evidence: Evidence) -> Iterator[Violation]:
    """The counters of the round are what its members are."""
    for name, group in evidence.groups.items():
        newest: dict[int, Document] = {}
        for run in sorted(_members(evidence, name), key=lambda run: str(run["_id"])):
            if run["slot"] >= group["first"]:
                newest[run["slot"]] = run
        true = Counter(COUNTED.get(run["status"], "not ended") for run in newest.values())
        told = {each: count for each, count in group["counts"].items() if count}
        if told != dict(true):
            yield Violation(COUNTERS, None, f"group {name} counts {told}, and its members are {dict(true)}")


def nothing_new(evidence: Evidence) -> Iterator[Violation]:
    """Between the end of a round and the next one no slot was submitted."""
    for name, group in evidence.groups.items():
        closed_at = None
        spans = []
        for entry in sorted(group["journal"], key=lambda entry: entry["n"]):
            if entry["action"] == "close":
                closed_at = closed_at or entry["at"]  # a retry opens it for no slot
            elif entry["action"] == "again" and closed_at is not None:
                spans.append((closed_at, entry["at"]))
                closed_at = None
        for run in _members(evidence, name):
            made_at = run["createdAt"]
            is_late = closed_at is not None and made_at > closed_at
            if run["parentRunId"] is None and (is_late or any(a < made_at < b for a, b in spans)):
                yield Violation(NOTHING_NEW, run["_id"], f"it is new in group {name}, which had closed")


def cancels(evidence: Evidence) -> Iterator[Violation]:
    """A group whose cancel was acknowledged ends as canceled, but for a round that somebody began later."""
    for line in evidence.lines:
        group = evidence.groups.get(line.data.get("group", ""))
        if line.what == "cancel group" and line.phase == "ok" and group is not None:
            begun_anew = any(entry["action"] == "again" for entry in group["journal"])
            if group["status"] != "CANCELED" and not begun_anew:
                yield Violation(GROUP_CANCEL, None, f"group {line.data['group']} is {group['status']}")


def _name(run: Document) -> str | None:
    name: str | None = run.get("groupId")
    return name


def _members(evidence: Evidence, name: str) -> list[Document]:
    return [run for run in evidence.runs.values() if _name(run) == name]
