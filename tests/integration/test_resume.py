"""An experiment whose pod goes away is finished by another pod, which does nothing twice."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from minio import Minio

pytestmark = pytest.mark.timeout(300)
Until = Callable[..., None]

SPEC = {
    "idea": "Dropout improves accuracy on iris",
    "preset": "quick",
    "nodes": {"Stage_1": 2, "Stage_2": 3, "Stage_3": 2, "Stage_4": 2},
    "seed": 5,
}


def log_of(fleet: Any, run_id: str, event_type: str) -> list[dict[str, Any]]:
    """Return a run's events of one type, oldest first."""
    params: dict[str, Any] = {"type": event_type, "limit": 200, "order": "oldest"}
    items: list[dict[str, Any]] = []
    while True:
        page = fleet.client.get(f"/api/runs/{run_id}/events", params=params).json()
        items += page["items"]
        if page["next"] is None:
            return items
        params["after"] = page["next"]


def completed_nodes(fleet: Any, run_id: str) -> list[str]:
    return [each["data"]["node"] for each in log_of(fleet, run_id, "ai.node.completed")]


def results(fleet: Any, run_id: str) -> dict[str, Any]:
    """Return the run's numbers without times, and without who did it."""
    artifacts = fleet.client.get(f"/api/runs/{run_id}/artifacts", params={"limit": 200}).json()["items"]
    (found,) = [each for each in artifacts if each["name"] == "paper/results.json"]
    content = fleet.client.get(f"/api/artifacts/{found['id']}", follow_redirects=True).json()
    for name in ("attempt", "run_id"):
        del content["setting"][name]

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: timeless(each) for name, each in value.items() if "seconds" not in name}
        return [timeless(each) for each in value] if isinstance(value, list) else value

    kept: dict[str, Any] = timeless(content)
    return kept


def must_have_done_nothing_twice(fleet: Any, run_id: str) -> None:
    pairs = (
        ("node", "ai.node.completed", "ai.node.executing"),
        ("stage", "ai.run.stage_completed", "ai.run.stage_started"),
    )
    for what, ends, begins in pairs:
        done = {each["data"][what]: each["attempt"] for each in log_of(fleet, run_id, ends)}
        for each in log_of(fleet, run_id, begins):
            assert each["attempt"] <= done.get(each["data"][what], each["attempt"]), each


def test_a_pod_that_is_taken_away_again_and_again_costs_no_finished_work(fleet: Any, until: Until) -> None:
    fleet.start_worker(name="undisturbed")
    whole = fleet.submit("experiment", spec=SPEC)
    fleet.wait_for(whole, "COMPLETED", limit_s=150)
    fleet.workers[-1].terminate()
    run_id = fleet.submit("experiment", spec=SPEC)

    def stages() -> set[str]:
        return {each["data"]["stage"] for each in log_of(fleet, run_id, "ai.run.stage_completed")}

    moments: list[Callable[[], object]] = [
        lambda: "Stage_2/1" in completed_nodes(fleet, run_id),
        lambda: "Stage_3" in stages(),
        lambda: any(
            each["data"]["name"].startswith("test_") for each in log_of(fleet, run_id, "ai.run.stage_metric")
        ),
        lambda: "plots" in stages(),
    ]
    for number, moment in enumerate(moments, 1):
        worker = fleet.start_worker(name=f"pod-{number}")
        until(moment, 120)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    fleet.start_worker(name="last")
    run = fleet.wait_for(run_id, "COMPLETED", limit_s=120)
    assert run["failures"]["app"] == run["failures"]["infra"] == 0
    assert run["attempt"] >= 3, "at least some of the signals came in time"
    must_have_done_nothing_twice(fleet, run_id)
    told = [each["data"]["message"] for each in log_of(fleet, run_id, "ai.run.log")]
    assert any("resuming after it, from the checkpoint of attempt 1" in each for each in told)
    assert results(fleet, run_id) == results(fleet, whole)
    assert run["validation"]["verdict"] == fleet.run(whole)["validation"]["verdict"]
    names = [each["name"] for each in run["artifacts"]]
    assert names.count("paper/paper.pdf") == 1
    tree = fleet.client.get(f"/runs/{run_id}")
    assert tree.status_code == 200


def test_a_killed_pod_costs_no_finished_work_and_a_broken_checkpoint_is_told(
    fleet: Any, s3: Any, until: Until
) -> None:
    first = fleet.start_worker(name="first")
    run_id = fleet.submit("experiment", spec=SPEC)
    until(lambda: "Stage_2/2" in completed_nodes(fleet, run_id), 120)
    first.kill()
    first.wait()
    # The objects of one stage rot while nobody looks.
    storage = Minio(
        s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, secure=False, region=s3.region
    )
    (rotten,) = [
        each for each in fleet.run(run_id)["artifacts"] if each["name"] == "checkpoints/Stage_1/manifest.json"
    ]
    storage.fput_object(s3.bucket, rotten["key"], __file__)
    fleet.start_worker(name="second")
    run = fleet.wait_for(run_id, "COMPLETED", limit_s=240)
    assert run["failures"] == {"app": 0, "infra": 1, "preempted": 0}
    told = [each["data"]["message"] for each in log_of(fleet, run_id, "ai.run.log")]
    assert any("the checkpoint Stage_1 of attempt 1 is not used" in each for each in told)
    restored = {each["data"]["node"] for each in log_of(fleet, run_id, "ai.node.restored")}
    assert {"Stage_2/1", "Stage_2/2"} <= restored
    executed = {
        each["data"]["node"] for each in log_of(fleet, run_id, "ai.node.executing") if each["attempt"] == 2
    }
    assert not executed & {"Stage_2/1", "Stage_2/2"}
    assert "Stage_1/1" in executed, "what rotted is done again"
