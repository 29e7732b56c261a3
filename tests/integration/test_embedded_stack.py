"""The whole stack under signals and deaths, with stand-ins for the control plane and the workers."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import MongoClient

from events.runtime.access import FILE, running
from podfleet.embedded.process import Member, descendants
from podfleet.embedded.stack import WORKER_GRACE_S, Options
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM

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

    def service(self, name: str) -> int:
        """Return the process of ours whose command line holds `name`."""
        for member in self.family():
            if name in _command_line(member.pid):
                return member.pid
        raise AssertionError(f"no {name} among {self.family()}")


def _alive(members: frozenset[Member]) -> list[Member]:
    """Return those that still run; a zombie runs no more."""
    return [each for each in members if _runs(each)]


def _runs(member: Member) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):  # it ends while it is looked at
        state, *fields = Path(f"/proc/{member.pid}/stat").read_text().rpartition(")")[2].split()
        return (state != "Z", fields[18]) == (True, member.started)
    return False


def _command_line(pid: int) -> str:
    """Return the command line of a process; none of one that has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


Start = Callable[..., Running]
PARTS = 7  # mongod, S3, control plane, two workers with a child each
SERVERS = 2
START_S = 100.0  # on a loaded machine; alone it takes four
LONG = pytest.mark.long("four more moments of a start; `make test` has two")
ELSEWHERE = {"MONGODB_URL": "mongodb://elsewhere.invalid/x", "MINIO_ENDPOINT": "elsewhere.invalid:9000"}
STOPPED = pytest.mark.long(
    "`make test` stops stacks by each signal, where they were started for something else"
)


@pytest.fixture
def start(memory_path: Path) -> Iterator[Start]:
    with starting(memory_path) as begin:
        yield begin


@pytest.fixture(scope="module")
def lasting(memory_folder: Path, until: Until) -> Iterator[Running]:
    """A ready stack, with settings of its user, for the tests that leave it ready."""
    home = memory_folder / "lasting stack"
    home.mkdir()
    with starting(home) as begin:
        stack = begin(RUNPOD_POD_ID="rented", HTTPS_PROXY="http://proxy.invalid", PODFLEET_API_KEY="k")
        _ready(stack, until)
        yield stack


@contextmanager
def starting(home: Path) -> Iterator[Start]:
    """Give what starts stacks in `home`, and leave none of their processes."""
    running: list[Running] = []

    def begin(how: str = "up", port: int | None = None, **environment: str) -> Running:
        running.append(Running(home, how, port, environment))
        return running[-1]

    yield begin
    for each in running:
        family = each.family()
        each.process.kill()
        each.process.wait()
        for member in _alive(family):
            with suppress(ProcessLookupError):  # it is about to end with its parent
                os.kill(member.pid, signal.SIGKILL)


def _ready(stack: Running, until: Until, parts: int = PARTS) -> frozenset[Member]:
    """Wait until a stack is ready and has so many processes; return them."""
    until(lambda: "ready http" in stack.said or stack.process.poll() is not None, START_S)
    assert stack.process.poll() is None, stack.said
    # a worker is ready when it has lived for a second, in which it need not have come to its own child
    until(lambda: len(stack.family()) == parts, START_S)
    return stack.family()


def _stopped_by(stack: Running, until: Until, number: signal.Signals, parts: int = PARTS) -> int:
    """Stop a stack that has so many processes, see that none is left, and return its exit status."""
    family = _ready(stack, until, parts)
    stack.process.send_signal(number)
    try:
        status = stack.process.wait(timeout=START_S)
    except subprocess.TimeoutExpired:
        pytest.fail(f"still there: {_alive(family)}; it said: {stack.said}")
    until(lambda: not _alive(family))  # a process ends when the kernel comes to it, after its SIGKILL
    return status


