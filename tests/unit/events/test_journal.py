"""What the one update of a decision writes, evaluated by the simulation's store."""

from __future__ import annotations

from typing import Any

import pytest

from events.lifecycle import AT_REST, Cause, Failures, Status
from events.queue.journal import Decision, creation, kept_failures, update
from events.testing import EPOCH
from testing.simulation.store.driver import sync_database
from testing.simulation.store.replica_set import ReplicaSet


@pytest.fixture
def runs() -> Any:
    db = sync_database(ReplicaSet(lambda: EPOCH), "test")
    fields = {
        "kind": "probe", "status": "RUNNING", "classKey": "c", "priority": 0, "queuedAt": EPOCH,
        "notBefore": None, "queueDeadline": None, "maxAttempts": 3,
    }  # fmt: skip
    db.runs.update_one({"_id": "r"}, creation(fields, by="me"), upsert=True)
    return db.runs


def decide(runs: Any, decision: Decision) -> dict[str, Any]:
    runs.update_one({"_id": "r"}, update(decision))
    found: dict[str, Any] = runs.find_one({"_id": "r"})
    return found


def test_a_decision_that_stays_leaves_a_phase_that_moved_meanwhile_alone(runs: Any) -> None:
    # It was made of a run that was SCHEDULED when it was read; RUNNING is what it finds.
    run = decide(runs, Decision(Cause.PAUSE, None, "user:me", sets={"paused": True}))
    assert (run["status"], run["paused"], run["revision"]) == ("RUNNING", True, 2)
    entry = run["journal"][-1]
    assert (entry["from"], entry["to"], entry["set"]) == ("RUNNING", "RUNNING", {"paused": True})


@pytest.mark.parametrize("status", list(Status))
def test_only_where_nobody_works_any_more_a_pause_is_over(runs: Any, status: Status) -> None:
    decide(runs, Decision(Cause.PAUSE, None, "user:me", sets={"paused": True}))
    run = decide(runs, Decision(Cause.END_COMPLETED, status, "pod#a1", sets={"x": 1}))
    assert run["paused"] is (status not in AT_REST)
    expected = {"x": 1, "paused": False} if status in AT_REST else {"x": 1}
    assert run["journal"][-1]["set"] == expected


def test_failures_outside_are_stored_once_there_is_one(runs: Any) -> None:
    assert runs.find_one({"_id": "r"})["failures"] == {"app": 0, "infra": 0, "preempted": 0}
    assert kept_failures(Failures(app=1)) == {"app": 1, "infra": 0, "preempted": 0}, (
        "so older workers read it"
    )
    assert kept_failures(Failures(outside=2)) == {"app": 0, "infra": 0, "preempted": 0, "outside": 2}


def test_a_new_run_is_not_paused_and_has_no_notes(runs: Any) -> None:
    run = runs.find_one({"_id": "r"})
    assert (run["paused"], run["notes"]) == (False, [])
