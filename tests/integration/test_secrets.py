"""Secrets by name: who sets, names and gets them, and where a value is found when all is searched."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest
from minio import Minio
from pymongo import MongoClient

from events.delivery.control_plane_client import bearer
from events.text.secret_names import VALUE_BYTES_MAX
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import SECRETS_KEY, Fleet, local_client, start_control_plane
from tests.integration.test_pods_without_database import GONE, asked
from tests.servers import S3Server

ROOT_KEY: Final = "the-key-of-the-test"
MARKER: Final = "marker-of-a-secret-0123456789"
pytestmark = pytest.mark.common_fleet(key=ROOT_KEY)
Until = Callable[..., None]


def set_secret(fleet: Fleet, name: str = "API_KEY", value: str = MARKER, **lists: Any) -> None:
    answer = fleet.client.put(f"/api/secrets/{name}", json={"value": value, **lists})
    assert answer.status_code in (200, 201), answer.text
    assert value not in answer.text


def key_of(fleet: Fleet, kind: str, name: str = "test") -> str:
    return str(fleet.client.post("/api/keys", json={"kind": kind, "name": name}).json()["key"])


def claimed(fleet: Fleet, key: str) -> dict[str, Any]:
    """Claim the next run with the key of a pod."""
    answer = fleet.client.post("/api/claims", json=asked(), headers=bearer(key))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["claim"]
    return found


def fetched(fleet: Fleet, run_id: str, token: str) -> httpx.Response:
    return fleet.client.post(f"/api/runs/{run_id}/secrets", headers=bearer(token))


def codes(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_an_admin_sets_and_removes_what_others_see_by_name_only(fleet: Fleet) -> None:
    set_secret(fleet, keys=["ann"], kinds=["probe"])
    set_secret(fleet, value="another value")
    viewer, operator = bearer(key_of(fleet, "viewer")), bearer(key_of(fleet, "operator"))
    (shown,) = fleet.client.get("/api/secrets", headers=viewer).json()["items"]
    assert shown.keys() == {"id", "kinds", "keys", "setBy", "setAt", "createdAt", "keyId"}
    assert (shown["id"], shown["keys"], shown["kinds"], shown["setBy"]) == (
        "API_KEY", ["ann"], ["probe"], "root",
    )  # fmt: skip
    for method, path in (("PUT", "/api/secrets/X"), ("DELETE", "/api/secrets/API_KEY")):
        body = {"json": {"value": "x"}} if method == "PUT" else {}
        assert codes(fleet.client.request(method, path, headers=operator, **body)) == (403, "missing_scope")
    assert fleet.client.post("/api/secret-rotations").json() == {
        "keyId": shown["keyId"], "count": 0, "unreadable": [],
    }  # fmt: skip
    assert fleet.client.delete("/api/secrets/API_KEY").status_code == 204
    assert codes(fleet.client.delete("/api/secrets/API_KEY")) == (404, "unknown_secret")
    entries = fleet.client.get("/api/audit", params={"object": "secret/API_KEY"}).json()["items"]
    assert [each["action"] for each in entries if each["status"] < 300] == [
        "DELETE /api/secrets/{secret_id}", "PUT /api/secrets/{secret_id}", "PUT /api/secrets/{secret_id}",
    ]  # fmt: skip
    assert MARKER not in str(entries)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("LD_PRELOAD", {"value": MARKER}),
        ("PODFLEET_API_KEY", {"value": MARKER}),
        ("A-B", {"value": MARKER}),
        ("A", {"value": MARKER * (VALUE_BYTES_MAX // len(MARKER) + 1)}),
        ("A", {"value": f"{MARKER}\0"}),
        ("A", {"value": [MARKER]}),
        ("A", {"value": MARKER, "kinds": ["x"] * 101}),
        ("A", {"value": MARKER, "more": MARKER}),
        ("A", {}),
    ],
)
def test_what_is_no_secret_is_refused_without_quoting_it(
    fleet: Fleet, name: str, body: dict[str, Any]
) -> None:
    answer = fleet.client.put(f"/api/secrets/{name}", json=body)
    assert answer.status_code == 422, answer.text
    assert MARKER not in answer.text
    assert fleet.client.get("/api/secrets").json()["items"] == []


def test_a_run_names_what_its_submitter_may_name(fleet: Fleet) -> None:
    ann, bob = (bearer(key_of(fleet, "operator", name)) for name in ("ann", "bob"))
    set_secret(fleet, "FOR_ALL")
    set_secret(fleet, "FOR_ANN", keys=["ann"])
    set_secret(fleet, "FOR_PAPERS", kinds=["experiment"])

    def submit(headers: dict[str, str], *names: str, **params: Any) -> httpx.Response:
        body = {"kind": "probe", "secrets": list(names)}
        return fleet.client.post("/api/runs", json=body, headers=headers, params=params)

    made = submit(ann, "FOR_ANN", "FOR_ALL")
    assert (made.status_code, made.json()["secrets"]) == (201, ["FOR_ALL", "FOR_ANN"])
    for dry in ({}, {"dry_run": "true"}):
        assert codes(submit(bob, "FOR_ANN", **dry)) == (403, "foreign_secret")
        assert codes(submit(ann, "FOR_PAPERS", **dry)) == (403, "foreign_secret")
        assert codes(submit(ann, "NOBODYS", **dry)) == (422, "unknown_secret")
        assert submit(ann, "PATH", **dry).status_code == 422
        assert submit(ann, *(f"A{number}" for number in range(33)), **dry).status_code == 422

    run_id = made.json()["id"]
    assert fleet.client.post(f"/api/runs/{run_id}/cancel").status_code == 200
    path = f"/api/runs/{run_id}/retry"
    assert codes(fleet.client.post(path, headers=bob)) == (403, "foreign_secret")
    again = fleet.client.post(path, headers=ann)
    assert (again.status_code, again.json()["secrets"]) == (201, ["FOR_ALL", "FOR_ANN"])

    schedule = {"id": "nightly", "cron": "0 3 * * *", "run": {"kind": "probe", "secrets": ["FOR_ANN"]}}
    assert codes(fleet.client.post("/api/schedules", json=schedule, headers=bob)) == (403, "foreign_secret")
    assert fleet.client.post("/api/schedules", json=schedule, headers=ann).status_code == 201
    fired = fleet.client.post("/api/schedules/nightly/run", headers=bob).json()
    assert fired["secrets"] == ["FOR_ANN"], "its author named them"
    set_secret(fleet, "FOR_ANN", keys=["carl"])
    fired_again = fleet.client.post("/api/schedules/nightly/run", headers=bob)
    assert codes(fired_again) == (403, "foreign_secret")


def test_hypotheses_and_launches_name_what_their_key_may_name(fleet: Fleet) -> None:
    ann, bob = (bearer(key_of(fleet, "operator", name)) for name in ("ann", "bob"))
    set_secret(fleet, "FOR_ANN", keys=["ann"])
    named = {"secrets": ["FOR_ANN"]}
    body = {"title": "t", "idea": "Dropout improves accuracy on iris", **named}
    for wanted in (body, {**body, "enable_ideation": True}):
        for headers, names, expected in (
            (bob, ["FOR_ANN"], (403, "foreign_secret")),
            (ann, ["NOBODYS"], (422, "unknown_secret")),
            (ann, ["PATH"], (422, "bad_secret_name")),
        ):
            refused = fleet.client.post("/api/hypotheses", json={**wanted, "secrets": names}, headers=headers)
            assert codes(refused) == expected
    assert fleet.client.get("/api/hypotheses").json()["items"] == [], "nothing is stored of what is refused"
    made = fleet.client.post("/api/hypotheses", json=body, headers=ann).json()
    asked_for = fleet.client.post(
        "/api/hypotheses", json={**body, "enable_ideation": True}, headers=ann
    ).json()
    path = f"/api/hypotheses/{made['id']}/runs"
    assert codes(fleet.client.post(path, json=named, headers=bob)) == (403, "foreign_secret")
    launched = fleet.client.post(path, json=named, headers=ann).json()
    for run_id in (made["run_id"], launched["id"], asked_for["ideation_request_id"]):
        assert fleet.run(run_id)["secrets"] == ["FOR_ANN"]
    assert fleet.client.post(path, json={}, headers=bob).json().get("secrets", []) == []


def test_only_the_attempt_that_holds_the_run_gets_the_values(fleet: Fleet) -> None:
    set_secret(fleet)
    set_secret(fleet, "GONE")
    run_id = fleet.submit("probe", secrets=["API_KEY", "GONE"])
    key = key_of(fleet, "pod")
    claim = claimed(fleet, key)
    assert (claim["runId"], claim["secrets"]) == (run_id, ["API_KEY", "GONE"])
    token = claim["runToken"]
    got = fetched(fleet, run_id, token)
    assert (got.status_code, got.headers["cache-control"]) == (200, "no-store")
    assert got.json() == {"values": {"API_KEY": MARKER, "GONE": MARKER}, "missing": []}
    assert fleet.client.delete("/api/secrets/GONE").status_code == 204
    assert fetched(fleet, run_id, token).json() == {"values": {"API_KEY": MARKER}, "missing": ["GONE"]}

    other_id = fleet.submit("probe")
    other = claimed(fleet, key)["runToken"]
    assert fetched(fleet, other_id, other).json() == {"values": {}, "missing": []}
    assert fleet.client.post(f"/api/runs/{other_id}/cancel").json()["status"] == "CANCELING"
    assert codes(fetched(fleet, other_id, other)) == (503, "being_canceled")
    assert codes(fetched(fleet, run_id, other)) == (403, "foreign_run")
    assert codes(fetched(fleet, run_id, key)) == (403, "foreign_run")
    assert codes(fetched(fleet, run_id, ROOT_KEY)) == (403, "foreign_run")
    assert codes(fetched(fleet, run_id, token[:-1] + ("0" if token[-1] != "0" else "1"))) == (401, "bad_key")

    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        runs = client.get_default_database()["runs"]
        lease = runs.find_one({"_id": run_id}, {"lease": 1})
        assert lease is not None
        over = lease["lease"]["until"] - timedelta(days=1)
        runs.update_one({"_id": run_id}, {"$set": {"lease.until": over}})
        assert codes(fetched(fleet, run_id, token)) == (503, "lease_over")
    headers = {**bearer(key), "Podfleet-Run-Token": token}
    assert fleet.client.post(f"/api/claims/{run_id}/release", json={}, headers=headers).status_code == 200
    assert codes(fetched(fleet, run_id, token)) == (409, "lease_lost")
    assert claimed(fleet, key)["runId"] == run_id
    assert codes(fetched(fleet, run_id, token)) == (409, "lease_lost"), "a later attempt has the run"
    told = fleet.client.get("/api/audit", params={"object": f"run/{run_id}", "limit": 200}).json()["items"]
    fetches = [each for each in told if each["action"] == "POST /api/runs/{run_id}/secrets"]
    assert [each["status"] for each in fetches] == [409, 409, 503, 403, 403, 403, 200, 200]
    assert fetches[-1]["by"] == f"{run_id}/a1"
    assert MARKER not in str(told)


def test_a_value_that_was_moved_to_another_name_is_no_value(fleet: Fleet) -> None:
    set_secret(fleet, "MINE")
    set_secret(fleet, "OTHERS", "a value of somebody else")
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        secrets = client.get_default_database()["secrets"]
        others = secrets.find_one({"_id": "OTHERS"})
        assert others is not None
        secrets.update_one({"_id": "MINE"}, {"$set": {"sealed": others["sealed"]}})
    run_id = fleet.submit("probe", secrets=["MINE"])
    token = claimed(fleet, key_of(fleet, "pod"))["runToken"]
    assert fetched(fleet, run_id, token).json() == {"values": {}, "missing": ["MINE"]}


def test_keys_for_secrets_are_rotated_and_without_one_people_are_told_what_to_set(
    fleet: Fleet, s3: S3Server, tmp_path: Path
) -> None:
    set_secret(fleet)
    run_id = fleet.submit("probe", secrets=["API_KEY"])
    claim = claimed(fleet, key_of(fleet, "pod"))
    new = b64encode(bytes(32)).decode()
    for keys, status in (("", 503), (f"{new},{SECRETS_KEY}", 200)):
        values = {"PODFLEET_API_KEY": ROOT_KEY, "PODFLEET_SECRETS_KEY": keys}
        process, url = start_control_plane(tmp_path, fleet.database_url, s3, **values)
        try:
            with local_client(url, headers=bearer(ROOT_KEY)) as client:
                path = f"/api/runs/{run_id}/secrets"
                answer = client.post(path, headers=bearer(claim["runToken"]))
                assert answer.status_code == status, answer.text
                if keys == "":
                    refused = client.put("/api/secrets/OTHER", json={"value": MARKER})
                    assert (codes(refused), "PODFLEET_SECRETS_KEY" in refused.text) == (
                        (409, "no_secrets_key"), True,
                    )  # fmt: skip
                else:
                    done = client.post("/api/secret-rotations").json()
                    assert (done["count"], done["unreadable"]) == (1, [])
        finally:
            process.kill()
            process.wait()
    assert fetched(fleet, run_id, claim["runToken"]).status_code == 503, "the old key cannot read it any more"


def test_the_command_takes_a_value_from_a_pipe_or_a_file_and_prints_none(
    fleet: Fleet, tmp_path: Path
) -> None:
    values = {**os.environ, "CONTROL_PLANE_URL": fleet.url, "PODFLEET_API_KEY": ROOT_KEY}  # noqa: TID251 - as a shell does
    (tmp_path / "value").write_text(f"{MARKER}\n")

    def run(*words: str, given: str | None = None) -> tuple[int, str]:
        program = [*PROGRAM, "secrets", *words]
        if given is None:
            answer = run_program(program, env=values, cwd=tmp_path)
        else:
            answer = subprocess.run(
                [sys.executable, *program], env=values, cwd=tmp_path, input=given, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
        assert MARKER not in answer.stdout + answer.stderr
        return answer.returncode, answer.stdout + answer.stderr

    assert run("set", "API_KEY", "--key", "ann", given=f"{MARKER}\n") == (
        0, "API_KEY is set, for kinds: all; keys: ann\n",
    )  # fmt: skip
    assert run("set", "API_KEY", "--file", "value")[0] == 0
    assert run("set", "LD_PRELOAD", "--file", "value")[0] == 2
    assert run("set", "API_KEY")[0] == 2, "an empty value"
    assert run("set", "API_KEY", "--file", "none")[0] == 2
    assert run("list", "--ids")[1] == "API_KEY\n"
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        stored = client.get_default_database()["secrets"].find_one({"_id": "API_KEY"})
    assert stored is not None
    assert len(stored["sealed"]) == 12 + len(MARKER) + 16, "without the end of the line"
    assert run("rotate")[1].startswith("0 secrets were encrypted anew")
    assert run("remove", "API_KEY") == (0, "API_KEY is removed\n")
    assert run("remove", "API_KEY")[0] == 1


def commands(worker: int) -> bytes:
    """Return all command lines, and what is shown of the environments of a worker's processes."""
    processes = [psutil.Process(worker), *psutil.Process(worker).children(recursive=True)]
    found = []
    for each in (
        *Path("/proc").glob("[0-9]*/cmdline"),
        *(Path(f"/proc/{process.pid}/environ") for process in processes),
    ):
        with suppress(OSError):  # it has ended
            found.append(each.read_bytes())
    return b"\n".join(found)


