"""The stored documents of a run against a replay of its log, field by field, pure.

Every field that a projection owns is compared; what a replay does not tell of may not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from control_plane.model.projection import attempt_id
from control_plane.store.log.documents import attempt_fields, human_validations, stage_document
from control_plane.store.verify.evidence import Document, Evidence
from control_plane.verify.replay import Replayed
from events.lifecycle import Cause

# What stays empty until a decision or an event fills it.
EMPTY_AT_FIRST: Final = (
    "claimedBy", "claimedAt", "settled", "cancelRequested", "humanVerdict", "sealed", "currentStage", "error",
    "validation", "startedAt", "finishedAt",
)  # fmt: skip
# What people steer by; a run from before there was such a thing lacks it.
UNSTEERED: Final[Mapping[str, Any]] = {"paused": False, "notes": []}
ATTEMPT_DECIDED: Final = ("pod", "claimedAt", "outcome", "code", "message", "endedAt", "revision")


def differences(evidence: Evidence, told: Replayed) -> Iterator[str]:
    """Yield every difference between what is stored and what the log tells."""
    expected = {**dict.fromkeys(EMPTY_AT_FIRST), **UNSTEERED, **told.fields}
    yield from _unlike("the run", expected, {**UNSTEERED, **evidence.run})
    yield from _log_marks(evidence, told)
    yield from _attempts(evidence, told)
    yield from _beside(evidence, told)


def _log_marks(evidence: Evidence, told: Replayed) -> Iterator[str]:
    """`logOpen` and `logIncomplete` follow from the current attempt's end and cursor."""
    run, cursor = evidence.run, told.fields.get("lastEventSeq", 0)
    attempt = told.fields.get("attempt", 0)
    folded = told.attempts.get(attempt)
    settled = told.fields.get("settled")
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
        is_sealed = told.fields.get("sealed") is not None
        if run["logOpen"] == is_sealed or mark is not None:
            yield f"the run: logOpen is {run['logOpen']}, logIncomplete {mark}, but attempt {attempt} goes on"
    elif not run["logOpen"] and not _fits(mark, cursor, settled["last"]):
        missing = f"{cursor + 1}–{settled['last']}"
        yield f"the run: the log is given up, events {missing} are missing, but logIncomplete is {mark}"


def _fits(mark: Document | None, cursor: int, last: int) -> bool:
    return mark is not None and mark["from"] == cursor + 1 and mark["to"] == last


def _attempts(evidence: Evidence, told: Replayed) -> Iterator[str]:
    stored = {each["_id"]: each for each in evidence.attempts}
    expected: dict[str, dict[str, Any]] = {}
    for entry in evidence.logged:
        attempt, fields = attempt_fields(evidence.run_id, entry)
        if fields:
            known = expected.setdefault(attempt_id(evidence.run_id, attempt), {})
            known |= {**fields, "revision": entry.n}
            known.pop("watchedUntil", None)  # the catch-up's own reminder, which it takes away
    pending = {entry.n for entry in evidence.decisions} & {each["n"] for each in evidence.run["journal"]}
    for attempt, folded in told.attempts.items():
        view = folded.view
        expected.setdefault(attempt_id(evidence.run_id, attempt), {}).update(
            runId=evidence.run_id,
            attempt=attempt,
            lastEventSeq=folded.seq,
            currentStage=stage_document(view.current_stage),
            startedAt=view.started_at,
            validation=view.validation,
            error=view.error,
            endSeq=view.end_seq,
        )
    for identity, fields in expected.items():
        if fields.get("revision") in pending:
            # On its way into the log: the documents follow in a moment.
            fields = {name: value for name, value in fields.items() if name not in ATTEMPT_DECIDED}
        yield from _unlike(f"attempts {identity}", fields, stored.get(identity))
    for identity in sorted(set(stored) - set(expected)):
        if not pending:
            yield f"attempts {identity} is stored, and the log tells of no such attempt"


def _beside(evidence: Evidence, told: Replayed) -> Iterator[str]:
    """Stages, artifacts, validations, and the documents of the kinds."""
    writes = list(told.writes.values())
    writes += [write for entry in evidence.logged for write in human_validations(evidence.run_id, entry)]
    # A person's verdict stands beside the run before the log has it.
    known = {write.id for entry in evidence.waiting for write in human_validations(evidence.run_id, entry)}
    groups = {
        "stages": evidence.stages,
        "artifacts": evidence.artifacts,
        "validations": evidence.validations,
        **evidence.of_kinds,
    }
    for collection, documents in groups.items():
        stored = {each["_id"]: each for each in documents}
        expected = {
            each.id: {**each.fields, "seq": each.seq} for each in writes if each.collection == collection
        }
        for identity, fields in expected.items():
            yield from _unlike(f"{collection} {identity}", fields, stored.get(identity))
        for identity in sorted(set(stored) - set(expected) - known):
            yield f"{collection} {identity} is stored, and no event tells of it"


def _unlike(what: str, expected: Mapping[str, Any], stored: Document | None) -> Iterator[str]:
    if stored is None:
        yield f"{what} is not stored"
        return
    for name, value in expected.items():
        if stored.get(name) != value:
            yield f"{what}: {name} is {stored.get(name)!r}, the log says {value!r}"
