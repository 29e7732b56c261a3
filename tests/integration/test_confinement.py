"""A pipeline's process that attacks its worker, from a user of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from events.delivery.pipe import FactFrame, Made, Ready, Start
from events.runtime.clock import SystemClock
from pod_worker.attempt.attempt import RESTORED
from pod_worker.child.fork_server import PR_SET_CHILD_SUBREAPER, ForkServer
from pod_worker.child.process import Child, ChildOptions, Heard
from pod_worker.isolation import confinement, mounts, process_space
from pod_worker.isolation.confinement import Confinement
from pod_worker.isolation.process_space import FIRST_USER, USERS, ProcessSpace, processes
from pod_worker.isolation.task_limit import NUMBERED, tasks_max

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can give away users")

ROOT = Path(__file__).parents[2]
CAN_BOUND = bool(int(Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0], 16) >> 8 & 1)
A_GROUP = 4_321  # nobody's: a worker may be in groups whose files are no run's business
CLOCK = SystemClock()
LIMIT_S = 60.0
ENVIRON = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}

ATTACK = """
import ctypes, os, pwd, resource, signal, subprocess, sys, tempfile, threading
from pathlib import Path
from pod_worker.child import fork_server_main, main as child_main

def got(what, attempt):
    try:
        attempt()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [what]

SHARED = ("/tmp", "/var/tmp", "/dev/shm")

def run(context):
    data, worker = context.workspace.parents[1], os.getppid()
    other, elsewhere = data / "work" / "other-a1", data.parent
    wins = [
        *got("outbox", lambda: (data / "outbox.db").read_bytes()),
        *got("outbox changed", lambda: (data / "outbox.db").open("ab")),
        *got("outbox replaced", lambda: (data / "outbox.db").unlink()),
        *got("token", lambda: (data / "claim.token").read_bytes()),
        *got("key", lambda: (elsewhere / "access.json").read_bytes()),
        *got("settings", lambda: (elsewhere / ".env").read_bytes()),
        *got("names of runs", lambda: list((data / "work").iterdir())),
        *got("another run", lambda: (other / "secret").read_bytes()),
        *got("another run changed", lambda: (other / "mine").write_text("")),
        *got("a folder beside runs", lambda: (data / "work" / "mine").mkdir()),
        *got("source", lambda: (Path(child_main.__file__).parent / "mine.py").write_text("")),
        *got("home of root", lambda: list(Path(pwd.getpwuid(0).pw_dir, ".ssh").iterdir())),
        *got("a user again", lambda: os.setuid(0)),
        *got("environment", lambda: Path(f"/proc/{worker}/environ").read_bytes()),
        *got("memory", lambda: Path(f"/proc/{worker}/mem").open("rb")),
        *got("descriptors", lambda: os.listdir(f"/proc/{worker}/fd")),
        *got("signal", lambda: os.kill(worker, signal.SIGCONT)),
        *got("a program", lambda: subprocess.run(["/bin/cat", data / "outbox.db"], check=True)),
    ]
    context.log(f"wins: {wins}")
    context.log(f"user: {os.getuid()} {os.getgid()} {os.getgroups()}")
    status = Path("/proc/self/status").read_text()
    context.log("no way back: " + str("NoNewPrivs:\\t1" in status and "CapPrm:\\t0000000000000000" in status))
    context.log("bounds: " + next(each for each in status.splitlines() if each.startswith("CapBnd")))
    open_files = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    context.log(f"sockets: {[each for each in open_files if 'socket:' in each]}")
    context.log("restored: " + (context.workspace / "restored" / "old").read_text())
    Path(tempfile.gettempdir(), "mine").write_text("")
    context.log("home: " + os.environ["HOME"] + " " + tempfile.gettempdir())
    (context.workspace / "made").write_text("whole")
    os.chmod(context.workspace / "made", 0o600)
    context.keep(context.workspace / "made")
    escaped = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
    context.log(f"escaped: {escaped.pid}")
    context.log(f"tasks: {resource.getrlimit(resource.RLIMIT_NPROC)}")
    for folder in SHARED:
        Path(folder, f"left-{os.getuid()}", "inner").mkdir(parents=True)
        Path(folder, f"left-{os.getuid()}.txt").write_text("left")
    libc = ctypes.CDLL(None)
    made = [libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)]
    context.log(f"made: {min(made) >= 0}")

