"""What keeps a pod from claiming, on a real fleet: a cordon and a drain by name, over restarts."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from events.runtime.clock import SystemIds
from events.text.key_text import letters
from tests.integration.command_line import podfleet

pytestmark = pytest.mark.common_fleet
ALONE = {"MONGODB_URL": ""}  # over HTTP


def reason_of(fleet: Any, run_id: str) -> dict[str, Any]:
    answer = fleet.client.get(f"/api/runs/{run_id}/explain")
    assert answer.status_code == 200, answer.text
    first: dict[str, Any] = answer.json()["reasons"][0]
    return first


def asked(pod: str, wait_s: float = 0.0) -> dict[str, Any]:
    return {"token": letters(SystemIds().token()), "pod": pod, "kinds": ["probe"], "wait_s": wait_s}


def line(pod: str, **more: Any) -> dict[str, Any]:
    return {
        "id": pod, "pod": pod.partition("/")[0], "mode": "hybrid", "kinds": ["probe"], "state": "idle",
        "version": "0", "startedAt": "2026-01-01T00:00:00Z", "capabilities": {"cpus": 1, "memoryMib": 1},
        "telemetry": {"memoryMib": 1}, **more,
    }  # fmt: skip


def test_a_cordoned_pod_claims_nothing_over_restarts_until_the_cordon_is_lifted(
    fleet: Any, database: Any, until: Callable[..., Any]
) -> None:
    worker = fleet.start_quick_worker(name="w1")
    done = fleet.submit(spec={"seconds": 0})
    fleet.wait_for(done, "COMPLETED")

    told = podfleet(fleet.url, "pods", "cordon", "w1", "--reason", "its disk is replaced", "--for", "2h")
    assert told.returncode == 0, told.stderr
    assert "w1: cordoned: its disk is replaced" in told.stdout
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    fleet.start_quick_worker(name="w1")
    waits = fleet.submit(spec={"seconds": 0})
    until(lambda: database.pods.count_documents({"state": "idle"}) == 1, seconds=60)
    until(lambda: reason_of(fleet, waits)["code"] == "pods_held_back")
    assert "cordoned: its disk is replaced (by " in reason_of(fleet, waits)["message"]
    before = database.pods.find_one({"state": "idle"})["reportedAt"]
    until(lambda: database.pods.find_one({"state": "idle"})["reportedAt"] > before)
    assert fleet.run(waits)["status"] == "QUEUED"
    (pod,) = [
        each
        for each in json.loads(podfleet(fleet.url, "pods", "list", "--json").stdout)
        if each["state"] == "idle"
    ]
    assert pod["orders"]["cordon"]["until"] is not None
    page = fleet.client.get(f"/pods/{pod['id']}").text
    assert "its disk is replaced" in page
    assert "Uncordon" in page
    assert "its disk is replaced" in fleet.client.get("/pods").text

    assert podfleet(fleet.url, "pods", "uncordon", "w1").stdout == "w1: may claim\n"
    fleet.wait_for(waits, "COMPLETED")
    (entry,) = fleet.client.get("/api/audit", params={"object": "pod/w1", "limit": 1}).json()["items"]
    assert entry["action"] == "POST /api/pods/{pod_id}/uncordon"


def test_a_cordoned_pod_gets_nothing_over_http_and_others_hear_of_what_it_does_not_get(fleet: Any) -> None:
    for pod in ("bad/1", "good/1"):
        assert fleet.client.post("/api/pods", json=line(pod)).status_code == 200
    order = fleet.client.post("/api/pods/bad/cordon", json={"reason": "it burns"})
    assert order.status_code == 200, order.text
    run_id = fleet.submit()
    for restarted in ("bad/1", "bad/2"):
        answer = fleet.client.post("/api/claims", json=asked(restarted, 0.2))
        assert (answer.status_code, answer.json()) == (200, {"claim": None})
    assert fleet.client.post("/api/claims", json=asked("good/1")).json()["claim"]["runId"] == run_id
    orders = fleet.client.post("/api/pods", json=line("bad/2")).json()
    assert (orders["drain"], orders["cordon"]["reason"], orders["quarantine"]) == (False, "it burns", None)
    assert "Pods: 1 cordoned" in fleet.client.get("/").text
    assert fleet.client.post("/pods/bad/1/uncordon", follow_redirects=False).status_code == 303
    again = fleet.submit()
    assert fleet.client.post("/api/claims", json=asked("bad/2")).json()["claim"]["runId"] == again


def test_a_cordon_that_is_over_holds_nobody_and_a_wrong_one_is_refused(fleet: Any) -> None:
    assert fleet.client.post("/api/pods", json=line("p/1")).status_code == 200
    unknown = fleet.client.post("/api/pods/nobody/cordon", json={"reason": "why"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_pod")
    assert fleet.client.post("/api/pods/nobody/uncordon").status_code == 404
    for body in (
        {},
        {"reason": ""},
        {"reason": "w", "for_s": 0},
        {"reason": "w", "for_s": 9, "until": "2099-01-01T00:00:00Z"},
    ):
        assert fleet.client.post("/api/pods/p/cordon", json=body).status_code == 422, body
    over = fleet.client.post("/api/pods/p/cordon", json={"reason": "why", "until": "2026-01-01T00:00:00Z"})
    assert over.json()["cordon"] is None
    run_id = fleet.submit()
    assert fleet.client.post("/api/claims", json=asked("p/1")).json()["claim"]["runId"] == run_id


def test_a_drained_pod_that_is_started_again_claims_nothing_and_a_drain_can_be_undone(
    fleet: Any, database: Any, until: Callable[..., Any]
) -> None:
    for pod in ("p/1", "q/1"):
        assert fleet.client.post("/api/pods", json=line(pod)).status_code == 200
    assert fleet.client.post("/api/pods/p/1/drain").json()["orders"]["cordon"]["reason"] == "drained"
    assert fleet.client.post("/api/pods", json=line("p/1", state="stopped")).json()["drain"]
    restarted = fleet.client.post("/api/pods", json=line("p/2")).json()
    assert (restarted["drain"], restarted["cordon"]["reason"]) == (False, "drained")
    run_id = fleet.submit()
    assert fleet.client.post("/api/claims", json=asked("p/2")).json() == {"claim": None}
    left = fleet.client.post("/api/pods/p/1/undrain")
    assert (left.status_code, left.json()["code"]) == (409, "pod_left")

    assert fleet.client.post("/api/pods/q/1/drain").status_code == 200
    undone = fleet.client.post("/api/pods/q/1/undrain").json()["orders"]
    assert (undone["drain"], undone["cordon"]) == (False, None)
    assert fleet.client.post("/api/claims", json=asked("q/1")).json()["claim"]["runId"] == run_id


def test_a_drain_and_its_undoing_leave_a_cordon_without_end_as_it_is(fleet: Any) -> None:
    assert fleet.client.post("/api/pods", json=line("p/1")).status_code == 200
    assert fleet.client.post("/api/pods/p/cordon", json={"reason": "it burns"}).status_code == 200
    for order, drain in (("drain", True), ("undrain", False)):
        orders = fleet.client.post(f"/api/pods/p/1/{order}").json()["orders"]
        assert (orders["drain"], orders["cordon"]["reason"]) == (drain, "it burns")
    assert (
        fleet.client.post("/api/pods/p/cordon", json={"reason": "an hour", "for_s": 3600}).status_code == 200
    )
    drained = fleet.client.post("/api/pods/p/1/drain").json()["orders"]["cordon"]
    assert (drained["reason"], drained["until"]) == ("drained", None)


def settle(fleet: Any, claim: dict[str, Any], outcome: str, code: str | None = None) -> None:
    """End the attempt of a claim as its pod does."""
    body = {"outcome": outcome, "code": code, "message": code, "retryable": code is not None, "last": 0}
    headers = {"Podfleet-Run-Token": claim["runToken"]}
    answer = fleet.client.post(f"/api/claims/{claim['runId']}/settle", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def served(fleet: Any, pod: str, code: str | None = None) -> dict[str, Any] | None:
    """Let a pod claim a run and end it; return the claim, None where it got nothing."""
    claim: dict[str, Any] | None = fleet.client.post("/api/claims", json=asked(pod)).json()["claim"]
    if claim is not None:
        settle(fleet, claim, "failed" if code else "completed", code)
    return claim


def orders_of(fleet: Any, pod: str) -> dict[str, Any]:
    answer = fleet.client.get(f"/api/pods/{pod}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["orders"]
    return found


def test_a_pod_with_a_wrong_key_is_out_of_the_queue_after_three_failures_until_it_is_released(
    fleet: Any, until: Callable[..., Any]
) -> None:
    for pod in ("bad/1", "good/1", "fine/1"):
        assert fleet.client.post("/api/pods", json=line(pod)).status_code == 200
    for _ in range(12):
        fleet.submit()
    failed = []
    for _ in range(3):
        claim = served(fleet, "bad/1", "MODEL_UNAUTHORISED")
        assert claim is not None
        failed.append(claim["runId"])
        served(fleet, "good/1")
    until(lambda: orders_of(fleet, "bad/1")["quarantine"])
    assert fleet.client.post("/api/pods", json=line("bad/2")).json()["quarantine"] is not None  # restarted
    for restarted in ("bad/1", "bad/2"):
        assert served(fleet, restarted) is None
    assert served(fleet, "fine/1") is not None
    page = fleet.client.get("/pods/bad/1").text
    assert "3 failures of its own (MODEL_UNAUTHORISED)" in page
    assert failed[0] in page
    assert 'podfleet_pods_held_back{by="quarantine"} 1.0' in fleet.client.get("/metrics").text
    listed = podfleet(fleet.url, "pods", "release", "bad")
    assert listed.stdout == "bad: may claim\n", listed.stderr
    assert served(fleet, "bad/2") is not None