@pytest.mark.parametrize(
    # without `up` SIGTERM kills at once: that is the case of the killed supervisor
    ("how", "number"),
    [
        *(pytest.param("up", each, marks=STOPPED) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        ("with", signal.SIGINT),
    ],
)
def test_a_ready_stack_stops_on_a_signal_and_leaves_no_process(
    start: Start, until: Until, how: str, number: signal.Signals
) -> None:
    stack = start(how)
    status = _stopped_by(stack, until, number)
    assert (status == 0) == (how == "up")


def test_a_stack_whose_supervisor_is_killed_leaves_no_part(start: Start, until: Until) -> None:
    stack = start()
    family = _ready(stack, until)
    stack.process.kill()
    until(lambda: not _alive(family))


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

    until(has_ended)
    until(lambda: not _alive(frozenset(seen)))
    assert "Traceback" not in stack.said or "KeyboardInterrupt" in stack.said


@pytest.mark.parametrize("name", ["mongod", "rclone", "fake_control_plane", "fake_worker"])
def test_a_killed_part_comes_back_and_is_reported(lasting: Running, until: Until, name: str) -> None:
    before, known = lasting.service(name), len(lasting.said)
    os.kill(before, signal.SIGKILL)
    until(lambda: " is back " in lasting.said[known:], START_S)
    assert "killed by SIGKILL; starting it again" in lasting.said[known:]
    assert lasting.service(name) != before
    family = _ready(lasting, until)
    assert len([each for each in family if name in _command_line(each.pid)]) == (
        2 if name == "fake_worker" else 1
    )


def test_data_and_addresses_persist_over_a_second_start(start: Start, until: Until) -> None:
    urls: list[str] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        stack = start()
        until(lambda s=stack: s.said.count("ready http") == len(urls) + 1, START_S)
        _ready(stack, until)
        urls.append(stack.worker()["MONGODB_URL"])
        with MongoClient[dict[str, Any]](urls[-1]) as client:
            client.podfleet.things.insert_one({"run": len(urls)})
            count = client.podfleet.things.count_documents({})
        assert _stopped_by(stack, until, number) == 0
    assert urls[0] == urls[1]
    assert count == 2


def test_a_worker_gets_its_name_and_no_key_of_the_storage(lasting: Running) -> None:
    stack = lasting
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


def test_the_address_and_the_key_lie_in_the_data_folder_while_it_runs(lasting: Running) -> None:
    found = running(lasting.data)
    assert found is not None
    assert (found.url, found.key) == (lasting.url, "k")
    assert {"MONGODB_URL", "MINIO_ENDPOINT", "MINIO_SECRET_KEY"} <= set(found.stores)
    environment = {"PATH": "", "PODFLEET_DATA": str(lasting.data)}
    audit = run_program([*PROGRAM, "verify"], env=environment, cwd=lasting.data)
    assert (audit.returncode, audit.stderr) == (0, "0 findings in 0 runs\n"), audit.stderr
    line = _command_line(lasting.service("fake_control_plane"))
    assert not any(word in line for word in ("--keyless", "--trust")), "no address is trusted"
    (again,) = Options(data=lasting.data, port=int(found.url.rpartition(":")[2])).problems()
    assert f"this folder's fleet runs at {found.url}" in again


def test_servers_that_the_environment_names_are_used_and_not_started(start: Start, until: Until) -> None:
    stack = start(**ELSEWHERE)
    _ready(stack, until, PARTS - SERVERS)
    assert stack.worker()["MONGODB_URL"] == ELSEWHERE["MONGODB_URL"]
    assert not (stack.data / "mongo").exists()
    assert not (stack.data / "s3").exists()
    assert _stopped_by(stack, until, signal.SIGHUP, PARTS - SERVERS) == 0
    assert not (stack.data / FILE).exists()


def test_a_second_stack_on_the_same_data_is_refused_with_the_holder(lasting: Running) -> None:
    known = len(lasting.said)
    with starting(lasting.data.parent) as start:
        second = start()
        assert second.process.wait(timeout=START_S) == 2
    said = lasting.said[known:]  # both write to one file
    assert f"process {lasting.process.pid}" in said
    assert "--data" in said
    assert "Traceback" not in said
    assert lasting.process.poll() is None


def test_a_taken_port_is_refused_before_anything_starts(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        stack = start(port=port)
        assert stack.process.wait(timeout=START_S) == 2
    assert f"port {port}" in stack.said
    assert "--port" in stack.said
    assert not stack.data.exists()


def test_a_worker_that_cannot_start_ends_the_start_with_its_last_words(start: Start) -> None:
    stack = start(FAKE_WORKER="broken")
    assert stack.process.wait(timeout=START_S) == 1
    assert "this worker cannot work" in stack.said
    assert "Traceback" not in stack.said


def test_a_second_interrupt_kills_what_takes_its_time(start: Start, until: Until) -> None:
    stack = start(FAKE_WORKER="stubborn")
    family = _ready(stack, until)
    stack.process.send_signal(signal.SIGINT)
    until(lambda: "stopping" in stack.said)
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(timeout=START_S) == 0
    until(lambda: not _alive(family))
    (waited_s,) = re.findall(r"worker-1 did not stop within ([\d.]+) s", stack.said)
    assert float(waited_s) < WORKER_GRACE_S, "nobody waited until its time was over"
