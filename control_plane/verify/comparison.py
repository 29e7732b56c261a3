"""Compares the stored documents of a run with a replay of its log, field by field, pure.

Every field that a projection owns is compared; no document and no field may exist that a replay does not
produce.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from control_plane.store.verify.evidence import Document, Evidence
from control_plane.verify.expected import attempts, beside, surplus, unlogged
from control_plane.verify.replay import Replayed
from events.lifecycle import Cause

# What stays empty until a decision or an event fills it.
EMPTY_AT_FIRST: Final = (
    "claimedBy", "claimedAt", "settled", "cancelRequested", "humanVerdict", "sealed", "currentStage", "error",
    "validation", "startedAt", "finishedAt", "summary", "summaryAttempt",
)  # fmt: skip
# What it is steered by; a run from before there was such a thing lacks it.
UNSTEERED: Final[Mapping[str, Any]] = {
    "paused": False, "notes": [], "requires": None, "startAt": None, "waitsForRuns": False,
    "node": None, "preempt": None,
}  # fmt: skip
ATTEMPT_DECIDED: Final = ("pod", "claimedAt", "outcome", "code", "message", "endedAt", "revision")


def differences(evidence: Evidence, replayed: Replayed) -> Iterator[str]:
    """Yield every difference between the stored documents and the replay of the log."""
    expected = {**dict.fromkeys(EMPTY_AT_FIRST), **UNSTEERED, **replayed.fields}
    yield from _unlike("the run", expected, {**UNSTEERED, **evidence.run})
    yield from _log_marks(evidence, replayed)
    yield from _attempts(evidence, replayed)
    yield from _beside(evidence, replayed)


def _log_marks(evidence: Evidence, replayed: Replayed) -> Iterator[str]:
    """`logOpen` and `logIncomplete` follow from the current attempt's end and cursor."""
    run, cursor = evidence.run, replayed.fields.get("lastEventSeq", 0)
    attempt = replayed.fields.get("attempt", 0)
    folded = replayed.attempts.get(attempt)
    settled = replayed.fields.get("settled")
    is_rescued = any(each.cause == Cause.RESCUE and each.attempt == attempt for each in evidence.decisions)
    is_whole = (
        attempt == 0
        or (folded is not None and folded.view.end_seq is not None and folded.view.end_seq <= cursor)
        or (settled is not None and cursor >= settled["last"])
    )
    mark = run["logIncomplete"]
    if is_whole or is_rescued:
        if run["logOpen"]:
            yield f"the run: logOpen is True, but the log of attempt {attempt} is closed"
        if is_whole and mark is not None:
            yield f"the run: logIncomplete is {mark}, but the log is whole"
    elif settled is None:
        is_sealed = replayed.fields.get("sealed") is not None
        if run["logOpen"] == is_sealed or mark is not None:
            yield f"the run: logOpen is {run['logOpen']}, logIncomplete {mark}, but attempt {attempt} goes on"
    elif not run["logOpen"] and not _fits(mark, cursor, settled["last"]):
        missing = f"{cursor + 1}–{settled['last']}"
        yield f"the run: the log is given up, events {missing} are missing, but logIncomplete is {mark}"


def _fits(mark: Document | None, cursor: int, last: int) -> bool:
    return mark is not None and mark["from"] == cursor + 1 and mark["to"] == last


def _attempts(evidence: Evidence, replayed: Replayed) -> Iterator[str]:
    stored = {each["_id"]: each for each in evidence.attempts}
    expected = attempts(evidence, replayed)
    pending = {entry.n for entry in evidence.decisions} & {each["n"] for each in evidence.run["journal"]}
    for identity, fields in expected.items():
        fields.pop("watchedUntil", None)  # the catch-up's own reminder, which it takes away
        if "marks" not in (stored.get(identity) or {"marks": None}):
            fields.pop("marks", None)  # an attempt from before there were any
        if fields.get("revision") in pending:
            # On its way into the log: the documents follow in a moment.
            fields = {name: value for name, value in fields.items() if name not in ATTEMPT_DECIDED}
        yield from _different("attempts", identity, fields, stored.get(identity))
    for identity in sorted(set(stored) - set(expected)):
        if not pending:
            yield f"attempts {identity} is stored, and the log tells of no such attempt"


def _beside(evidence: Evidence, replayed: Replayed) -> Iterator[str]:
    """Stages, artifacts, validations, and the documents of the kinds."""
    every = beside(evidence, replayed)
    known = unlogged(evidence)
    for collection, documents in evidence.beside.items():
        stored = {each["_id"]: each for each in documents}
        expected = every[collection]
        for identity, fields in expected.items():
            yield from _different(collection, identity, fields, stored.get(identity))
        for identity in sorted(set(stored) - set(expected) - known):
            yield f"{collection} {identity} is stored, and no event tells of it"


def _different(
    collection: str, identity: str, expected: Mapping[str, Any], stored: Document | None
) -> Iterator[str]:
    what = f"{collection} {identity}"
    yield from _unlike(what, expected, stored)
    for name in surplus(collection, expected, stored or {}):
        yield f"{what}: {name} is {(stored or {})[name]!r}, and no event tells of it"


def _unlike(what: str, expected: Mapping[str, Any], stored: Document | None) -> Iterator[str]:
    if stored is None:
        yield f"{what} is not stored"
        return
    for name, value in expected.items():
        if stored.get(name) != value:
            yield f"{what}: {name} is {stored.get(name)!r}, the log says {value!r}"
