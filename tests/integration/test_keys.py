"""Keys over real HTTP: what each may do, and when it ends, at every replica."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane.access.cookies import COOKIE
from control_plane.access.keys import SCOPES, id_of
from control_plane.access.sessions import LINK_LIFE
from control_plane.store import database as store
from control_plane.store.access.sessions import Sessions
from events.runtime.access import FILE, Access, noted
from events.runtime.clock import SystemClock
from podfleet.embedded.private_file import replace_private
from tests.fork_server import run_program, start_program
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
        stream = stack.enter_context(told.stream("GET", "/api/stream", timeout=60))
        assert stream.status_code == 200
        assert root.post(f"/api/keys/{id_of(key)}/revoke").json()["revokedBy"] == "root"
        assert status(keyed_url, key) == 401, "at once where it was revoked"
        until(lambda: status(other, key) == 401)
        assert httpx.get(f"{other}/api/runs", headers={"authorization": f"Bearer {key}"}).json()["code"] == (
            "key_over"
        )
        unheard = [] if is_idle else [root.post("/api/runs", json={"kind": "probe"}).json()["id"]]
        told_until_the_end = "".join(stream.iter_lines())
        assert told_until_the_end, "what it was told before; and then the end"
        assert not any(each in told_until_the_end for each in unheard)


@keyed
def test_a_rotated_key_opens_beside_its_successor_until_the_overlap_is_over(
    root: httpx.Client, keyed_url: str, database: Any, until: Any
) -> None:
    old = made(root, kind="operator", scopes=["read"], life_s=3600)
    new = root.post(f"/api/keys/{old['id']}/rotate", json={"overlap_s": 600}).json()
    assert (new["kind"], new["name"], new["scopes"]) == ("operator", "vera", ["read"])
    assert [status(keyed_url, each["key"]) for each in (old, new)] == [200, 200]
    again = root.post(f"/api/keys/{old['id']}/rotate")
    assert (again.status_code, new["id"] in again.json()["detail"]) == (409, True)
    ends = database.api_keys.find_one({"_id": old["id"]})["endsAt"]
    database.api_keys.update_one({"_id": old["id"]}, {"$set": {"endsAt": ends - timedelta(seconds=600)}})
    until(lambda: status(keyed_url, old["key"]) == 401)
    assert status(keyed_url, new["key"]) == 200


def test_nobody_listens_without_a_key_unless_told_so_in_words_and_never_beyond_loopback(
    database_url: str, s3: Any, tmp_path: Path
) -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - what is refused
    for host in (everywhere, "127.0.0.1"):
        with pytest.raises(AssertionError, match="there is no key yet"):
            start_control_plane(tmp_path, database_url, s3, host=host, keyless=False)
    with pytest.raises(AssertionError, match="--keyless is for a machine of one's own"):
        start_control_plane(tmp_path, database_url, s3, host=everywhere)


def test_a_proxy_that_shows_itself_ends_keyless_work(database_url: str, s3: Any, tmp_path: Path) -> None:
    process, url = start_control_plane(tmp_path, database_url, s3)
    try:
        assert httpx.get(f"{url}/api/runs").status_code == 200
        assert httpx.get(f"{url}/api/runs", headers={"x-forwarded-for": "8.8.8.8"}).status_code == 401
        later = httpx.post(f"{url}/api/keys", json={"kind": "admin", "name": "stranger"})
        assert (later.status_code, later.json()["code"]) == (401, "no_key")
    finally:
        process.terminate()
        process.wait(60)


@keyed
def test_a_link_signs_one_browser_in_once(root: httpx.Client, keyed_url: str) -> None:
    viewer = made(root, kind="viewer")["key"]
    with httpx.Client(base_url=keyed_url, headers={"authorization": f"Bearer {viewer}"}) as client:
        path = client.post("/api/signin-links").json()["path"]
    led = httpx.get(f"{keyed_url}{path}", headers={"sec-fetch-site": "cross-site"})
    assert (led.status_code, "set-cookie" in led.headers) == (401, False), (
        "nobody is signed in by another page"
    )
    looked = httpx.head(f"{keyed_url}{path}")
    assert (looked.status_code, "set-cookie" in looked.headers) == (200, False), "a look uses nothing up"
    entered = httpx.get(f"{keyed_url}{path}&to=/runs")
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs")
    assert (entered.headers["referrer-policy"], entered.headers["cache-control"]) == (
        "no-referrer",
        "no-store",
    )
    cookie = entered.headers["set-cookie"].partition(";")[0]
    assert httpx.get(f"{keyed_url}/api/runs", headers={"cookie": cookie}).status_code == 200
    assert httpx.get(f"{keyed_url}/api/keys", headers={"cookie": cookie}).status_code == 403, "as its key"
    again = httpx.get(f"{keyed_url}{path}")
    assert (again.status_code, "set-cookie" in again.headers) == (401, False)
    assert "podfleet signin" in again.text
    token = path.partition("=")[2]
    as_session = {"cookie": f"{COOKIE}={token}"}
    assert httpx.get(f"{keyed_url}/api/runs", headers=as_session).status_code == 401
    assert httpx.post(f"{keyed_url}/api/signin-links").status_code == 401
    assert httpx.post(f"{keyed_url}/api/signin-links", headers={"cookie": cookie}).status_code == 403
    assert httpx.get(f"{keyed_url}/signin/once").status_code == 401


@keyed
@pytest.mark.parametrize("wrong", ["", "2", "h", "-1h", "0h", "2 weeks", "1.5h", "٢h", "9999999999d"])
def test_a_key_may_be_short_lived(keyed_url: str, tmp_path: Path, until: Any, wrong: str) -> None:
    def create(life: str) -> Any:
        words = ["keys", "create", "pod-7", "--kind", "pod", "--expires", life, "--json"]
        env = {"PATH": "", "CONTROL_PLANE_URL": keyed_url, "PODFLEET_API_KEY": ROOT_KEY}
        return run_program([*PROGRAM, *words], env=env, cwd=tmp_path)

    refused = create(wrong)
    assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
    if wrong:
        return
    key = json.loads(create("2h").stdout)
    life = datetime.fromisoformat(key["endsAt"]) - datetime.fromisoformat(key["createdAt"])
    assert life == timedelta(hours=2)
    short = json.loads(create("1s").stdout)["id"]
    env = {"PATH": "", "CONTROL_PLANE_URL": keyed_url, "PODFLEET_API_KEY": ROOT_KEY}

    def is_ended() -> bool:
        rows = run_program([*PROGRAM, "keys", "list"], env=env, cwd=tmp_path).stdout.splitlines()
        (row,) = [each for each in rows if each.startswith(short)]
        return "ended" in row.split("\t")

    until(is_ended)


@keyed
def test_a_worker_that_began_before_its_fleet_finds_the_key_when_there_is_one(
    root: httpx.Client, keyed_url: str, tmp_path: Path, until: Any
) -> None:
    (tmp_path / ".podfleet").mkdir()
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "CONTROL_PLANE_URL": ""}
    log = tmp_path / "log"
    with log.open("ab") as told:
        worker = start_program(
            ["-m", "pod_worker", "--data", str(tmp_path / "w"), "--mode", "ideation"],
            env=env, stderr=told, cwd=tmp_path,
        )  # fmt: skip
    try:
        until(lambda: "start.waits" in log.read_text())
        replace_private(tmp_path / ".podfleet" / FILE, noted(Access(keyed_url, ROOT_KEY), os.getpid()))
        until(lambda: bool(root.get("/api/pods").json()["items"]))
    finally:
        worker.terminate()
        assert worker.wait(60) == 0, log.read_text()


@keyed
def test_of_the_sessions_of_a_key_the_oldest_end(database_url: str, root: httpx.Client) -> None:
    assert root.get("/api/runs").is_success

    async def scenario() -> list[bool]:
        client = store.connect(database_url)
        try:
            sessions = Sessions(store.database(client, database_url))
            begun = SystemClock().now()
            for number in range(4):
                moment = begun + timedelta(seconds=number)
                mine = {
                    "_id": f"s{number}",
                    "keyHash": "h",
                    "createdAt": moment,
                    "expiresAt": begun + LINK_LIFE,
                }
                await sessions.create(mine, 2)
                await sessions.create({**mine, "_id": f"o{number}", "keyHash": f"o{number}"}, 2)
            return [await sessions.find(f"{name}{n}") is not None for name in "so" for n in range(4)]
        finally:
            await client.close()

    assert asyncio.run(scenario()) == [False, False, True, True, True, True, True, True]


@keyed
def test_the_command_line_finds_the_fleet_of_its_folder_and_sends_no_key_elsewhere(
    keyed_url: str, tmp_path: Path
) -> None:
    def said(*words: str, **environment: str) -> tuple[int, str, str]:
        done = run_program([*PROGRAM, *words], env={"PATH": "", **environment}, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    assert said("env")[:2] == (3, "")
    (tmp_path / ".podfleet").mkdir()
    replace_private(tmp_path / ".podfleet" / FILE, noted(Access(keyed_url, ROOT_KEY), os.getpid()))
    assert said("env")[1].splitlines() == [
        f"export CONTROL_PLANE_URL={keyed_url}", f"export PODFLEET_API_KEY={ROOT_KEY}"
    ]  # fmt: skip
    assert said("runs", "list", "--json")[0] == 0
    link = said("signin")[1].strip()
    assert httpx.get(link).status_code == 303
    (tmp_path / ".env").write_text("CONTROL_PLANE_URL=http://127.0.0.1:9\n")
    status, _, words = said("runs", "list", PODFLEET_API_KEY=ROOT_KEY)
    assert (status, "is not sent to the address that .env names" in words) == (2, True), words


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
    until(lambda: httpx.get(f"{url}/api/runs").status_code == 401)
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
