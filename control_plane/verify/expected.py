"""The documents that must be stored according to a log, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from control_plane.model.ownership import OWNERS
from control_plane.model.projection import attempt_id
from control_plane.store.log.documents import attempt_fields, human_validations, stage_document
from control_plane.store.verify.evidence import Document, Evidence
from control_plane.verify.replay import Replayed

Fields = dict[str, Any]
# What the application of events writes of an attempt; decisions write the rest of its document.
OF_EVENTS: Final = frozenset(name for name, writer in OWNERS["attempts"].items() if "application" in writer)
_NAMES: Final = frozenset({"_id", "runId", "attempt"})


def attempts(evidence: Evidence, replayed: Replayed) -> dict[str, Fields]:
    """Return the attempts according to decisions and events of the log, by id."""
    found: dict[str, Fields] = {}
    for entry in evidence.logged:
        attempt, fields = attempt_fields(evidence.run_id, entry)
        if fields:
            known = found.setdefault(attempt_id(evidence.run_id, attempt), {})
            known |= {**fields, "revision": entry.n}
    for attempt, folded in replayed.attempts.items():
        view = folded.view
        found.setdefault(attempt_id(evidence.run_id, attempt), {}).update(
            runId=evidence.run_id,
            attempt=attempt,
            lastEventSeq=folded.seq,
            currentStage=stage_document(view.current_stage),
            startedAt=view.started_at,
            validation=view.validation,
            error=view.error,
            endSeq=view.end_seq,
            summary=view.summary,
            marks=None if view.marks is None else dict(view.marks),
        )
    return found


def beside(evidence: Evidence, replayed: Replayed) -> dict[str, dict[str, Fields]]:
    """Return the other documents beside the run, by collection and id."""
    found: dict[str, dict[str, Fields]] = {collection: {} for collection in evidence.beside}
    writes = list(replayed.writes.values())
    writes += [write for entry in evidence.logged for write in human_validations(evidence.run_id, entry)]
    for write in writes:
        if write.collection in found:  # rows of results are compared one by one
            found[write.collection][write.id] = {**write.fields, "seq": write.seq}
    return found


def unlogged(evidence: Evidence) -> set[str]:
    """Return the ids of verdicts that are stored beside the run and not yet in the log."""
    return {write.id for entry in evidence.waiting for write in human_validations(evidence.run_id, entry)}


def surplus(collection: str, expected: Mapping[str, Any], stored: Document) -> list[str]:
    """Return the fields of a stored document whose values no event and no decision explains."""
    owned = OF_EVENTS if collection == "attempts" else set(stored)
    untold = sorted((set(stored) & owned) - set(expected) - _NAMES)
    return [name for name in untold if stored[name] is not None]
