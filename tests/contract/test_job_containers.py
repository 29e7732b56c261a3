"""The container of a job, as a worker runs it: by the double of Docker's client, and by Docker where it is.

What a worker refuses by itself is tried with a client of a few lines of shell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from events.delivery.pipe import ContainerOrder, ContainerStop, ContainerTold, ContainerWanted
from events.runtime.clock import SystemClock
from pod_worker.files.container_request import ChildContainers
from pod_worker.isolation.containers import client_environment, remove_containers
from pod_worker.isolation.job_container import PRINTED, ContainerUse, PodContainers
from testing.engine_double.real_docker import lacks_docker, made_image
from testing.real_engines.cases import until
from tests.contract.test_containers import Docker

CLOCK = SystemClock()
USER = 54_321
OWNER_POD = "PODFLEET_TEST_POD"  # of a worker in a process of its own, the same one
# Tests beside this one have others.
POD = os.environ.get(OWNER_POD, f"pod-of-jobs-{os.getpid()}")  # noqa: TID251 - given by this file itself
PATIENCE_S = 30.0
SECRET = "s3cret-value-of-a-run"


# What the kernel or Docker itself does, or what costs the double more than it shows.
REAL_ONLY = pytest.mark.parametrize("runtime", ["real"], indirect=True)


@dataclass
class Runtime:
    """A container runtime: its client's environment, and an image that it has."""

    environ: dict[str, str]
    image: str
    is_real: bool = False

    def left(self) -> str:
        words = ["docker", "ps", "-a", "-q", "--filter", f"label=podfleet.pod={POD}"]
        return subprocess.check_output(words, env=self.environ, text=True, timeout=PATIENCE_S)


