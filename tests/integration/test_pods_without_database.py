"""A pod that knows the control plane's address and a key, and nothing else; and whoever steals that key."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from events.catalog import RunLog
from events.delivery.control_plane_client import bearer
from events.runtime.clock import SystemIds
from events.testing import make_line
from events.text.key_text import letters, run_token
from tests.integration.conftest import LOG, NDJSON, Fleet, start_control_plane
from tests.servers import S3Server

ROOT_KEY = "the-key-of-the-test"
pytestmark = pytest.mark.common_fleet(key=ROOT_KEY)
GONE = {"MONGODB_URL": "", "WORKER_MODE": "experiment"}


@pytest.fixture
def keyed(fleet: Fleet) -> Fleet:
    """A fleet that asks everybody for a key."""
    return fleet


def new_key(fleet: Fleet, kind: str = "pod", **more: Any) -> tuple[str, str]:
    """Return a new key, and its id."""
    made = fleet.client.post("/api/keys", json={"kind": kind, "name": "test", **more}).json()
    return made["key"], made["id"]


def asked(**more: Any) -> dict[str, Any]:
    """Return the body of a claim."""
    return {"token": letters(SystemIds().token()), "pod": "hand/1", "kinds": ["probe"], **more}


def claimed(fleet: Fleet, key: str, **more: Any) -> dict[str, Any]:
    answer = fleet.client.post("/api/claims", json=asked(**more), headers=bearer(key))
    assert answer.status_code == 200, answer.text
    claim: dict[str, Any] = answer.json()["claim"]
    return claim


def send_event(
    fleet: Fleet, key: str, run_id: str, attempt: int = 1, number: int = 1
) -> tuple[int, list[str]]:
    """Send an event with a key; return the status, and the codes of what was refused."""
    line = make_line(RunLog(message="hello"), sequence=number, run_id=run_id, attempt=attempt)
    answer = fleet.client.post("/api/ingest/events", content=line, headers={**NDJSON, **bearer(key)})
    body = answer.json()
    return answer.status_code, [each["code"] for each in body.get("rejected", [body])]


def test_a_key_that_was_made_for_one_pod_serves_no_other(keyed: Fleet) -> None:
    for body in (
        {"kind": "viewer", "pod": "hand"},
        {"kind": "pod", "pod": "hand/1"},
        {"kind": "pod", "pod": ""},
    ):
        refused = keyed.client.post("/api/keys", json={"name": "test", **body})
        assert refused.status_code == 422, refused.text
    first, first_id = new_key(keyed, pod="hand")
    rotated = keyed.client.post(f"/api/keys/{first_id}/rotate").json()
    assert rotated["pod"] == "hand"
    line = {
        "mode": "hybrid", "kinds": ["probe"], "state": "idle", "version": "0",
        "startedAt": "2026-01-01T00:00:00Z", "capabilities": {"cpus": 1, "memoryMib": 1},
        "telemetry": {"memoryMib": 1},
    }  # fmt: skip
    for key in (first, rotated["key"]):
        keyed.submit()
        for pod in ("hand2/1", "hand2", "/hand/1"):
            ways: list[tuple[str, str, dict[str, Any]]] = [
                ("POST", "/api/claims", {"json": asked(pod=pod)}),
                ("POST", "/api/pods", {"json": {**line, "id": pod, "pod": "hand"}}),
                ("POST", "/api/pods", {"json": {**line, "id": "hand/1", "pod": pod}}),
                ("POST", "/api/upload-tests", {"json": {"pod": pod, "size": 1, "sha256": "0" * 64}}),
                ("GET", "/api/wakeups", {"params": {"class": "probe/cpu/any", "pod": pod, "wait_s": 0}}),
            ]
            for method, path, sent in ways:
                answer = keyed.client.request(method, path, headers=bearer(key), **sent)
                assert (answer.status_code, answer.json()["code"]) == (403, "foreign_pod"), answer.text
        assert claimed(keyed, key, pod="hand/1") is not None


def test_a_pod_with_a_key_alone_serves_runs_and_leaves_in_time(keyed: Fleet, database: Any) -> None:
    key, key_id = new_key(keyed)
    first = keyed.submit(spec={"seconds": 0.2, "events": 40, "artifact_bytes": 2000})
    worker = keyed.start_worker(mode="experiment", PODFLEET_API_KEY=key, **GONE)
    assert keyed.wait_for(first, "COMPLETED", "FAILED")["status"] == "COMPLETED"
    stored = database.runs.find_one({"_id": first})
    assert [(each["attempt"], each["keyId"]) for each in stored["tokens"]] == [(1, key_id)]
    assert stored["tokens"][0]["endsAt"] is not None
    for path in (f"/api/runs/{first}", "/api/runs", f"/runs/{first}"):
        assert stored["tokens"][0]["hash"] not in keyed.client.get(path).text
    assert len(keyed.client.get(f"/api/runs/{first}/artifacts").json()["items"]) == 1
    assert database.pods.find_one()["keyId"] == key_id
    assert database.dead_letters.count_documents({}) == 0
    # one that is cut off while it works gives the run back, and the next pod goes on
    second = keyed.submit(spec={"seconds": 60})
    keyed.wait_for(second, "RUNNING")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert keyed.wait_for(second, "QUEUED")["failures"]["preempted"] == 1


def test_a_control_plane_that_is_away_costs_a_pod_nothing(
    database_url: str, s3: S3Server, tmp_path: Path
) -> None:
    first, url = start_control_plane(tmp_path, database_url, s3)
    with httpx.Client(base_url=url, trust_env=False, timeout=30.0) as client:
        fleet = Fleet(url, database_url, tmp_path, tmp_path / LOG, client)
        run_id = fleet.submit(spec={"seconds": 4, "events": 200})
        worker = fleet.start_worker("--max-runs", "1", mode="experiment", **GONE)
        fleet.wait_for(run_id, "RUNNING")
        first.kill()
        first.wait()
        port = int(url.rpartition(":")[2])
        second, _ = start_control_plane(tmp_path, database_url, s3, port=port)
        try:
            found = fleet.wait_for(run_id, "COMPLETED", "FAILED")
            assert (found["status"], found["attempt"], found["logIncomplete"]) == ("COMPLETED", 1, None)
            assert worker.wait(60) == 0
        finally:
            for each in (worker, second):
                each.kill()
                each.wait()


def test_a_waiting_pod_hears_of_a_run_at_once(keyed: Fleet) -> None:
    key, _ = new_key(keyed)
    with httpx.Client(base_url=keyed.url, trust_env=False, timeout=30.0, headers=bearer(key)) as pod:
        assert pod.post("/api/claims", json=asked()).json() == {"claim": None}
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(pod.post, "/api/claims", json=asked(wait_s=20))
            elsewhere = threads.submit(
                httpx.post, f"{keyed.url}/api/claims", json=asked(wait_s=1, kinds=["experiment"]),
                headers=bearer(key), timeout=30, trust_env=False,
            )  # fmt: skip
            run_id = keyed.submit()
            assert waiting.result(60).json()["claim"]["runId"] == run_id
            assert elsewhere.result(60).json() == {"claim": None}


def test_a_pod_whose_key_may_not_claim_says_so_and_ends(keyed: Fleet) -> None:
    key, _ = new_key(keyed, "viewer")
    worker = keyed.start_worker(mode="experiment", PODFLEET_API_KEY=key, **GONE)
    assert worker.wait(60) == 2
    log = (keyed.home / "w1.log").read_text()
    assert "PODFLEET_API_KEY" in log
    assert "claim" in log
    assert key not in log


def test_a_stolen_pod_key_reaches_no_run_but_its_own(keyed: Fleet, database: Any) -> None:
    victim, _ = new_key(keyed)
    thief, _ = new_key(keyed)
    run_id = keyed.submit()
    theirs = claimed(keyed, victim)
    assert theirs["runId"] == run_id
    own = keyed.submit()
    mine = claimed(keyed, thief, pod="thief/1")
    assert mine["runId"] == own

    assert send_event(keyed, thief, run_id) == (422, ["forbidden"])
    assert send_event(keyed, thief, SystemIds().ulid()) == (422, ["forbidden"])
    assert send_event(keyed, mine["runToken"], run_id) == (422, ["forbidden"])
    assert send_event(keyed, thief, own) == (202, [])
    assert send_event(keyed, mine["runToken"], own, number=2) == (202, [])
    forged = run_token(run_id, 1, letters(SystemIds().token()))
    assert send_event(keyed, forged, run_id) == (401, ["bad_key"])

    long = make_line(RunLog(message="x" * 2000), sequence=1, run_id=run_id, attempt=1)
    keyed.client.post("/api/ingest/events", content=long, headers={**NDJSON, **bearer(thief)})
    kept = list(database.dead_letters.find({"runId": run_id}))
    assert max(len(each["line"]) for each in kept) == 513
    assert all(29 < (each["expiresAt"] - each["at"]).days < 31 for each in kept)

    for path in (f"/api/runs/{run_id}", "/api/runs", "/api/keys", "/api/audit", "/metrics", "/api/pods"):
        for key in (thief, mine["runToken"]):
            assert keyed.client.get(path, headers=bearer(key)).status_code == 403, path
    for path in (f"/api/runs/{run_id}/cancel", "/api/claims", f"/api/claims/{own}/renew", "/api/runs"):
        assert keyed.client.post(path, json={}, headers=bearer(mine["runToken"])).status_code == 403, path
    for action in ("renew", "settle", "release"):
        for token in (forged, mine["runToken"], theirs["runToken"] + "x", "x"):
            headers = {**bearer(thief), "Podfleet-Run-Token": token}
            body = {"outcome": "failed"} if action == "settle" else {}
            answer = keyed.client.post(f"/api/claims/{run_id}/{action}", json=body, headers=headers)
            assert answer.status_code in (409, 422), (action, answer.text)
    presign = {"name": "a.txt", "size": 1, "sha256": "0" * 64}
    path = f"/api/runs/{run_id}/artifacts/presign"
    many = {"files": [presign, presign | {"name": "b.txt"}]}
    for key in (thief, mine["runToken"]):
        assert keyed.client.post(path, json=presign, headers=bearer(key)).status_code == 403
        assert keyed.client.post(f"{path}/many", json=many, headers=bearer(key)).status_code == 403
    one = keyed.client.post(path, json=presign, headers=bearer(theirs["runToken"]))
    both = keyed.client.post(f"{path}/many", json=many, headers=bearer(theirs["runToken"]))
    assert one.json()["key"] == both.json()["files"][0]["key"]
    assert [each["key"].rpartition("/")[2] for each in both.json()["files"]] == ["a.txt", "b.txt"]
    many["files"][1] |= {"name": "../b.txt"}
    assert keyed.client.post(f"{path}/many", json=many, headers=bearer(theirs["runToken"])).status_code == 422
    done = {"name": "a.txt", "size": 1, "sha256": "0" * 64, "key": one.json()["key"]}
    path = f"/api/runs/{own}/artifacts/complete"
    answer = keyed.client.post(path, json=done, headers=bearer(mine["runToken"]))
    assert (answer.status_code, answer.json()["code"]) == (422, "foreign_key")
    assert database.runs.find_one({"_id": run_id})["lastEventSeq"] == 0


def test_who_waits_with_a_key_that_is_revoked_meanwhile_gets_no_run(
    keyed: Fleet, database: Any, until: Any
) -> None:
    key, key_id = new_key(keyed)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(claimed, keyed, key, wait_s=5)
        until(lambda: database.api_keys.find_one({"_id": key_id})["lastUsedAt"] is not None)
        keyed.client.post(f"/api/keys/{key_id}/revoke")
        untouched = keyed.submit()
        assert waiting.result(60) is None
    assert keyed.run(untouched)["status"] == "QUEUED"
    assert keyed.client.post("/api/claims", json=asked(), headers=bearer(key)).status_code == 401


def test_what_a_revoked_key_had_claimed_ends_whatever_other_key_its_thief_has(
    keyed: Fleet, until: Any
) -> None:
    key, key_id = new_key(keyed)
    other, _ = new_key(keyed)
    run_id = keyed.submit()
    token = claimed(keyed, key)["runToken"]
    headers = {**bearer(other), "Podfleet-Run-Token": token}

    def codes(path: str, **sent: str) -> tuple[int, str | None]:
        answer = keyed.client.post(f"/api/{path}", headers=sent)
        return answer.status_code, answer.json().get("code")

    renewing, own = (
        f"claims/{run_id}/renew",
        (f"runs/{run_id}/secrets", f"runs/{run_id}/artifacts/checkpoints"),
    )
    assert codes(renewing, **headers) == (200, None)  # as a pod does whose key was rotated
    assert [codes(each, **bearer(token)) for each in own] == [(200, None)] * 2
    keyed.client.post(f"/api/keys/{key_id}/revoke")
    until(lambda: codes(renewing, **headers) == (409, "lease_lost"))
    assert [codes(each, **bearer(token)) for each in own] == [(409, "lease_lost")] * 2
    assert send_event(keyed, token, run_id) == (202, [])  # what was said before still arrives


def test_a_pod_is_known_by_the_key_that_it_reported_with(keyed: Fleet) -> None:
    victim, _ = new_key(keyed)
    thief, _ = new_key(keyed)
    line = {
        "id": "p/1", "pod": "p", "mode": "hybrid", "kinds": ["probe"], "state": "idle", "version": "0",
        "capabilities": {"cpus": 1, "memoryMib": 1.0}, "telemetry": {"memoryMib": 1.0},
        "startedAt": "2026-11-22T10:00:00Z",
    }  # fmt: skip
    for key, status in ((victim, 200), (thief, 403), (victim, 200)):
        answer = keyed.client.post("/api/pods", json=line, headers=bearer(key))
        assert answer.status_code == status, answer.text
    keyed.submit()
    body = asked(pod="p/1")
    assert keyed.client.post("/api/claims", json=body, headers=bearer(thief)).status_code == 403
    assert claimed(keyed, victim, pod="p/1")["attempt"] == 1
    strange = {**line, "id": "p/2", "capabilities": {"cpus": 1, "memoryMib": 1.0, "$where": "x"}}
    answer = keyed.client.post("/api/pods", json=strange, headers=bearer(victim))
    assert answer.status_code == 422
    assert len(keyed.client.get("/api/pods").json()["items"]) == 1


def test_the_token_of_an_attempt_that_is_over_opens_its_log_for_a_week(
    keyed: Fleet, database: Any, until: Any
) -> None:
    key, _ = new_key(keyed)
    run_id = keyed.submit()
    first = claimed(keyed, key)
    headers = {**bearer(key), "Podfleet-Run-Token": first["runToken"]}
    answer = keyed.client.post(f"/api/claims/{run_id}/release", json={"last": 2}, headers=headers)
    assert answer.json() == {"settled": True}
    second = claimed(keyed, key)
    assert (second["runId"], second["attempt"]) == (run_id, 2)
    # the zombie may still say what it had to say, of its own attempt, and has no other right left
    assert send_event(keyed, first["runToken"], run_id, 1, 1) == (202, [])
    assert send_event(keyed, first["runToken"], run_id, 2, 1) == (422, ["forbidden"])
    presign = {"name": "a.txt", "size": 1, "sha256": "0" * 64}
    path = f"/api/runs/{run_id}/artifacts/presign"
    answer = keyed.client.post(path, json=presign, headers=bearer(first["runToken"]))
    assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost")
    assert keyed.client.post(f"/api/claims/{run_id}/renew", headers=headers).status_code == 409
    database.runs.update_one(
        {"_id": run_id, "tokens.attempt": 1}, [{"$set": {"tokens": {"$map": {
            "input": "$tokens", "in": {"$mergeObjects": ["$$this", {"endsAt": {"$cond": [
                {"$eq": ["$$this.attempt", 1]}, "$$NOW", None]}}]}}}}}],
    )  # fmt: skip
    until(lambda: send_event(keyed, first["runToken"], run_id, 1, 2) == (401, ["bad_key"]))
    assert send_event(keyed, second["runToken"], run_id, 2, 1) == (202, [])