def named_elsewhere(fleet: Fleet) -> list[str]:
    """Name a secret at the other doors, for a pod that is not there; return pages of what came of it."""
    options = {"secrets": ["API_KEY"], "requires": {"pod": "nobody"}}
    hypothesis = {"title": "t", "idea": "Dropout improves accuracy on iris", **options}
    made = fleet.client.post("/api/hypotheses", json=hypothesis).json()
    launched = fleet.client.post(f"/api/hypotheses/{made['id']}/runs", json=options).json()
    ideas = fleet.client.post("/api/hypotheses", json={**hypothesis, "enable_ideation": True}).json()
    schedule = {"id": "never", "cron": "0 0 29 2 *", "run": {"kind": "probe", **options}}
    assert fleet.client.post("/api/schedules", json=schedule).status_code == 201
    group = {
        "id": "pairs", "paused": True, "run": {"kind": "probe", **options},
        "plan": {"kind": "matrix", "values": {"seconds": [1, 2]}, "parallel": 1},
    }  # fmt: skip
    answer = fleet.client.post("/api/groups", json=group)
    assert answer.status_code == 201, answer.text
    runs = [made["run_id"], launched["id"], ideas["ideation_request_id"]]
    assert all(fleet.run(each)["secrets"] == ["API_KEY"] for each in runs)
    pages = [f"/hypotheses/{made['id']}", f"/runs/new?like={launched['id']}", f"/runs/{runs[0]}/change"]
    return [*pages, "/schedules/never", "/schedules/never/edit", "/groups/pairs", "/api/groups/pairs"]


