"""The whole stack under signals and deaths, with stand-ins for the control plane and the workers."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import MongoClient

from control_plane.embedded.process import Member, descendants, started

RUN_STACK = Path(__file__).parent / "programs" / "run_stack.py"
Until = Callable[..., None]


class Running:
    """A stack in a process of its own, as a user has it, with all that it printed."""

    def __init__(self, home: Path, how: str, port: int | None, environment: dict[str, str]) -> None:
        self.data = home / "data"
        self.output = home / "output"
        argv = [sys.executable, str(RUN_STACK), str(self.data), how, *([str(port)] if port else [])]
        with self.output.open("ab") as output:
            inherited = dict(os.environ)  # noqa: TID251 - what a user's shell would pass on
            self.process = subprocess.Popen(
                argv, env=inherited | environment, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def url(self) -> str:
        return "http" + self.said.rpartition("ready http")[2].split()[0]

    def family(self) -> frozenset[Member]:
        return descendants(self.process.pid)

    def worker(self, number: int = 1) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data / f"worker-{number}" / "environment.json").read_text())
        return found

    def part(self, name: str) -> int:
        """Return the process of ours whose command line holds `name`."""
        for member in self.family():
            if name in Path(f"/proc/{member.pid}/cmdline").read_text():
                return member.pid
        raise AssertionError(f"no {name} among {self.family()}")


def _alive(members: frozenset[Member]) -> list[Member]:
    """Return those that still run; a zombie runs no more."""
    return [
        each
        for each in members
        if started(each.pid) == each.started
        and Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    ]


Start = Callable[..., Running]
LONG = pytest.mark.long("four more moments of a start; `make test` has two")


@pytest.fixture
def start(memory_path: Path) -> Iterator[Start]:
    running: list[Running] = []

    def begin(how: str = "up", port: int | None = None, **environment: str) -> Running:
        running.append(Running(memory_path, how, port, environment))
        return running[-1]

    yield begin
    for each in running:
        family = each.family()
        each.process.kill()
        each.process.wait()
        for member in _alive(family):
            os.kill(member.pid, signal.SIGKILL)


def _ready(stack: Running, until: Until) -> None:
    until(lambda: "ready http" in stack.said or stack.process.poll() is not None, seconds=40)
    assert stack.process.poll() is None, stack.said


@pytest.mark.parametrize(
    # without `up` SIGTERM kills at once: that is the case of the killed supervisor
    ("how", "number"),
    [("up", signal.SIGINT), ("up", signal.SIGTERM), ("up", signal.SIGHUP), ("with", signal.SIGINT)],
)
def test_a_ready_stack_stops_on_a_signal_and_leaves_no_process(
    start: Start, until: Until, how: str, number: signal.Signals
) -> None:
    stack = start(how)
    _ready(stack, until)
    family = stack.family()
    assert len(family) == 7  # mongod, S3, control plane, two workers with a child each
    stack.process.send_signal(number)
    status = stack.process.wait(timeout=30)
    assert (status == 0) == (how == "up")
    assert _alive(family) == []


def test_a_stack_whose_supervisor_is_killed_leaves_no_part(start: Start, until: Until) -> None:
    stack = start()
    _ready(stack, until)
    family = stack.family()
    assert len(family) == 7
    stack.process.kill()
    until(lambda: not _alive(family))


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(each, marks=LONG) for each in range(2, 6))])
def test_an_interrupt_at_any_moment_of_the_start_leaves_no_process(
    start: Start, until: Until, seed: int
) -> None:
    chance = random.Random(seed)
    stack = start(chance.choice(["up", "with"]))
    pieces = chance.choice([1, 2, 3, 4, 5])  # how far the start has come when the interrupt arrives
    until(lambda: len(stack.family()) >= pieces)
    family = stack.family()
    stack.process.send_signal(signal.SIGINT)
    seen: set[Member] = set(family)

    def has_ended() -> bool:
        seen.update(stack.family())
        return stack.process.poll() is not None

    until(has_ended, seconds=30)
    assert _alive(frozenset(seen)) == []
    assert "Traceback" not in stack.said or "KeyboardInterrupt" in stack.said


@pytest.mark.parametrize("name", ["mongod", "rclone", "fake_control_plane", "fake_worker"])
def test_a_killed_part_comes_back_and_is_reported(start: Start, until: Until, name: str) -> None:
    stack = start()
    _ready(stack, until)
    before = stack.part(name)
    os.kill(before, signal.SIGKILL)
    until(lambda: " is back " in stack.said, seconds=40)
    assert "killed by SIGKILL; starting it again" in stack.said
    assert stack.part(name) != before
    assert len([each for each in stack.family() if name in _command_line(each.pid)]) == (
        2 if name == "fake_worker" else 1
    )


def test_data_and_addresses_persist_over_a_second_start(start: Start, until: Until) -> None:
    urls = []
    for _ in range(2):
        stack = start()
        until(lambda s=stack: s.said.count("ready http") == len(urls) + 1, seconds=40)
        urls.append(stack.worker()["MONGODB_URL"])
        with MongoClient[dict[str, Any]](urls[-1]) as client:
            client.podfleet.things.insert_one({"run": len(urls)})
            count = client.podfleet.things.count_documents({})
        stack.process.send_signal(signal.SIGINT)
        assert stack.process.wait(timeout=30) == 0
    assert urls[0] == urls[1]
    assert count == 2


def test_a_worker_gets_its_name_and_no_key_of_the_storage(start: Start, until: Until) -> None:
    stack = start(RUNPOD_POD_ID="rented", HTTPS_PROXY="http://proxy.invalid", PODFLEET_API_KEY="k")
    _ready(stack, until)
    control = httpx.get(f"{stack.url}/environment", trust_env=False).json()
    worker = stack.worker(2)
    assert worker["PODFLEET_POD_ID"] == "local-2"
    assert worker["CONTROL_PLANE_URL"] == stack.url
    assert worker["PODFLEET_API_KEY"] == control["PODFLEET_API_KEY"] == "k"
    assert "127.0.0.1" in worker["NO_PROXY"]
    assert [name for name in worker if name.startswith(("MINIO_", "RUNPOD_"))] == []
    assert control["MINIO_BUCKET"] == "podfleet"
    assert control["MINIO_SECRET_KEY"]
    lines = [_command_line(each.pid) for each in stack.family()]
    assert not any(control["MINIO_SECRET_KEY"] in line for line in lines)
    assert not any(worker["MONGODB_URL"] in line for line in lines)
    assert oct((stack.data / "credentials.json").stat().st_mode)[-3:] == "600"


def test_servers_that_the_environment_names_are_used_and_not_started(start: Start, until: Until) -> None:
    stack = start(MONGODB_URL="mongodb://elsewhere.invalid/x", MINIO_ENDPOINT="elsewhere.invalid:9000")
    _ready(stack, until)
    assert stack.worker()["MONGODB_URL"] == "mongodb://elsewhere.invalid/x"
    assert not (stack.data / "mongo").exists()
    assert not (stack.data / "s3").exists()


def test_a_second_stack_on_the_same_data_is_refused_with_the_holder(start: Start, until: Until) -> None:
    first = start()
    _ready(first, until)
    second = start()
    assert second.process.wait(timeout=20) == 2
    assert f"process {first.process.pid}" in first.said
    assert "--data" in first.said
    assert "Traceback" not in first.said
    assert first.process.poll() is None


def test_a_taken_port_is_refused_before_anything_starts(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stack = start(port=port)
        assert stack.process.wait(timeout=20) == 2
    assert f"port {port}" in stack.said
    assert "--port" in stack.said
    assert not stack.data.exists()


def test_a_worker_that_cannot_start_ends_the_start_with_its_last_words(start: Start) -> None:
    stack = start(FAKE_WORKER="broken")
    assert stack.process.wait(timeout=60) == 1
    assert "this worker cannot work" in stack.said
    assert "Traceback" not in stack.said


def test_a_second_interrupt_kills_what_takes_its_time(start: Start, until: Until) -> None:
    stack = start(FAKE_WORKER="stubborn")
    _ready(stack, until)
    family = stack.family()
    stack.process.send_signal(signal.SIGINT)
    until(lambda: "stopping" in stack.said)
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(timeout=10) == 0
    assert _alive(family) == []
    assert "worker-1 did not stop" in stack.said
