"""Sick pods, providers and storages on a real fleet: no waiting run is claimed to fail, and it says why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import bearer
from tests.integration.command_line import podfleet
from tests.integration.conftest import Fleet, fleet_on
from tests.integration.programs.model_server import ModelServer, Reply, failing, unauthorised
from tests.integration.programs.scholar import IDEA, good
from tests.integration.relay import Relay
from tests.servers import S3Server, own_database

KEY = "sk-mistyped-by-the-operator"


@pytest.fixture
def provider() -> Iterator[ModelServer]:
    """A provider of models that knows every key, and answers well."""
    with ModelServer(good) as server:
        server.listing = Reply()
        yield server


def start_pod(fleet: Fleet, server: ModelServer, name: str, **more: str) -> Any:
    settings = {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m", **more}
    return fleet.start_quick_worker(name=name, **settings)


def reasons(fleet: Fleet, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fleet.client.get(f"/api/runs/{run_id}/explain").json()["reasons"]
    return found


def checks_of(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Return the checks of the one pod, by subject; none before its first report of some."""
    pods = fleet.client.get("/api/pods").json()["items"]
    return {each["name"].partition(":")[0]: each for pod in pods for each in pod["checks"]}


def experiment(fleet: Fleet) -> str:
    return fleet.submit("experiment", spec={"idea": IDEA, "researcher": "model", "preset": "quick"})


MACHINE = frozenset({"disk", "memory", "storage"})


@pytest.mark.common_fleet
def test_a_pod_with_a_wrong_key_claims_what_needs_none_and_says_why_it_leaves_the_rest(
    fleet: Fleet, provider: ModelServer, until: Any
) -> None:
    provider.listing = unauthorised(KEY)
    start_pod(fleet, provider, "mistyped")
    needing, other = experiment(fleet), fleet.submit(spec={"seconds": 0})
    fleet.wait_for(other, "COMPLETED")
    until(lambda: not checks_of(fleet).get("model", {"ok": True})["ok"])
    model = checks_of(fleet)["model"]
    assert (model["code"], model["kinds"]) == ("MODEL_UNAUTHORISED", ["experiment", "ideation"])
    until(lambda: {name for name, each in checks_of(fleet).items() if each["ok"]} >= MACHINE)
    run = fleet.run(needing)
    assert (run["status"], run["attempt"], provider.asked) == ("QUEUED", 0, [])

    until(lambda: reasons(fleet, needing)[0]["code"] == "pods_unfit")  # all kinds are loaded
    assert "its model key is refused" in reasons(fleet, needing)[0]["message"]
    host = provider.url.removeprefix("http://")
    assert f'podfleet_pods_cannot_claim{{check="model:{host}"}} 1.0' in fleet.client.get("/metrics").text
    listed = podfleet(fleet.url, "pods", "list").stdout
    assert f"compute, image, job, probe, prompt, trial only (model:{host} fails)" in listed
    (pod,) = fleet.client.get("/api/pods").json()["items"]
    page = fleet.client.get(f"/pods/{pod['id']}").text
    assert "It claims no experiment, no ideation: its model key is refused" in page
    assert "fails" in fleet.client.get("/pods").text
    assert "1 with a failing check of" in fleet.client.get("/").text
    takers = {each["name"]: each["livePods"] for each in fleet.client.get("/api/kinds").json()["items"]}
    assert (takers["probe"], takers["experiment"]) == (1, 0)
    for text in (page, listed, json.dumps(pod), (fleet.home / "mistyped.log").read_text()):
        assert KEY not in text

    provider.listing = Reply()  # the key is known now
    until(lambda: fleet.run(needing)["attempt"] == 1)


@pytest.mark.slow("the waits between two looks")
@pytest.mark.common_fleet
def test_a_provider_that_is_away_for_a_while_burns_no_run_that_waits(
    fleet: Fleet, provider: ModelServer, until: Any
) -> None:
    answers = [unauthorised(KEY)]  # which is not tried again: the attempt ends at once
    with ModelServer(lambda asked: answers[-1] if answers else good(asked)) as server:
        server.listing = Reply()
        start_pod(fleet, server, "pod")
        until(lambda: "model" in checks_of(fleet))
        server.listing = failing(500)
        runs = [experiment(fleet) for _ in range(3)]
        until(lambda: not checks_of(fleet)["model"]["ok"])
        until(lambda: server.listed >= 2)
        attempts = [fleet.run(each)["attempt"] for each in runs]
        assert sorted(attempts)[:2] == [0, 0], "one attempt told, and no other was made"
        answers.clear()
        server.listing = Reply()
        until(lambda: all(fleet.run(each)["attempt"] >= 1 for each in runs[1:2]))
        assert checks_of(fleet)["model"]["ok"]