@pytest.mark.parametrize("way", [{}, GONE], ids=["direct", "over HTTP"])
def test_a_value_is_found_nowhere_but_encrypted(
    fleet: Fleet, s3: S3Server, way: dict[str, str], until: Until
) -> None:
    set_secret(fleet)
    typed = {"kind": "probe", "do": "submit", "secrets": "API_KEY", "spec.seconds": "2"}
    run_id = fleet.client.post("/runs/new", data=typed).headers["location"].rpartition("/")[2]
    named = named_elsewhere(fleet)
    key = {"PODFLEET_API_KEY": key_of(fleet, "pod")}
    worker = fleet.start_worker("--max-runs", "2", name="pod", **key, **way)
    until(lambda: fleet.run(run_id)["startedAt"], 60)
    assert MARKER.encode() not in commands(worker.pid)
    assert fleet.wait_for(run_id, "COMPLETED")["error"] is None
    fetches = fleet.client.get("/api/audit", params={"object": f"run/{run_id}"}).json()["items"]
    assert [each["status"] for each in fetches] == [200]
    doomed = fleet.submit("probe", max_attempts=1, secrets=["API_KEY"])
    fleet.client.delete("/api/secrets/API_KEY")
    until(lambda: fleet.run(doomed)["error"], 60)
    error = fleet.run(doomed)["error"]
    assert (error["code"], error["fault"]) == ("SECRET_MISSING", "outside")

    set_secret(fleet)
    found: dict[str, bytes] = {}
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        db = client.get_default_database()
        for name in db.list_collection_names():
            found[name] = "\n".join(map(str, db[name].find())).encode()
        stored = db["secrets"].find_one({"_id": "API_KEY"})
    assert stored is not None
    assert len(stored["sealed"]) == 12 + len(MARKER) + 16
    storage = Minio(
        s3.endpoint.rpartition("/")[2], access_key=s3.access_key, secret_key=s3.secret_key, secure=False,
        region=s3.region,
    )  # fmt: skip
    for each in storage.list_objects(s3.bucket, prefix=f"runs/{run_id}", recursive=True):
        with storage.get_object(s3.bucket, str(each.object_name)) as stream:
            found[str(each.object_name)] = stream.read()
    found |= {str(each): each.read_bytes() for each in fleet.home.rglob("*") if each.is_file()}
    found["control plane"] = fleet.log.read_bytes()
    refused = fleet.client.post(f"/runs/{run_id}/retry", data={"priority": "1e9", "secrets": "API_KEY"})
    assert refused.status_code == 422
    found["a retry that was refused"] = refused.content
    for page in (
        *named,
        "/",
        f"/runs/new?like={run_id}",
        f"/runs/{run_id}/spec",
        "/secrets",
        f"/runs/{run_id}",
        f"/runs/{doomed}",
        "/api/secrets",
        f"/api/runs/{run_id}",
    ):
        found[page] = fleet.client.get(page).content
    assert {"runs", "events", "secrets", str(fleet.home / "pod.log")} <= found.keys()
    assert [place for place, content in found.items() if MARKER.encode() in content] == []
    assert b"API_KEY" in found["/secrets"]


def test_the_page_sets_and_removes_and_says_which_runs_wait(fleet: Fleet) -> None:
    form = {"name": "API_KEY", "value": MARKER, "kinds": "probe", "keys": ""}
    wrong = fleet.client.post("/secrets", data={**form, "name": "PATH"})
    assert (wrong.status_code, MARKER in wrong.text) == (422, False)
    assert fleet.client.post("/secrets", data=form).status_code == 303
    run_id = fleet.submit("probe", secrets=["API_KEY"])
    shown = fleet.client.get("/secrets").text
    assert f"/runs/{run_id}" in shown
    assert MARKER not in shown
    assert fleet.client.post("/secrets", data={**form, "kinds": "*"}).status_code == 303
    assert fleet.client.get("/api/secrets").json()["items"][0]["kinds"] == []
    reader = fleet.client.get("/secrets", headers=bearer(key_of(fleet, "viewer"))).text
    assert 'name="value"' not in reader
    assert fleet.client.post("/secrets/API_KEY/remove").status_code == 303
    assert fleet.client.get("/api/secrets").json()["items"] == []
