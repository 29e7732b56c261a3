"""The embedded mongod through what happens to it: restarts, kills, lost ports, foreign data."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError
from podfleet.embedded.credentials import credentials
from podfleet.embedded.mongod import Mongod, find_mongod, prepare_mongod
from podfleet.embedded.ports import kept
from podfleet.embedded.supervisor import StartFailed, Supervisor

Until = Callable[..., None]


def _prepare(home: Path) -> Mongod:
    ids = SystemIds()
    return prepare_mongod(find_mongod(""), home / "mongo", credentials(home / "credentials.json", ids), ids)


@contextmanager
def _running(server: Mongod, home: Path, said: list[str] | None = None) -> Iterator[Supervisor]:
    lines: list[str] = [] if said is None else said
    supervisor = Supervisor([[server.service()]], logs=home / "logs", clock=SystemClock(), say=lines.append)
    with kept(server.port), supervisor:
        yield supervisor


def _things(server: Mongod) -> list[Any]:
    with MongoClient[dict[str, Any]](server.url()) as client:
        return [each["_id"] for each in client.get_default_database().things.find().sort("_id")]


def _add(server: Mongod, thing: str) -> None:
    with MongoClient[dict[str, Any]](server.url()) as client:
        client.get_default_database().things.insert_one({"_id": thing})


def _noted_port(home: Path) -> int:
    port: int = json.loads((home / "mongo" / "port.json").read_text())["port"]
    return port


@pytest.fixture(scope="module")
def once_used(memory_folder: Path) -> Iterator[Path]:
    """What a mongod left that was given the thing `a` and was stopped; no test changes it."""
    with tempfile.TemporaryDirectory(dir=memory_folder) as folder:
        home = Path(folder)
        first = _prepare(home)
        with _running(first, home):
            _add(first, "a")
        assert _noted_port(home) == first.port
        yield home


@pytest.fixture
def used_path(once_used: Path, memory_path: Path) -> Path:
    """A copy of it for one test."""
    return shutil.copytree(once_used, memory_path, dirs_exist_ok=True)


def test_data_survives_a_restart_on_the_same_port(used_path: Path) -> None:
    first_port = _noted_port(used_path)
    second = _prepare(used_path)
    assert second.port == first_port
    with _running(second, used_path):
        assert _things(second) == ["a"]


@contextmanager
def _taken(port: int, *, is_silent: bool) -> Iterator[None]:
    """Let another server have a port: one that says nothing, or one that hangs up on what it cannot read."""

    def hang_up() -> None:
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", port)) as listener:
        other = threading.Thread(target=hang_up, daemon=True)
        if not is_silent:
            other.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            if not is_silent:
                other.join()


@pytest.mark.parametrize(
    "is_silent",
    [
        False,
        pytest.param(
            True,
            marks=[
                pytest.mark.long("the set moves as well where the other server hangs up"),
                pytest.mark.slow("mongod waits 30 s for the other server's word"),
            ],
        ),
    ],
    ids=["hangs up", "says nothing"],
)
def test_a_port_that_was_taken_meanwhile_moves_the_replica_set_to_another(
    used_path: Path, is_silent: bool
) -> None:
    taken = _noted_port(used_path)
    with _taken(taken, is_silent=is_silent):
        second = _prepare(used_path)
        assert second.port != taken
        with _running(second, used_path):
            _add(second, "b")
            assert _things(second) == ["a", "b"]
            with MongoClient[dict[str, Any]](second.url()) as client:
                members = client.admin.command("replSetGetConfig")["config"]["members"]
    assert [member["host"] for member in members] == [second.address]


def test_a_killed_mongod_is_started_again_with_its_data_and_reported(memory_path: Path, until: Until) -> None:
    server, said = _prepare(memory_path), []
    with _running(server, memory_path, said) as supervisor:
        _add(server, "a")
        before = supervisor.pids()["mongodb"]
        os.kill(before, signal.SIGKILL)
        until(lambda: any(" is back " in line for line in said), seconds=100)
        assert supervisor.pids()["mongodb"] != before
        assert _things(server) == ["a"]
    assert any("SIGKILL" in line for line in said)


def test_only_the_password_lets_in_and_only_on_loopback(mongod: Mongod) -> None:
    with (
        MongoClient[dict[str, Any]]("127.0.0.1", mongod.port, directConnection=True) as client,
        pytest.raises(OperationFailure, match=r"[Aa]uthentication"),
    ):
        client.podfleet.things.find_one()
    listening = {
        bytes.fromhex(fields[1].partition(":")[0])[::-1]
        for table in ("tcp", "tcp6")
        for fields in (line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:])
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == mongod.port
    }
    assert listening == {socket.inet_aton("127.0.0.1")}


def test_key_and_data_are_for_the_owner_only_and_no_secret_is_in_the_arguments(memory_path: Path) -> None:
    server = _prepare(memory_path)
    assert stat.S_IMODE(server.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
    arguments = " ".join(server.service().command.argv)
    secrets = (server.credentials.mongo_password, server.credentials.mongo_key)
    assert not any(secret in arguments for secret in secrets)
    assert "zlib" not in arguments


def test_data_made_with_other_credentials_is_an_error_and_not_a_loop(used_path: Path) -> None:
    (used_path / "credentials.json").unlink()
    with pytest.raises(ConfigError, match="credentials"), _running(_prepare(used_path), used_path):
        pytest.fail("started")


def test_a_mongod_that_cannot_start_is_given_up_with_its_last_words(memory_path: Path) -> None:
    server = _prepare(memory_path)
    (server.directory / "data" / "mongod.lock").mkdir()
    with pytest.raises(StartFailed, match="mongodb") as caught, _running(server, memory_path):
        pytest.fail("started")
    assert "\n  | " in caught.value.message


def test_the_noted_port_is_readable_json(memory_path: Path) -> None:
    server = _prepare(memory_path)
    assert json.loads((server.directory / "port.json").read_text()) == {"port": server.port}