@pytest.fixture(params=["double", "real"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    if request.param == "double":
        found = Docker(tmp_path)
        yield Runtime({"PATH": found.path}, "double:1")
        for row in found.containers.values():
            subprocess.run(["/bin/kill", "-KILL", "--", f"-{row['State']['Pid']}"], check=False)
        return
    if os.geteuid() != 0:
        pytest.skip("only root gives a run a user of its own")
    if why := lacks_docker():
        pytest.skip(why)
    environ = os.environ  # noqa: TID251 - the settings of the machine's own client
    yield Runtime(client_environment(environ), made_image(), is_real=True)
    remove_containers(POD, environ)


@dataclass
class Attempt:
    """The worker's side of an attempt, and the child's."""

    runtime: Runtime
    folder: Path
    spec: dict[str, Any] = field(default_factory=dict)
    told: list[ContainerTold] = field(default_factory=list)
    printed: bytearray = field(default_factory=bytearray)
    trees: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace = self.folder / "workspace"
        (self.workspace / "work").mkdir(parents=True)
        for each in (self.workspace, self.workspace / "work"):
            os.chown(each, USER, USER)
        os.mkfifo(self.workspace / PRINTED)
        self.pipe = os.open(self.workspace / PRINTED, os.O_RDWR)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.child = ChildContainers(self._sent, CLOCK)
        pod = PodContainers(client="docker", pod=POD, slot=f"{POD}/1", environ=self.runtime.environ)
        self.use = ContainerUse(
            pod=pod,
            spec={"image": self.runtime.image} | self.spec,
            workspace=self.workspace,
            name=f"podfleet-test-{os.getpid()}-{self.folder.name}".lower(),
            threads=lambda _, work: threading.Thread(target=work, daemon=True).start(),
            clock=CLOCK,
            answer=self._hear,
            trees=lambda: self.trees,
        )

    def _sent(self, frame: ContainerWanted | ContainerStop) -> None:
        self.use.hear(frame)

    def _hear(self, told: ContainerTold) -> None:
        self.told.append(told)
        self.child.hear(told)

    def _read(self) -> None:
        with (self.workspace / PRINTED).open("rb") as stream:
            while piece := stream.read1(4_096):
                self.printed += piece

    def start(self, *words: str, **variables: str) -> None:
        self.child.start(list(words), self.workspace / "work", variables, self.workspace)

    def ended(self) -> ContainerTold:
        until(lambda: bool(self.told) and self.told[-1].state == "ended")
        self.close()
        return self.told[-1]

    def waits_for(self, text: bytes) -> None:
        until(lambda: text in self.printed or bool(self.told and self.told[-1].state == "ended"))

    def close(self) -> None:
        self.use.close()
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1
            self.reader.join(PATIENCE_S)


@pytest.fixture
def attempt(runtime: Runtime, tmp_path: Path) -> Iterator[Attempt]:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "n.txt").write_text("42\n")
    found = Attempt(runtime, tmp_path, trees={"a": str(tmp_path / "data")})
    yield found
    found.close()
    assert runtime.left() == "", "nothing is left of it"


STUB = """#!/bin/sh
case "$1 $2 $3" in
image*missing*) echo "Error: No such image" >&2; exit 1;;
image*) echo '[{"Id": "sha256:%s", "RepoDigests": []}]';;
pull*away*) echo "dial tcp 10.0.0.1:443: connect: connection refused"; exit 1;;
pull*) echo "pull access denied"; exit 1;;
run*) touch "$STARTED";;
esac
"""


@pytest.fixture
def stub(tmp_path: Path) -> Runtime:
    client = tmp_path / "bin" / "docker"
    client.parent.mkdir()
    client.write_text(STUB % ("1" * 64))
    client.chmod(0o755)
    return Runtime(
        {"PATH": f"{client.parent}:/usr/bin:/bin", "STARTED": str(tmp_path / "started")}, "double:1"
    )


PROGRAM = 'pwd; cat "$DATA/n.txt"; echo "$TOKEN"; echo err >&2; echo kept > kept; exit 3'


def test_a_program_runs_with_what_is_given_and_nothing_remains_of_it(attempt: Attempt) -> None:
    attempt.start("sh", "-c", PROGRAM, TOKEN=SECRET, DATA=attempt.trees["a"])
    ended = attempt.ended()
    assert (ended.status, ended.code, ended.is_out_of_memory) == (3, "", False), ended
    work = attempt.workspace / "work"
    said = attempt.printed.decode().splitlines()  # of two streams, whose lines the client may exchange
    assert sorted(said) == sorted([f"{work}", "42", SECRET, "err"])
    assert (work / "kept").read_text() == "kept\n"
    assert not (attempt.workspace / "container.order").exists(), "it has the secrets of the run"
    assert attempt.told[0].state == "running"
    assert "sha256:" in attempt.told[0].image


@REAL_ONLY
def test_a_program_has_the_user_of_its_run_and_no_rights(attempt: Attempt) -> None:
    outside = attempt.folder / "outside"
    outside.write_text("of the pod")
    script = f"id; cat /proc/self/status; cat {outside}; echo x > {attempt.trees['a']}/x; ls {attempt.folder}"
    attempt.start("sh", "-c", script)
    attempt.ended()
    said = attempt.printed.decode()
    assert f"uid={USER} gid={USER}" in said
    for word in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
        assert word in said
    assert "of the pod" not in said
    assert "data\nworkspace\n" in said, "it sees what it was given"
    assert [each.name for each in (attempt.folder / "data").iterdir()] == ["n.txt"]


@REAL_ONLY
def test_no_value_of_a_variable_is_an_argument_or_a_variable_of_the_client(attempt: Attempt) -> None:
    attempt.start(
        "sh", "-c", "echo waits; exec sleep 60", TOKEN=SECRET, PATH_OF="x", DOCKER_HOST="tcp://evil:1"
    )
    attempt.waits_for(b"waits")
    clients = subprocess.run(["pgrep", "-f", attempt.use.name], capture_output=True, text=True, check=False)
    seen = 0
    for pid in clients.stdout.split():
        try:
            words, own = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        seen += 1
        assert SECRET.encode() not in words
        assert b"evil" not in own
        assert SECRET.encode() not in own
    assert seen
    attempt.child.stop(0.0)
    assert attempt.ended().status in (137, 143)


def test_sigterm_reaches_the_program_also_one_that_stood_still(attempt: Attempt) -> None:
    attempt.start("sh", "-c", 'trap "echo heard; exit 5" TERM; echo waits; while :; do sleep 0.05; done')
    attempt.waits_for(b"waits")
    attempt.use.pause(True)
    attempt.use.pause(False)
    until(lambda: not attempt.use._turn.locked())
    attempt.child.stop(20.0)
    assert attempt.ended().status == 5
    assert b"heard" in attempt.printed


@REAL_ONLY
def test_a_container_ends_with_its_attempt(attempt: Attempt) -> None:
    attempt.start("sh", "-c", 'trap "" TERM; echo waits; while :; do sleep 0.05; done')
    attempt.waits_for(b"waits")
    assert attempt.runtime.left()
    attempt.close()
    assert (attempt.runtime.left(), [each.state for each in attempt.told]) == ("", ["running"])
    attempt.use.hear(ContainerWanted())
    assert attempt.runtime.left() == "", "an attempt that is over starts nothing"


@REAL_ONLY
def test_a_program_that_is_not_there_is_named(attempt: Attempt) -> None:
    attempt.start("nosuchprogram")
    assert attempt.ended().status == 127
    assert b"nosuchprogram" in attempt.printed


OWNER = """
import os, sys, threading, json
from pathlib import Path
from tests.contract.test_job_containers import Attempt, Runtime
runtime = Runtime(json.loads(sys.argv[1]), sys.argv[2])
attempt = Attempt(runtime, Path(sys.argv[3]))
attempt.start("sh", "-c", "echo waits; exec sleep 600")
attempt.waits_for(b"waits")
print("waits", flush=True)
threading.Event().wait()
"""


def test_a_container_ends_with_a_worker_that_is_killed_and_the_next_one_removes_what_is_left(
    runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / "owner").mkdir()
    words = [sys.executable, "-c", OWNER, json.dumps(runtime.environ), runtime.image, str(tmp_path / "owner")]
    owner = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, OWNER_POD: POD},  # noqa: TID251 - a program of this file
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "waits\n"
    assert runtime.left()
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    until(lambda: not runtime.left())
    kept = Attempt(runtime, tmp_path)
    kept.start("sh", "-c", "echo waits; exec sleep 600")
    kept.waits_for(b"waits")
    assert remove_containers(POD, runtime.environ, slot=f"{POD}/11") == 0
    assert runtime.left()
    assert remove_containers(POD, runtime.environ, slot=f"{POD}/1") == 1
    assert runtime.left() == ""
    kept.close()


