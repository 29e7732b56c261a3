"""Labels and pins over real HTTP: what a pod says, who takes what, and what is told to people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from events.delivery.control_plane_client import bearer
from events.queue.labels import SAID_MAX
from tests.integration.conftest import Fleet
from tests.integration.test_pods_without_database import asked, claimed, new_key

ROOT_KEY = "the-key-of-the-test"
pytestmark = pytest.mark.common_fleet(key=ROOT_KEY)

BRIEF = {"seconds": 0, "events": 1}
LINE = {
    "mode": "experiment", "kinds": ["probe"], "state": "idle", "version": "0",
    "startedAt": "2026-01-01T00:00:00Z", "capabilities": {"cpus": 1, "memoryMib": 1},
    "telemetry": {"memoryMib": 1},
}  # fmt: skip


def first_reason(fleet: Fleet, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = fleet.client.get(f"/api/runs/{run_id}/explain").json()["reasons"][0]
    return found


def test_a_worker_says_what_it_is_and_takes_what_asks_for_it(fleet: Fleet, until: Callable[..., Any]) -> None:
    racked = fleet.submit(spec=BRIEF, requires={"labels": {"rack": "a4", "cpu": ">=1", "gpus": "0"}})
    pinned = fleet.submit(spec=BRIEF, requires={"pod": "pod-7", "labels": {"tenant": "vision"}})
    elsewhere = fleet.submit(requires={"labels": {"rack": "b1", "gpu": "h100"}})
    never = fleet.submit(requires={"pod": "pod-8"})
    assert "pinned to pod-7, which does not report" in first_reason(fleet, pinned)["message"]
    queue = {each["classKey"]: each for each in fleet.client.get("/api/queue").json()["items"]}
    assert queue["~pod-7/probe/cpu/any/tenant=vision"]["pod"] == "pod-7"
    assert queue["probe/cpu/any/cpu=>=1,gpus=0,rack=a4"]["labels"]["cpu"] == ">=1"
    worker = fleet.start_worker(
        "--label", "rack=a4", PODFLEET_POD_ID="pod-7", PODFLEET_LABELS="rack=c9,tenant=vision"
    )
    for run_id in (racked, pinned):
        assert fleet.wait_for(run_id, "COMPLETED", "FAILED")["status"] == "COMPLETED"

    def told() -> Any:
        return first_reason(fleet, elsewhere)["evidence"].get("labels")

    until(told)
    assert told() == [
        {"name": "gpu", "needs": "h100", "says": [], "without": 1},
        {"name": "rack", "needs": "b1", "says": [{"value": "a4", "pods": 1}], "without": 0},
    ]
    words = "needs gpu=h100; no pod says gpu; needs rack=b1; pods with rack=a4: 1, none with b1"
    assert words in fleet.client.get(f"/runs/{elsewhere}").text
    assert first_reason(fleet, never)["code"] == "pinned_pod_away"
    (pod,) = [each for each in fleet.client.get("/api/pods").json()["items"] if each["pod"] == "pod-7"]
    assert {"rack": "a4", "tenant": "vision", "gpus": "0"}.items() <= pod["labels"].items()
    assert int(pod["labels"]["cpu"]) == pod["capabilities"]["cpus"]
    assert pod["capabilities"]["diskMib"] > 0
    for path in ("/pods", f"/pods/{pod['id']}"):
        assert "rack=a4" in fleet.client.get(path).text
    # a retry asks for the same pod
    retried = fleet.client.post(f"/api/runs/{pinned}/retry").json()["id"]
    assert fleet.run(retried)["classKey"] == fleet.run(pinned)["classKey"]
    fleet.wait_for(retried, "COMPLETED")
    # the pin outlives the start of its pod, and waits where the name does not come back
    worker.terminate()
    worker.wait()
    again = fleet.submit(requires={"pod": "pod-7"})
    assert claimed(fleet, ROOT_KEY, pod="pod-9/1") is None
    assert claimed(fleet, ROOT_KEY, pod="pod-7/another-start")["runId"] == again


def test_a_pin_is_not_taken_by_a_pod_of_another_name(fleet: Fleet) -> None:
    run_id = fleet.submit(requires={"pod": "pod-7"})
    other, _ = new_key(fleet, pod="pod-8")
    own, _ = new_key(fleet, pod="pod-7")
    for name in ("pod-8/1", "pod-8/pod-7", "pod-8"):
        assert claimed(fleet, other, pod=name) is None
    lied = fleet.client.post("/api/claims", json=asked(pod="pod-7/1"), headers=bearer(other))
    assert (lied.status_code, lied.json()["code"]) == (403, "foreign_pod")
    heard = {"class": "probe/cpu/any", "wait_s": 0}
    lied = fleet.client.get("/api/wakeups", params={**heard, "pod": "pod-7/1"}, headers=bearer(other))
    assert (lied.status_code, lied.json()["code"]) == (403, "foreign_pod")
    for key, name, is_told in ((other, "pod-8/1", False), (own, "pod-7/1", True), (own, None, False)):
        params = heard if name is None else {**heard, "pod": name}
        answer = fleet.client.get("/api/wakeups", params=params, headers=bearer(key)).json()
        assert answer["waiting"] is is_told
    assert claimed(fleet, own, pod="pod-7/1")["runId"] == run_id


@pytest.mark.parametrize(
    "labels",
    [
        {"GPU": "h100"},
        {"gpu": ""},
        {"gpu": "a" * 65},
        {"gpu": "a b"},
        {"gpu": 4},
        {"gpu": None},
        {"gpu": "h100\n"},
        {"$where": "1"},
        {"a.b": "c"},
        {"a/b": "c"},
        {f"l{number}": "x" for number in range(SAID_MAX + 1)},
        {f"l{number}": "x" for number in range(5_000)},
        ["gpu=h100"],
    ],
    ids=range(13),
)
def test_labels_that_no_pod_can_have_are_refused_at_every_door(fleet: Fleet, labels: Any) -> None:
    doors = {
        "/api/claims": asked(labels=labels),
        "/api/pods": {**LINE, "id": "hand/1", "pod": "hand", "labels": labels},
    }
    for path, body in doors.items():
        answer = fleet.client.post(path, json=body)
        assert answer.status_code == 422, (path, answer.text)
    run = {"kind": "probe", "requires": {"labels": labels}}
    for path in ("/api/runs", "/api/runs?dry_run=true"):
        answer = fleet.client.post(path, json=run)
        assert (answer.status_code, len(answer.content) < 2_000) == (422, True), answer.text