@pytest.mark.slow("a fleet of its own, and the waits between two looks")
def test_a_storage_whose_key_changed_burns_no_run_that_waits(
    mongod: Any, s3: S3Server, tmp_path: Path, until: Any
) -> None:
    relay = Relay(s3.endpoint)
    moved = S3Server(
        **{
            **vars(s3),
            "endpoint": relay.endpoint,
            "environment": {**s3.environment, "MINIO_ENDPOINT": relay.endpoint},
        }
    )
    with own_database(mongod) as url, fleet_on(url, moved, tmp_path) as fleet:
        fleet.start_quick_worker(name="pod")
        first = fleet.submit(spec={"seconds": 0, "artifact_bytes": 100})
        fleet.wait_for(first, "COMPLETED")
        until(lambda: "storage" in checks_of(fleet))
        relay.refuse()
        runs = [fleet.submit(spec={"seconds": 0, "artifact_bytes": 100}) for _ in range(5)]
        until(lambda: checks_of(fleet)["storage"]["code"] == "STORAGE_REFUSED")
        assert sum(fleet.run(each)["attempt"] for each in runs) == 1, (
            "one attempt told, and no other was made"
        )
        waiting = next(each for each in runs if fleet.run(each)["attempt"] == 0)
        assert "403" in reasons(fleet, waiting)[0]["message"]
        relay.refuses = False
        for each in runs:
            fleet.wait_for(each, "COMPLETED")
    relay.close()


@pytest.mark.common_fleet
def test_what_a_pod_reports_of_a_provider_makes_others_that_use_it_look(
    fleet: Fleet, provider: ModelServer, until: Any
) -> None:
    start_pod(fleet, provider, "pod")
    until(lambda: "model" in checks_of(fleet))
    host, looked = provider.url.removeprefix("http://"), provider.listed
    check = {"name": f"model:{host}", "ok": False, "at": "2026-01-01T00:00:00Z", "message": "it answers 500"}
    line = {
        "id": "other/1", "pod": "other", "mode": "hybrid", "kinds": ["probe"], "state": "idle",
        "version": "0",
        "startedAt": "2026-01-01T00:00:00Z", "capabilities": {"cpus": 1, "memoryMib": 1},
        "telemetry": {"memoryMib": 1}, "checks": [check],
    }  # fmt: skip
    assert fleet.client.post("/api/pods", json=line).json()["suspects"] == []
    until(lambda: provider.listed > looked)
    until(
        lambda: (
            fleet.client.post("/api/pods", json={**line, "id": "third/1"}).json()["suspects"]
            == [f"model:{host}"]
        )
    )
    for odd in ({"name": "model:a b"}, {"name": "weather"}, {"message": "x" * 301}):
        refused = fleet.client.post("/api/pods", json={**line, "checks": [check | odd]})
        assert refused.status_code == 422, odd
    assert fleet.client.post("/api/pods", json={**line, "checks": [check] * 17}).status_code == 422


@pytest.mark.common_fleet(key="the-key-of-the-test")
def test_a_pod_may_put_its_small_object_again_and_again_and_nothing_larger(fleet: Fleet) -> None:
    made = fleet.client.post("/api/keys", json={"kind": "pod", "name": "test", "pod": "mine"}).json()
    ours = bearer(made["key"])
    content = b"podfleet"
    body = {"pod": "mine", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    for _ in range(2):
        signed = fleet.client.post("/api/upload-tests", json=body, headers=ours).json()
        put = httpx.put(signed["url"], content=content, headers=signed["headers"], trust_env=False)
        assert put.status_code == 200, put.text
    assert httpx.put(signed["url"], content=b"longer than signed", trust_env=False).status_code == 403
    for wrong, status in (({"size": 65}, 422), ({"size": 0}, 422), ({"pod": "other"}, 403)):
        refused = fleet.client.post("/api/upload-tests", json={**body, **wrong}, headers=ours)
        assert refused.status_code == status, wrong
