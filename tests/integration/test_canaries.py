"""Secrets that sing: each has a value of its own, and wherever one is found, something leaks.

A real worker has them all in its environment, also those that it has no use for; a model's program
looks for them from inside; then all that the fleet stores, shows and prints is searched.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import pytest
from minio import Minio
from pymongo import MongoClient

from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import fleet_on
from tests.integration.programs.model_server import Asked, ModelServer, Reply, failing
from tests.integration.programs.scholar import IDEA, good, program_for, step_of
from tests.integration.programs.spy import SPY
from tests.servers import S3Server

Until = Callable[..., None]

NAMES: Final = (
    "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "RUNPOD_API_KEY",
    "OPENAI_ADMIN_KEY", "NVIDIA_API_KEY", "HF_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
    "PODFLEET_API_KEY",
)  # fmt: skip
CANARIES: Final = {name: f"canary-of-{name.lower().replace('_', '-')}" for name in NAMES}
ADDRESSES: Final = {
    "HTTPS_PROXY": "http://me:canary-of-the-proxy@127.0.0.1:1",
    "PODFLEET_LITERATURE_URL": "http://me:canary-of-the-index@127.0.0.1:1/graph",
}
PAGES: Final = (
    "/", "/runs", "/runs/{id}", "/runs/{id}/events", "/pods", "/numbers", "/metrics", "/openapi.json",
    "/api/runs/{id}", "/api/runs/{id}/events?limit=200&order=oldest", "/api/runs/{id}/explain",
    "/api/runs/{id}/artifacts", "/api/pods", "/api/audit", "/api/queue", "/api/keys",
)  # fmt: skip


@pytest.fixture
def spied(database_url: str, s3: S3Server, tmp_path: Path, until: Until) -> Iterator[dict[str, bytes]]:
    """Let a program spy inside a pod that has every secret; yield all that came of it, by where it stands."""
    key = CANARIES["PODFLEET_API_KEY"]
    with (
        fleet_on(database_url, s3, tmp_path, key) as fleet,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as post_box,
        ModelServer(lambda asked: answer(asked)) as server,
    ):
        post_box.bind(("127.0.0.1", 0))
        post_box.setblocking(False)
        ports = [urlsplit(each).port for each in (fleet.url, database_url, s3.endpoint, server.url)]

        def answer(asked: Asked) -> Reply:
            step = step_of(asked)
            spy = SPY.format(
                tcp=[*(("127.0.0.1", port) for port in ports), ("169.254.169.254", 80)],
                udp=post_box.getsockname()[1],
                folders=[str(tmp_path), str(tmp_path / "pod"), os.getcwd()],
                pids=[worker.pid, *(each.pid for each in psutil.Process(worker.pid).children())],
            )
            if step == "tune":  # what an endpoint that quotes the key says
                return failing(400, f"wrong key {asked.headers['authorization']}")
            return program_for(step, asked, extra=spy) if step == "draft" else good(asked)

        environment = CANARIES | ADDRESSES | {
            "CONTROL_PLANE_URL": fleet.url, "OPENAI_BASE_URL": server.openai_url, "OPENAI_MODEL": "scholar-1",
        }  # fmt: skip
        # by exec, since its environment is looked for in /proc; it loads no second child for a second run
        worker = fleet.start_worker("--max-runs", "1", name="pod", is_forked=False, **environment)
        spec = {"idea": IDEA, "dataset": "iris", "preset": "quick", "review": "none"}
        run_id = fleet.submit(
            "experiment", spec=spec | {"nodes": {f"Stage_{each}": 1 for each in range(1, 5)}}
        )
        commands: set[bytes] = set()

        def is_over() -> bool:
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # it has ended
                    commands.add(each.read_bytes())
            return bool(fleet.run(run_id)["finishedAt"])

        until(is_over, 90)
        assert server.asked, "the pipeline has the key"
        assert server.asked[0].headers["authorization"] == f"Bearer {CANARIES['OPENAI_API_KEY']}"
        token = (
            (tmp_path / "pod" / "claim.token").read_bytes()
            if (tmp_path / "pod" / "claim.token").exists()
            else b""
        )
        worker.terminate()
        worker.wait(15)
        with pytest.raises(BlockingIOError):
            post_box.recv(100)
        found = {"commands": b"\n".join(commands), "claim token": token}
        for each in PAGES:
            address = each.format(id=run_id)
            response = fleet.client.get(address)
            assert response.status_code == 200, address
            found[address] = response.content
        found |= command_line(environment | {"MONGODB_URL": database_url}, tmp_path)
        found |= {each.name: each.read_bytes() for each in tmp_path.glob("*.log")}
        found |= stored(database_url, s3, run_id)
        yield found


def command_line(environment: dict[str, str], folder: Path) -> dict[str, bytes]:
    """Return what commands print that look at the settings."""
    values = {**os.environ, **environment}  # noqa: TID251 - as a person's shell passes it on
    said = {}
    for words in (("config", "show", "--all"), ("doctor",), ("runs", "list")):
        answer = run_program([*PROGRAM, *words], env=values, cwd=folder)
        said[" ".join(words)] = (answer.stdout + answer.stderr).encode()
    return said


def stored(database_url: str, s3: S3Server, run_id: str) -> dict[str, bytes]:
    """Return every document of the database, and every object of the run."""
    found = {}
    with MongoClient[dict[str, Any]](database_url) as client:
        db = client.get_default_database()
        for name in db.list_collection_names():
            found[name] = "\n".join(map(str, db[name].find())).encode()
    storage = Minio(
        s3.endpoint.rpartition("/")[2],
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        secure=False,
        region=s3.region,
    )
    for each in storage.list_objects(s3.bucket, prefix=f"runs/{run_id}", recursive=True):
        assert each.object_name is not None
        with storage.get_object(s3.bucket, each.object_name) as stream:
            found[each.object_name] = stream.read()
    return found


def test_the_spy_wins_where_nothing_holds_it(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_text("canary-of-the-outbox")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as post_box,
        subprocess.Popen(["sleep", "60"]) as victim,
    ):
        post_box.bind(("127.0.0.1", 0))
        program = SPY.format(
            tcp=[server.getsockname()],
            udp=post_box.getsockname()[1],
            folders=[str(tmp_path)],
            pids=[victim.pid],
        )
        environment = {"SECRET": "canary-of-mine"}
        answer = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        victim.kill()
        assert post_box.recv(100)
    wins = (
        "a secret in SECRET",
        "a secret in /proc/self/environ",
        f"a secret in {tmp_path}/outbox.db",
        f"writes in {tmp_path}",
        f"ptrace of {victim.pid}",
        f"the memory of {victim.pid}",
        f"may signal {victim.pid}",
        "a connection to",
    )
    for what in wins:
        assert f"SPY won: {what}" in answer.stdout, what


@pytest.mark.slow("an experiment with programs in the sandbox, and a search through all that it left")
@pytest.mark.timeout(180)
def test_no_secret_of_a_pod_is_stored_shown_or_printed_nor_found_by_a_program(
    spied: dict[str, bytes], database_url: str, s3: S3Server
) -> None:
    events = json.loads(
        next(content for place, content in spied.items() if place.endswith("/events?limit=200&order=oldest"))
    )
    tails = [said for each in events["items"] if "SPY" in (said := str(each["data"].get("log_tail")))]
    (tail,) = tails
    assert "SPY is done" in tail, tail
    assert "SPY won" not in tail, tail
    password = urlsplit(database_url).password
    assert password
    secrets = [b"canary-of", password.encode(), s3.secret_key.encode()]
    assert {"commands", "runs", "events", "pod.log", "control-plane.log", "doctor"} <= spied.keys()
    assert any(each.endswith("paper/paper.tex") for each in spied)
    leaks = {(place, secret) for place, content in spied.items() for secret in secrets if secret in content}
    assert leaks == set()
