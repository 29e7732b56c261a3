"""What becomes of a stored document as a struct: what it lacks, what was cut from it, what nobody shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from control_plane.model.ownership import OWNERS
from control_plane.model.presentation import INTERNAL
from control_plane.model.views.document_mapping import from_document, stored_names
from control_plane.model.views.pods import pod
from control_plane.model.views.runs import attempt, run_row
from events.answers.access.keys import Key
from events.answers.artifacts import Artifact
from events.answers.attempts import Attempt, Stage
from events.answers.kinds.hypotheses import HypothesisRow
from events.answers.kinds.tasks import TaskRow
from events.answers.logs import LoggedEvent
from events.answers.pods import Pod
from events.answers.runs import Lease, Note, Run, RunRow
from events.answers.schedules import Schedule
from events.queue.rules import Rules

MOMENT = datetime(2026, 11, 21, 10, 0, 0, 123_000, UTC)


def as_json(answer: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(answer))
    return found


def test_a_field_has_its_name_in_json_and_a_moment_is_text() -> None:
    run = run_row(
        {"_id": "r", "maxAttempts": 3, "createdAt": MOMENT, "lease": {"until": MOMENT, "renewals": 1}}
    )
    assert (run.id, run.max_attempts, run.created_at) == ("r", 3, "2026-11-21T10:00:00.123Z")
    assert run.lease == Lease(until="2026-11-21T10:00:00.123Z", renewals=1)
    assert as_json(run)["lease"] == {"until": "2026-11-21T10:00:00.123Z", "renewals": 1}


def test_what_may_be_absent_is_absent_and_anything_else_is_null() -> None:
    row = as_json(run_row({"_id": "r"}))
    assert {"paused", "sealed", "queueLimitS"} & row.keys() == set()
    assert (row["title"], row["claimedBy"], row["lease"]) == (None, None, None)
    assert "pod" not in as_json(from_document(Attempt, {"_id": "r/a1"}))
    assert as_json(attempt({"_id": "r/a1"}))["pod"] is None


def test_what_nobody_is_shown_is_left_out() -> None:
    secret = {"tokenHash": "secret", "until": None, "renewals": 0}
    stored = {"_id": "r", "words": ["a"], "labelList": [], "idempotency": {}, "tokens": [{"hash": "secret"}]}
    assert "secret" not in json.dumps(as_json(from_document(RunRow, {**stored, "lease": secret})))
    assert "secret" not in json.dumps(as_json(from_document(Key, {"_id": "k", "hash": "secret"})))


def test_what_was_cut_is_told_in_its_place_or_is_nothing() -> None:
    note = {"number": 1, "at": MOMENT, "by": "me", "text": "x"}
    run = from_document(Run, {"_id": "r", "notes": [note, "… 3 more"], "error": "… 5 more", "stages": [5]})
    assert run.notes == [Note(number=1, at="2026-11-21T10:00:00.123Z", by="me", text="x"), "… 3 more"]
    assert (run.error, run.stages) == (None, [])


def test_a_pod_that_fell_silent_is_gone_unless_it_said_goodbye() -> None:
    def state(row: str, silent_for_s: float) -> str:
        document = {"_id": "p/1", "state": row, "reportedAt": MOMENT}
        return pod(document, MOMENT + timedelta(seconds=silent_for_s), Rules()).state

    assert (state("busy", 0), state("busy", 1), state("stopped", 1)) == ("busy", "gone", "stopped")


SHOWN = {
    "runs": Run,
    "attempts": Attempt,
    "stages": Stage,
    "artifacts": Artifact,
    "hypotheses": HypothesisRow,
    "events": LoggedEvent,
    "pods": Pod,
    "schedules": Schedule,
    "tasks": TaskRow,
}
HIDDEN = {
    "attempts": {"marks", "imported"},  # of the ledger
    "pods": {"lookedUntil"},
    "tasks": {"begun"},
    "events": {"ceId", "hash", "expiresAt", "orphan", "imported"},
    "runs": INTERNAL | {"startAt", "node", "preempt", "userId"},  # of its group, and of its user
}


@pytest.mark.parametrize("collection", SHOWN)
def test_no_stored_field_is_forgotten(collection: str) -> None:
    names = set(stored_names(SHOWN[collection]).values())
    assert OWNERS[collection].keys() - names == HIDDEN.get(collection, set()) & OWNERS[collection].keys()
