"""Both programs refuse a MongoDB that could lose what it acknowledged, or give one run to two pods."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from events.runtime.clock import SystemIds
from events.runtime.exits import EXIT_LEFT
from podfleet.embedded.credentials import MONGO_USER
from podfleet.embedded.mongod import Mongod, find_mongod
from podfleet.embedded.ports import answers, choose, kept
from tests.fork_server import run_program

Run = Callable[..., subprocess.CompletedProcess[str]]
PROGRAMS = (("control_plane", "serve"), ("pod_worker",))
NOWHERE = {"MINIO_ENDPOINT": "127.0.0.1:1", "MINIO_ACCESS_KEY": "key", "MINIO_SECRET_KEY": "key"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program of ours to its end on a database."""

    def start(url: str, *program: str) -> subprocess.CompletedProcess[str]:
        data = ("--data", str(tmp_path / "data")) if program[0] == "pod_worker" else ()
        port = ("--port", str(choose(SystemIds()))) if "serve" in program else ()
        environment = {"PATH": "", "MONGODB_URL": url, **NOWHERE}
        return run_program(["-m", *program, *data, *port], env=environment, cwd=tmp_path)

    return start


def test_a_database_without_indexes_is_refused_until_it_is_migrated(
    run: Run, database_url: str, database: Database[Any]
) -> None:
    for program in PROGRAMS:
        refused = run(database_url, *program)
        assert (refused.returncode, "podfleet migrate" in refused.stderr) == (2, True), refused.stderr
        assert "unique index 'token'" in refused.stderr
        assert database.list_collection_names() == [], "a program that only verifies makes nothing"
    for _ in range(2):
        assert run(database_url, "control_plane", "migrate").returncode == 0
    assert database.runs.index_information()["token"]["unique"] is True


def test_a_unique_index_that_is_not_unique_is_refused(
    run: Run, database_url: str, database: Database[Any]
) -> None:
    assert run(database_url, "control_plane", "migrate").returncode == 0
    database.runs.drop_index("token")
    condition = {"lease.tokenHash": {"$type": "string"}}
    database.runs.create_index("lease.tokenHash", name="token", partialFilterExpression=condition)
    for program in PROGRAMS:
        refused = run(database_url, *program)
        assert (refused.returncode, "'token'" in refused.stderr) == (2, True), refused.stderr
    told = run(database_url, "control_plane", "migrate")
    assert (told.returncode, "drop it and migrate again" in told.stderr) == (2, True), told.stderr
    assert "Traceback" not in told.stderr


def test_a_migration_names_documents_that_contradict_each_other(
    run: Run, database_url: str, database: Database[Any]
) -> None:
    database.runs.insert_many([{"_id": each, "lease": {"tokenHash": "same"}} for each in ("a", "b")])
    told = run(database_url, "control_plane", "migrate")
    assert (told.returncode, "podfleet verify" in told.stderr) == (2, True), told.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0])
def test_a_url_that_weakens_writes_is_refused(run: Run, emptied_url: str, program: tuple[str, ...]) -> None:
    refused = run(f"{emptied_url}&w=1&journal=false", *program)
    assert refused.returncode == 2
    assert "w=1" in refused.stderr
    assert "journal=False" in refused.stderr
    assert emptied_url.partition("@")[0] not in refused.stderr, "the password is nobody's business"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0])
def test_a_weak_default_of_the_server_is_refused(
    run: Run, mongod: Mongod, emptied_url: str, program: tuple[str, ...]
) -> None:
    with MongoClient[dict[str, Any]](mongod.url("admin")) as client:
        client.admin.command("setDefaultRWConcern", 1, defaultWriteConcern={"w": 1})
        try:
            refused = run(emptied_url, *program)
        finally:
            client.admin.command("setDefaultRWConcern", 1, defaultWriteConcern={"w": "majority"})
    assert (refused.returncode, "setDefaultRWConcern" in refused.stderr) == (2, True), refused.stderr


def test_a_worker_that_may_not_ask_for_the_defaults_still_starts(
    run: Run, mongod: Mongod, emptied_url: str
) -> None:
    name = f"worker_{SystemIds().ulid().lower()}"
    with MongoClient[dict[str, Any]](mongod.url("admin")) as client:
        client.admin.command(
            "createUser", name, pwd="pass", roles=[{"role": "readWrite", "db": _name(emptied_url)}]
        )
        try:
            own = emptied_url.replace(emptied_url[10:].partition("@")[0], f"{name}:pass")
            assert MONGO_USER not in own.partition("@")[0]
            left = run(own, "pod_worker", "--idle-exit", "0")
        finally:
            client.admin.command("dropUser", name)
    assert left.returncode == EXIT_LEFT, left.stderr
    assert "mongodb.not_told" in left.stderr


@pytest.fixture
def standalone_url(memory_path: Path) -> Iterator[str]:
    """The address of a mongod that is no replica set."""
    port = choose(SystemIds())
    (memory_path / "db").mkdir()
    command = [str(find_mongod("")), "--dbpath", str(memory_path / "db"), "--port", str(port), "--bind_ip"]
    with kept(port):
        server = subprocess.Popen([*command, "127.0.0.1", "--nounixsocket"], stdout=subprocess.DEVNULL)
        try:
            with MongoClient[dict[str, Any]]("127.0.0.1", port, directConnection=True) as client:
                client.admin.command("ping")
            assert answers(port)
            yield f"mongodb://127.0.0.1:{port}/podfleet"
        finally:
            server.kill()
            server.wait()


def test_a_stand_alone_server_is_refused(run: Run, standalone_url: str) -> None:
    for program in (*PROGRAMS, ("control_plane", "migrate")):
        refused = run(standalone_url, *program)
        assert (refused.returncode, "stand-alone" in refused.stderr) == (2, True), refused.stderr


def _name(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]