@pytest.mark.parametrize(
    ("image", "code", "why"),
    [
        ("missing/denied:1", "NO_IMAGE", "pull access denied"),
        ("missing/away:1", "REGISTRY_UNREACHABLE", "connection refused"),
        ("--privileged", "CONFIG", "no name of an image"),
    ],
)
def test_an_image_that_cannot_be_had_says_whose_fault_it_is(
    stub: Runtime, tmp_path: Path, image: str, code: str, why: str
) -> None:
    attempt = Attempt(stub, tmp_path, spec={"image": image})
    attempt.start("true")
    ended = attempt.ended()
    assert (ended.code, why in ended.problem) == (code, True), ended


def test_a_process_that_lies_gets_no_container(stub: Runtime, tmp_path: Path) -> None:
    """Whatever is in the place of its order and of its pipe, the worker follows no link and does not wait."""
    victim = tmp_path / "victim"
    victim.write_text("of the worker")
    order = json.dumps({"words": ["true"], "folder": "/", "variables": {"A": "1"}})
    lies: list[tuple[str, Any, str]] = [
        ("link", lambda path: path.symlink_to(victim), "cannot be run"),
        ("pipe", os.mkfifo, "no plain file"),
        ("text", lambda path: path.write_text("{"), "cannot be run"),
        ("lines", lambda path: path.write_text(order.replace('"1"', '"1\\n2"')), "several lines"),
        ("name", lambda path: path.write_text(order.replace('"A"', '"A=B"')), "cannot be run"),
        (
            "output",
            lambda path: _replace_pipe(path, order, victim),
            "cannot be run",
        ),
    ]
    for name, lie, why in lies:
        (tmp_path / name).mkdir()
        attempt = Attempt(stub, tmp_path / name)
        lie(attempt.workspace / "container.order")
        attempt.use.hear(ContainerWanted())
        ended = attempt.ended()
        assert why in ended.problem, (name, ended)
    assert not (tmp_path / "started").exists()
    assert victim.read_text() == "of the worker"


def _replace_pipe(path: Path, order: str, victim: Path) -> None:
    path.write_text(order)
    path.with_name(PRINTED).unlink()
    path.with_name(PRINTED).symlink_to(victim)


def test_a_pod_without_a_runtime_or_a_user_for_the_run_says_so(stub: Runtime, tmp_path: Path) -> None:
    attempt = Attempt(stub, tmp_path)
    os.chown(attempt.workspace, 0, 0)
    attempt.start("true")
    assert "the user of its run" in attempt.ended().problem
    told: list[ContainerTold] = []
    without = ContainerUse(
        pod=None, spec={}, workspace=tmp_path, name="n", threads=lambda _, work: work(), clock=CLOCK,
        answer=told.append,
    )  # fmt: skip
    without.hear(ContainerWanted())
    without.close()
    assert [(each.code, "PODFLEET_CONTAINERS" in each.problem) for each in told] == [("NOT_AVAILABLE", True)]


def test_an_order_shows_no_values() -> None:
    order = ContainerOrder(words=["true"], folder="/", variables={"TOKEN": SECRET})
    assert SECRET not in repr(order)
