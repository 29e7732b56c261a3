"""Keys over real HTTP: what each may do, and when it ends, at every replica."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.keys import SCOPES, id_of
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import start_control_plane

ROOT_KEY = "a-key-of-the-test"
keyed = pytest.mark.common_fleet(key=ROOT_KEY)


@pytest.fixture
def root(keyed_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=keyed_url, headers={"authorization": f"Bearer {ROOT_KEY}"}) as client:
        yield client


def made(root: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = root.post("/api/keys", json={"kind": "viewer", "name": "vera", **body})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def status(url: str, key: str, path: str = "/api/runs") -> int:
    return httpx.get(url + path, headers={"authorization": f"Bearer {key}"}).status_code


@keyed
def test_a_key_is_shown_once_stored_as_a_hash_and_does_what_its_kind_may(
    root: httpx.Client, keyed_url: str, database: Any
) -> None:
    for kind, scopes in SCOPES.items():
        key = made(root, kind=kind, name=f"{kind} of Vera")
        assert set(key["scopes"]) == scopes
        asked = {
            "read": ("GET", "/api/runs", None),
            "submit": ("POST", "/api/runs", {"kind": "probe"}),
            "review": ("POST", "/api/runs/none/review", {"verdict": "pass"}),
            "ingest": ("POST", "/api/ingest/event", {}),
            "admin": ("POST", "/api/pods/none/drain", None),
        }
        for scope, (method, path, body) in asked.items():
            headers = {"authorization": f"Bearer {key['key']}"}
            answer = httpx.request(method, keyed_url + path, json=body, headers=headers)
            assert (answer.status_code != 403) == (scope in scopes), (kind, scope, answer.text)
        assert root.get(f"/api/keys/{key['id']}").json()["lastUsedAt"] is not None
    listed = root.get("/api/keys").text
    stored = str(list(database.api_keys.find()))
    assert (key["key"] in listed, "hash" in listed, key["key"] in stored) == (False, False, False)
    assert id_of(key["key"]) in listed
    assert root.get("/api/keys", params={"limit": 2}).json()["next"]


@keyed
def test_a_narrow_key_may_do_no_more_and_its_kind_bounds_it(root: httpx.Client, keyed_url: str) -> None:
    narrow = made(root, kind="operator", scopes=["read"])
    headers = {"authorization": f"Bearer {narrow['key']}"}
    assert httpx.post(f"{keyed_url}/api/runs", json={"kind": "probe"}, headers=headers).status_code == 403
    wide = root.post("/api/keys", json={"kind": "viewer", "name": "v", "scopes": ["admin"]})
    assert (wide.status_code, wide.json()["code"]) == (422, "foreign_scope")
    for body in ({"name": "x"}, {"kind": "root", "name": "x"}, {"kind": "pod", "name": " "}, {"kind": "pod"}):
        assert root.post("/api/keys", json=body).status_code == 422
    assert root.post("/api/keys/nobody/revoke").status_code == 404


@keyed
@pytest.mark.parametrize(
    "is_idle",
    [False, pytest.param(True, marks=pytest.mark.long("a stream that has something to tell ends, too"))],
)
def test_a_revoked_key_opens_nothing_at_any_replica_within_seconds(
    root: httpx.Client, keyed_url: str, database_url: str, s3: Any, tmp_path: Path, until: Any, is_idle: bool
) -> None:
    key = made(root, kind="viewer")["key"]
    (tmp_path / "other").mkdir()
    process, other = start_control_plane(tmp_path / "other", database_url, s3, PODFLEET_API_KEY=ROOT_KEY)
    with ExitStack() as stack:
        stack.callback(process.wait, 15)
        stack.callback(process.terminate)
        assert [status(url, key) for url in (keyed_url, other)] == [200, 200]
        told = stack.enter_context(httpx.Client(base_url=other, headers={"authorization": f"Bearer {key}"}))
        stream = stack.enter_context(told.stream("GET", "/api/stream", timeout=20))
        assert stream.status_code == 200
        assert root.post(f"/api/keys/{id_of(key)}/revoke").json()["revokedBy"] == "root"
        assert status(keyed_url, key) == 401, "at once where it was revoked"
        until(lambda: status(other, key) == 401, 5)
        assert httpx.get(f"{other}/api/runs", headers={"authorization": f"Bearer {key}"}).json()["code"] == (
            "key_over"
        )
        unheard = [] if is_idle else [root.post("/api/runs", json={"kind": "probe"}).json()["id"]]
        told_until_the_end = "".join(stream.iter_lines())
        assert told_until_the_end, "what it was told before; and then the end"
        assert not any(each in told_until_the_end for each in unheard)


@keyed
def test_a_rotated_key_opens_beside_its_successor_until_the_overlap_is_over(
    root: httpx.Client, keyed_url: str, until: Any
) -> None:
    old = made(root, kind="operator", scopes=["read"], life_s=3600)
    new = root.post(f"/api/keys/{old['id']}/rotate", json={"overlap_s": 3}).json()
    assert (new["kind"], new["name"], new["scopes"]) == ("operator", "vera", ["read"])
    assert [status(keyed_url, each["key"]) for each in (old, new)] == [200, 200]
    again = root.post(f"/api/keys/{old['id']}/rotate")
    assert (again.status_code, new["id"] in again.json()["detail"]) == (409, True)
    until(lambda: status(keyed_url, old["key"]) == 401, 8)
    assert status(keyed_url, new["key"]) == 200


def test_nobody_listens_beyond_loopback_without_a_key_unless_told_so_in_words(
    database_url: str, s3: Any, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="there is no key yet"):
        start_control_plane(tmp_path, database_url, s3, host="0.0.0.0")  # noqa: S104 - what is refused
    process, url = start_control_plane(
        tmp_path, database_url, s3, host="0.0.0.0", trust="everybody"  # noqa: S104 - told so in words
    )  # fmt: skip
    try:
        assert httpx.get(f"{url}/api/runs", headers={"host": "fleet.example"}).status_code == 200
    finally:
        process.terminate()
        process.wait(15)


def test_a_key_that_was_made_without_a_control_plane_closes_the_door_of_loopback(
    fleet: Any, tmp_path: Path, until: Any
) -> None:
    url = str(fleet.client.base_url).rstrip("/")
    assert httpx.get(f"{url}/api/runs").status_code == 200
    options = ["keys", "create", "boss", "--kind", "admin", "--direct"]
    environment = {"PATH": "", "MONGODB_URL": fleet.database_url}
    done = run_program([*PROGRAM, *options], env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    key = done.stdout.strip()
    assert id_of(key) in done.stderr
    until(lambda: httpx.get(f"{url}/api/runs").status_code == 401, 10)
    assert status(url, key) == 200
    wrong = key[:-1] + ("0" if key[-1] != "0" else "1")
    assert status(url, wrong) == 401


def test_only_a_listed_site_may_read_answers_through_a_browser(
    database_url: str, s3: Any, tmp_path: Path
) -> None:
    listed, other = "https://dashboard.example", "https://evil.example"
    process, url = start_control_plane(
        tmp_path, database_url, s3, PODFLEET_API_KEY=ROOT_KEY, PODFLEET_ORIGINS=listed
    )
    key = {"authorization": f"Bearer {ROOT_KEY}"}
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    try:
        for origin, said in ((listed, listed), (other, None)):
            headers = {"origin": origin}
            asked = httpx.options(f"{url}/api/runs", headers={**headers, **preflight}, trust_env=False)
            read = httpx.get(f"{url}/api/runs", headers={**headers, **key}, trust_env=False)
            for answer in (asked, read):
                assert answer.headers.get("access-control-allow-origin") == said
                assert "access-control-allow-credentials" not in answer.headers
            assert httpx.get(f"{url}/api/runs", headers=headers, trust_env=False).status_code == 401
    finally:
        process.kill()
        process.wait()