if __name__ == "__main__":
    program = fork_server_main if any("--socket" in each for each in sys.argv) else child_main
    child_main.leave(program.main(sys.argv[1:], lambda kinds: {"probe": run}))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A worker's folder that others may enter, so that nothing but users and modes protects what is in it."""
    with tempfile.TemporaryDirectory(prefix="podfleet-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
    # A worker that has a fork server takes in orphans. This test was one: what others leave is not its own.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def a_pod(home: Path) -> Confinement:
    """Put into the folder what a worker has there, and another run."""
    other = home / "data" / "work" / "other-a1"
    other.mkdir(parents=True)
    for name in ("data/outbox.db", "data/claim.token", "access.json", "data/work/other-a1/secret"):
        (home / name).write_text("secret")
        (home / name).chmod(0o600)
    (home / ".env").write_text("PODFLEET_API_KEY=secret")
    (home / ".env").chmod(0o644)
    os.chown(other, 49_999, 49_999)
    other.chmod(0o700)
    (home / "attack.py").write_text(ATTACK)
    os.chmod(home / "attack.py", 0o644)
    return Confinement.by_user(home / "data", ENVIRON)


def messages(heard: list[Heard]) -> dict[str, str]:
    lines: list[str] = [
        str(one.data["message"]) for one in heard if isinstance(one, FactFrame) and one.type == "ai.run.log"
    ]
    return dict(each.split(": ", 1) for each in lines if ": " in each)


def attacked(child: Child, home: Path) -> list[Heard]:
    """Let the child run an attempt to its end; return what it said."""
    workspace = home / "data" / "work" / "r-a1"
    (workspace / RESTORED).mkdir(parents=True)
    (workspace / RESTORED / "old").write_text("state")
    (workspace / RESTORED / "old").chmod(0o600)
    heard: list[Heard] = []
    with child:
        assert isinstance(child.wait_ready(LIMIT_S), Ready)
        child.start(Start("r", 1, "probe", {}, str(workspace), str(workspace / RESTORED)), heard.append)
        assert child.join(LIMIT_S) is not None
    return heard


def left_of(user: int) -> list[str]:
    """Return what a user has left where everybody may write."""
    files = [
        path for folder in ("/tmp", "/var/tmp", "/dev/shm") for path in Path(folder).glob(f"left-{user}*")
    ]
    lists = {kind: Path(f"/proc/sysvipc/{kind}").read_text().splitlines() for kind in ("shm", "msg", "sem")}
    return [
        *map(str, files),
        *(kind for kind, rows in lists.items() for row in rows if str(user) in row.split()),
    ]


def spawned(way: str, options: ChildOptions) -> Any:
    """Return a fork server whose next child is started as a program, or forked."""
    fork_server = ForkServer(options, CLOCK, options.command)
    if way == "forked":
        fork_server.start()
        never = threading.Event()
        while not fork_server.is_loaded():
            CLOCK.wait(never, 0.01)
    return fork_server


@pytest.fixture
def grouped() -> Iterator[None]:
    """Put the worker into a group."""
    before = os.getgroups()
    os.setgroups([*before, A_GROUP])
    yield
    os.setgroups(before)


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("way", ["started", "forked"])
def test_a_pipeline_gets_nothing_of_its_worker(way: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    confined = a_pod(home)
    monkeypatch.chdir(home)
    assert confined.find_gap(ENVIRON) is None
    command = (sys.executable, str(home / "attack.py"))
    with spawned(way, ChildOptions(environ=ENVIRON, command=command, confinement=confined)) as fork_server:
        heard = attacked(fork_server.spawn(), home)
    told = messages(heard)
    assert told["wins"] == "[]"
    user, group, groups = told["user"].split(" ", 2)
    assert user == group, "a group of its own, too"
    assert groups == "[]"
    assert int(user) in range(FIRST_USER, FIRST_USER + USERS)
    assert told["no way back"] == "True"
    assert told["bounds"].endswith("0" * 16) or not CAN_BOUND
    assert told["sockets"] == "[]", "not that on which others ask for a process, too"
    assert told["restored"] == "state", "checkpoints are the user's"
    assert told["tasks"] == str((tasks_max(NUMBERED),) * 2), "fewer than would be all of the machine's"
    assert told["made"] == "True"
    assert left_of(int(user)) == []
    space = confined.space_of(int(user))
    assert told["home"].split() == [str(space.home), str(space.temporary)]
    made = next(one for one in heard if isinstance(one, Made))
    assert Path(made.path).read_text() == "whole", "the worker reads what was made"
    assert not space.home.exists()
    assert not space.temporary.exists()
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(int(told["escaped"])).status() == psutil.STATUS_ZOMBIE, (
            "though it left the group"
        )


def test_a_worker_without_a_way_for_others_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    work = tmp_path / "work"
    confined = Confinement(method="user", work=work, temporary=work, places=(str(work),))
    (tmp_path / "work").mkdir()

    def refuse(*_: object) -> None:
        raise PermissionError(1, "unshare: Operation not permitted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mounts, "_call", refuse)
        gap = confined.find_gap(ENVIRON)
    assert gap is not None
    assert "others cannot enter /tmp" in gap
    assert "chmod o+x" in gap


def test_a_worker_that_may_not_change_users_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(confinement, "become", refuse)
    gap = a_pod(home).find_gap(ENVIRON)
    assert gap is not None
    assert gap.startswith("the worker may not change users: Operation not permitted")


def test_users_of_two_children_differ(home: Path) -> None:
    confined = a_pod(home)
    spaces: list[ProcessSpace] = [confined.make_space() for _ in range(3)]
    assert len({space.number for space in spaces}) == len(spaces)
    for space in spaces:
        space.clear()
    assert not [*confined.work.glob("home-*")]


def test_processes_that_are_faster_than_their_list_are_ended_at_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who starts the next one before its own turn has come is not there when it comes."""
    space = a_pod(home).make_space()
    neighbour, own = (
        subprocess.Popen(["/bin/sleep", "600"], user=user, group=user, extra_groups=[])
        for user in (49_998, space.number)
    )
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda *_: None)
    space.clear()
    assert own.wait(LIMIT_S) == -signal.SIGKILL
    assert neighbour.poll() is None, "nobody else"
    kill(neighbour.pid, signal.SIGKILL)
    neighbour.wait()


@pytest.mark.parametrize("adopts", [True, False])
def test_who_is_in_no_list_of_the_living_is_ended(
    home: Path, adopts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)
    space = a_pod(home).make_space()
    fast = [
        subprocess.Popen(["/bin/sleep", "600"], user=space.number, group=space.number, extra_groups=[])
        for _ in range(2)
    ]

    def listed(*, zombies: bool = False) -> list[tuple[int, int]]:
        return processes(zombies=True) if zombies else []

    monkeypatch.setattr(process_space, "processes", listed)
    space.clear()
    assert [each.wait(LIMIT_S) for each in fast] == [-signal.SIGKILL] * 2


HOPPER = """
import os, resource, sys, time
user = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NPROC, (2_000, 2_000))
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
if not os.fork():
    os.setsid()
    until_s = time.monotonic() + 10
    while time.monotonic() < until_s:
        if os.fork():
            os._exit(0)
"""


@pytest.mark.parametrize("adopts", [True, False])
def test_who_starts_the_next_one_and_ends_again_and_again_is_ended(home: Path, adopts: bool) -> None:
    """In most lists of processes there is none of it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)
    space = a_pod(home).make_space()
    subprocess.run([sys.executable, "-I", "-S", "-c", HOPPER, str(space.number)], check=True)
    space.clear()
    seen = {pid for pid, user in processes(zombies=True) if user == space.number}
    CLOCK.wait(threading.Event(), 0.2)
    assert {pid for pid, user in processes(zombies=True) if user == space.number} <= seen


ORPHAN = """
import os, sys, time
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
if not os.fork():
    os.setsid()
    time.sleep(60)
"""


@pytest.mark.parametrize("adopts", [True, False])
def test_a_single_process_that_outlives_its_parent_is_ended(home: Path, adopts: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)
    space = a_pod(home).make_space()
    subprocess.run([sys.executable, "-I", "-S", "-c", ORPHAN, str(space.number)], check=True)
    space.clear()
    assert space.number not in {user for _, user in processes()}


def test_what_a_killed_worker_left_is_removed_at_the_next_start(home: Path) -> None:
    confined = a_pod(home)
    left = confined.make_space()
    (left.home / "cache").mkdir()
    workspace, kept = confined.work / "01M8FZAGF2KY932128033VGA4B-a1", confined.work / "other"
    (workspace / "work").mkdir(parents=True)
    kept.mkdir()
    left.own(workspace)
    assert confined.find_gap(ENVIRON) is None
    assert (workspace.exists(), kept.exists()) == (False, True)
    assert not left.home.exists()
    assert not left.temporary.exists()


def test_who_outlived_a_killed_worker_is_ended_and_who_has_one_is_not(home: Path) -> None:
    confined = a_pod(home)
    left, held = confined.make_space(), confined.make_space()
    asleep = ["/bin/sh", "-c", "sleep 600 >/dev/null & echo $!"]  # its parent ends at once
    orphan = int(subprocess.check_output(asleep, user=left.number, group=left.number, extra_groups=[]))
    below = subprocess.Popen(["/bin/sleep", "600"], user=held.number, group=held.number, extra_groups=[])
    try:
        assert confined.find_gap(ENVIRON) is None
        assert below.poll() is None
        assert held.home.exists()
        assert not left.home.exists()
        assert (orphan, left.number) not in processes()
    finally:
        below.kill()
        below.wait()
        held.clear()
        left.clear()
