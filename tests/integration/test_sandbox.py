"""Hostile programs, held by each isolation that works on this machine: none gets out, and nothing is left."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from events.runtime.clock import SystemClock
from events.runtime.errors import Canceled, PipelineError
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.isolation.levels import (
    BUBBLEWRAP,
    BUBBLEWRAP_WITHOUT_PROC,
    CANDIDATES,
    FILTER,
    LANDLOCK,
    LIMITS,
    Candidate,
)
from stages.isolation.sandbox import Ended, Job, JobLimits
from stages.kinds.experiment.data.loading import Data, Facts, Part, Sealed, Visible
from stages.kinds.experiment.judging.disguise import Disguised
from stages.kinds.experiment.judging.evaluation_set import write_evaluation_set
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.trials.trial import Bench, write_data
from stages.models.budget import Budget
from tests.integration.programs.hostile import (
    BOMBS,
    ENDINGS,
    EPILOGUE,
    ESCAPES,
    LOCKED,
    PRELUDE,
    SURVIVORS,
)

ROOT = Path(__file__).parents[2]
CLOCK = SystemClock()
SECRET = "sk-a-secret-of-the-worker"
SCRIPT = "program.py"
STRICT = (BUBBLEWRAP, BUBBLEWRAP_WITHOUT_PROC, LANDLOCK)
WATCHED = (BUBBLEWRAP, LANDLOCK, LIMITS)  # one of each way to start and to count
# What is tried in the gate under each isolation: all where it is held or counted in a way of its own, and
# elsewhere what could go another way there. A bubblewrap without /proc has less to attack than one with it.
SHORT: Mapping[str, Mapping[Candidate, Collection[str]]] = {
    "escapes": {
        BUBBLEWRAP: ESCAPES,
        BUBBLEWRAP_WITHOUT_PROC: (
            "read another work folder, straight or by detours", "become somebody else, or somewhere else",
        ),
        LANDLOCK: ESCAPES,
    },
    "bombs": {
        BUBBLEWRAP: BOMBS,
        LANDLOCK: (
            "processes that start processes", "memory by one process", "printing without end",
            "standing still", "one big file", "folders too deep to be looked into",
        ),
        LIMITS: (
            "threads without end", "memory by several processes, each below the limit",
            "files without a name",
        ),
    },
    "survivors": {
        BUBBLEWRAP: ("a process whose first thread is gone",),
        LANDLOCK: SURVIVORS,  # there is no namespace that takes them along
        LIMITS: ("a daemon of two forks and a session of its own",),  # nothing keeps it from a session
    },
    "endings": {  # told by bubblewrap, or by the kernel
        BUBBLEWRAP: ENDINGS,
        LANDLOCK: (
            "with a status", "by abort", "by its own hand", "with as many processes as it may have",
            "with one process more",
        ),
    },
}  # fmt: skip
QUICK = JobLimits(wall_s=60.0, cpu_s=60.0, memory_mib=512, processes=16, output_bytes=1 << 20, disk_mib=64)


def named(candidate: Candidate) -> str:
    return candidate.name


def held(kind: str, names: Collection[str]) -> list[Any]:
    """Return each isolation with each name; those of them that are not in `SHORT` are long."""
    long = pytest.mark.long("some under each isolation, all under one")
    return [
        pytest.param(each, name, marks=() if name in short else long, id=f"{each.name}-{name}")
        for each, short in SHORT[kind].items()
        for name in names
    ]


def under(candidates: Sequence[Candidate], *short: Candidate) -> list[Any]:
    """Return the isolations for a test that asks more of the watch than of them; all but `short` are long."""
    long = pytest.mark.long(f"under {' and '.join(map(named, short))}")
    return [pytest.param(each, marks=() if each in short else long, id=each.name) for each in candidates]


@pytest.fixture(scope="module")
def opened() -> Callable[[Candidate], LocalSandbox]:
    """Return a sandbox with one candidate alone, probed once; skip the test where it does not work."""
    found: dict[Candidate, LocalSandbox | str] = {}

    def open_(candidate: Candidate) -> LocalSandbox:
        if candidate not in found:
            sandbox = LocalSandbox(clock=CLOCK, policy="best", candidates=(candidate,))
            try:
                sandbox.isolation()
            except PipelineError as refusal:
                found[candidate] = refusal.message
            else:
                found[candidate] = sandbox
        each = found[candidate]
        if isinstance(each, str):
            pytest.skip(each)
        return each

    return open_


@pytest.fixture
def strict(request: pytest.FixtureRequest, opened: Callable[[Candidate], LocalSandbox]) -> LocalSandbox:
    """A sandbox from which there should be no way out."""
    return opened(request.param)


@pytest.fixture
def watched(request: pytest.FixtureRequest, opened: Callable[[Candidate], LocalSandbox]) -> LocalSandbox:
    """A sandbox that ends what it has started, whatever else it holds."""
    return opened(request.param)


@dataclass
class Decoys:
    """What a program may want: each stands for something of the worker's, or of another program's."""

    folder: Path
    victim: subprocess.Popen[bytes]  # with a secret in its environment
    listeners: dict[str, socket.socket] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """The program's own folder."""
        return self.folder / "work"

    @property
    def canary(self) -> Path:
        """A file in another work folder."""
        return self.folder / "other" / "canary"

    @property
    def given(self) -> Path:
        """A file that it may read."""
        return self.folder / "given"

    @property
    def planted(self) -> list[str]:
        """Where nothing may come to be."""
        places = (tempfile.gettempdir(), "/dev/shm", "/var/tmp", "/", sys.prefix, self.folder)
        return [f"{place}/planted-{self.victim.pid}" for place in places]

    def names(self) -> str:
        """Return the decoys as a program's first lines."""
        values = {
            "SECRET": SECRET, "CANARY": str(self.canary), "GIVEN": str(self.given), "VICTIM": self.victim.pid,
            "TCP": self.listeners["tcp"].getsockname()[1], "UDP": self.listeners["udp"].getsockname()[1],
            "STREAM": self.listeners["stream"].getsockname(),
            "DATAGRAMS": self.listeners["datagrams"].getsockname(),
            "ABSTRACT": self.listeners["abstract"].getsockname()[1:].decode(), "PLANTED": self.planted,
        }  # fmt: skip
        return "".join(f"{name} = {value!r}\n" for name, value in values.items())

    def states(self) -> list[object]:
        """Return what the files look like from here."""
        return [
            (path.read_bytes(), os.listxattr(path), tuple(path.lstat())[:-3], path.lstat().st_mtime_ns)
            for path in (self.canary, self.given)
        ]

    def callers(self) -> list[str]:
        """Return the listeners that somebody has reached."""
        return [name for name, listener in self.listeners.items() if was_reached(listener)]


def was_reached(listener: socket.socket) -> bool:
    with suppress(BlockingIOError):
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(16))
        listener.accept()[0].close()
        return True
    return False


@pytest.fixture
def decoys(tmp_path: Path) -> Iterator[Decoys]:
    """Decoys laid out for one program; the victim is a living process of our own user."""
    with ExitStack() as stack:
        victim = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"OPENAI_API_KEY": SECRET})
        stack.callback(victim.communicate)
        laid = Decoys(tmp_path, victim)
        for path in (laid.work, laid.canary.parent):
            path.mkdir()
        laid.canary.write_text(SECRET)
        laid.given.write_text("may be read")
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="s")))  # such a path is short
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("stream", socket.AF_UNIX, socket.SOCK_STREAM, f"{sockets}/stream"),
            ("datagrams", socket.AF_UNIX, socket.SOCK_DGRAM, f"{sockets}/datagrams"),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{sockets}"),
        ):
            listener = stack.enter_context(socket.socket(family, kind))
            listener.setblocking(False)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            laid.listeners[name] = listener
        yield laid


def run(sandbox: LocalSandbox, folder: Path, program: str, **changed: Any) -> Ended:
    """Run a program text in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / SCRIPT).write_text(program)
    limits = JobLimits(**{**{name: getattr(QUICK, name) for name in QUICK.__slots__}, **changed})
    return sandbox.run(Job(folder=folder, script=SCRIPT, limits=limits))


def living(folder: Path) -> list[str]:
    """Return the processes that were started for a folder: it is their home, whatever they did since."""
    home, found = f"HOME={folder}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours to look at
            if home in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def lives(process: psutil.Process) -> bool:
    """Return whether a process does anything yet: in a container nobody may bury an orphan."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def temporary(folder: Path) -> list[str]:
    return sorted(name for name in (".tmp", ".shm") if os.path.lexists(folder / name))


@pytest.mark.parametrize(("strict", "escape"), held("escapes", ESCAPES), indirect=["strict"])
def test_there_is_no_way_out(strict: LocalSandbox, decoys: Decoys, escape: str) -> None:
    before = decoys.states()
    (decoys.work / SCRIPT).write_text(decoys.names() + PRELUDE + ESCAPES[escape] + EPILOGUE)
    job = Job(folder=decoys.work, script=SCRIPT, readable=(decoys.given,), limits=QUICK)
    ended = strict.run(job)
    assert [line for line in ended.log_tail.splitlines() if line.startswith("WON")] == []
    assert (ended.how, ended.log_tail.endswith("TRIED\n")) == ("finished", True), ended
    assert decoys.states() == before
    assert [path for path in decoys.planted if os.path.lexists(path)] == []
    assert decoys.callers() == []
    assert decoys.victim.poll() is None
    assert psutil.Process(decoys.victim.pid).status() != psutil.STATUS_STOPPED
    assert (living(decoys.work), temporary(decoys.work)) == ([], [])


@pytest.mark.parametrize(("watched", "name"), held("bombs", BOMBS), indirect=["watched"])
def test_what_takes_too_much_is_ended_by_name(watched: LocalSandbox, tmp_path: Path, name: str) -> None:
    bomb = BOMBS[name]
    ended = run(watched, tmp_path / "work", bomb.program, **bomb.limits)
    assert ended.how == bomb.how, ended
    assert bomb.message in ended.message
    assert ended.seconds < QUICK.wall_s / 2
    assert (living(tmp_path / "work"), temporary(tmp_path / "work")) == ([], [])


@pytest.mark.parametrize(("watched", "name"), held("survivors", SURVIVORS), indirect=["watched"])
def test_nobody_outlives_the_program(watched: LocalSandbox, tmp_path: Path, name: str) -> None:
    ended = run(watched, tmp_path / "work", LOCKED + SURVIVORS[name])
    assert ended.how == "finished", ended
    assert living(tmp_path / "work") == []
    with (tmp_path / "work" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails as long as somebody else has it


@pytest.mark.parametrize(("candidate", "name"), held("endings", ENDINGS))
def test_an_end_is_told_as_it_was(
    opened: Callable[[Candidate], LocalSandbox], tmp_path: Path, candidate: Candidate, name: str
) -> None:
    ending = ENDINGS[name]
    ended = run(opened(candidate), tmp_path / "work", ending.program)
    assert ended.how == ending.how, ended
    assert ending.message in ended.message
    assert ending.tail in ended.log_tail


LURED = """
import os
name = ".tmp"
os.rmdir(name)
os.symlink(OTHER, name)
"""


@pytest.mark.parametrize("strict", under(STRICT, LANDLOCK), indirect=True)
def test_a_link_where_something_of_ours_lies_leads_nobody_astray(
    strict: LocalSandbox, decoys: Decoys
) -> None:
    before = decoys.states()
    lines = decoys.names() + f"OTHER = {str(decoys.canary.parent)!r}\n" + LURED
    for _ in range(2):  # the second finds what the first left
        assert run(strict, decoys.work, lines).how == "finished"
    assert decoys.states() == before
    assert temporary(decoys.work) == []


LINKED = """
import os
def run(task):
    for name in ("report-1.json", "answers-1.npy"):
        os.symlink("{others}/" + name, name)
    os._exit(0)
"""
PIPED = """
import os
def run(task):
    for name in ("report-1.json", "answers-1.npy"):
        os.mkfifo(name)
    os._exit(0)
"""


@pytest.mark.parametrize("strict", under(STRICT, LANDLOCK), indirect=True)
@pytest.mark.parametrize("program", [LINKED, PIPED], ids=["links", "pipes"])
def test_what_is_no_plain_file_is_no_result(strict: LocalSandbox, tmp_path: Path, program: str) -> None:
    """The links lead to the results of another trial, which are as good as any."""
    others = tmp_path / "others"
    others.mkdir()
    (others / "report-1.json").write_text("{}")
    np.save(others / "answers-1.npy", np.full((4, 2), 0.5))
    rows = Part(np.zeros((4, 3), np.float32), np.zeros(4, np.int64))
    facts = Facts(
        name="none", task="classification", outputs=2, image_side=None, blank=0.0,
        classes=("no", "yes"), feature_names=("a", "b", "c"),
    )  # fmt: skip
    bench = Bench(
        facts=facts, data=write_data(tmp_path / "data", Visible(rows, rows, rows)), sandbox=strict,
        limits=QUICK, spending=Budget(clock=SystemClock()), measured=frozenset({"accuracy"}), epochs=1,
        device="cpu",
        secret=Secret("none"), places=tmp_path / "programs",
    )  # fmt: skip
    half = Part(rows.features[:2], rows.targets[:2])
    none = Part(rows.features[:0], rows.targets[:0])
    data = Data(facts, Visible(rows, rows, half), Sealed(half), none, np.arange(12), {}, ())
    judges = write_evaluation_set(tmp_path / "data", Disguised(data), Secret("none")).validation
    assert judges.total == 4, "rows of one target make no canaries"
    trials = bench.run(program.format(others=others), seeds=(1,), judges=judges, folder=tmp_path / "work")
    assert (trials.error or "").startswith("the program left no report")


def environment_of(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "environment.json").read_text())
    return found


TELLING = """
import json, os
from pathlib import Path
Path("environment.json").write_text(json.dumps(dict(os.environ)))
"""
OF_A_PROGRAM = {
    *("PATH", "HOME", "TMPDIR", "LANG", "OMP_NUM_THREADS", "MPLBACKEND", "PYTHONDONTWRITEBYTECODE"),
    "CUDA_VISIBLE_DEVICES",
    *("PWD", "LC_CTYPE"),  # bubblewrap, and Python itself
}


@pytest.mark.parametrize("watched", under(WATCHED, BUBBLEWRAP, LIMITS), indirect=True)
def test_a_program_is_told_nothing_of_the_worker(
    watched: LocalSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OPENAI_API_KEY",
        "MONGODB_URL",
        "PODFLEET_API_KEY",
        "LD_PRELOAD",
        "PYTHONPATH",
        "PYTHONSTARTUP",
    ):
        monkeypatch.setenv(name, SECRET)
    assert run(watched, tmp_path / "work", TELLING).how == "finished"
    told = environment_of(tmp_path / "work")
    assert told.keys() - OF_A_PROGRAM == set()
    assert [name for name, value in told.items() if SECRET in value] == []


@pytest.mark.parametrize("strict", under(STRICT, BUBBLEWRAP, LANDLOCK), indirect=True)
def test_several_programs_run_at_once_without_seeing_each_other(
    strict: LocalSandbox, tmp_path: Path, until: Callable[..., None]
) -> None:
    program = """
import os, time
from pathlib import Path
Path("mine").write_text(os.getcwd())
end = time.monotonic() + 50
while not os.path.exists("all") and time.monotonic() < end:
    time.sleep(0.01)
found = []
for number in range(3):
    try:
        found.append(open(f"../{number}/mine").read())
    except OSError:
        pass
print(found == [os.getcwd()])
"""
    folders = [tmp_path / str(number) for number in range(3)]
    with ThreadPoolExecutor(3) as pool:
        ends = [pool.submit(run, strict, folder, program) for folder in folders]
        until(
            lambda: all((folder / "mine").exists() for folder in folders) or any(end.done() for end in ends)
        )
        assert not any(end.done() for end in ends)
        for folder in folders:
            (folder / "all").touch()
        assert [end.result().log_tail for end in ends] == ["True\n"] * 3


def test_best_is_the_best_that_works_here(opened: Callable[[Candidate], LocalSandbox]) -> None:
    default = LocalSandbox(clock=CLOCK, policy="best")
    isolation = default.isolation()
    possible = []
    for candidate in CANDIDATES:
        with suppress(pytest.skip.Exception):
            possible.append(opened(candidate).isolation())
    assert isolation == min(possible, key=lambda each: len(each.gaps))
    if isolation.is_strict:
        assert LocalSandbox(clock=CLOCK).isolation() == isolation, "strict is the default"


def test_strict_isolation_refuses_where_there_are_gaps_and_says_which(tmp_path: Path) -> None:
    sandbox = LocalSandbox(clock=CLOCK, candidates=(FILTER, LIMITS))
    with pytest.raises(PipelineError) as refusal:
        run(sandbox, tmp_path / "work", "open('ran', 'w')")
    assert refusal.value.code == "NO_ISOLATION"
    for words in (
        "system call filter: a program could ", "resource limits: a program could ",
        "read files outside its folder", "open TCP connections",
        "apt-get install bubblewrap", "PODFLEET_ISOLATION=best", "PODFLEET_ISOLATION=filter",
    ):  # fmt: skip
        assert words in refusal.value.message
    assert not (tmp_path / "work" / "ran").exists()
    stepped = replace(sandbox, policy="filter")
    assert stepped.isolation().name == "system call filter"
    with pytest.raises(PipelineError, match="a filter of system calls is asked for"):
        LocalSandbox(clock=CLOCK, policy="filter", candidates=(LIMITS,)).isolation()


def test_without_a_strict_policy_a_gap_is_told_and_the_program_runs(
    opened: Callable[[Candidate], LocalSandbox], tmp_path: Path
) -> None:
    sandbox = opened(LIMITS)
    assert "open TCP connections" in sandbox.isolation().gaps
    assert run(sandbox, tmp_path / "work", "print('ran')").log_tail == "ran\n"


@pytest.mark.parametrize("watched", under(WATCHED, BUBBLEWRAP, LANDLOCK), indirect=True)
def test_what_is_asked_to_stop_is_gone_when_the_caller_knows(
    watched: LocalSandbox, tmp_path: Path, until: Callable[..., None]
) -> None:
    sandbox = replace(watched, stop=threading.Event())
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(run, sandbox, tmp_path / "work", STUBBORN)
        until(lambda: (tmp_path / "work" / "up").exists() or end.done())
        sandbox.stop.set()
        with pytest.raises(Canceled):
            end.result()
    assert (living(tmp_path / "work"), temporary(tmp_path / "work")) == ([], [])


STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() and os.fork():
    open("up", "w").close()
time.sleep(60)
"""

# A pipeline's process: it has the secrets, and runs one program.
PIPELINE = """
import sys
from pathlib import Path
from events.runtime.clock import SystemClock
from stages.adapters.sandbox.sandbox import SCRIPTS, LocalSandbox, found_machine
from stages.isolation.levels import CANDIDATES, Trial
from stages.isolation.sandbox import Job

candidate = next(each for each in CANDIDATES if each.name == sys.argv[1])
probed = Trial(candidate)  # by the test, which saves a second
sandbox = LocalSandbox(clock=SystemClock(), _machine=found_machine(), _trials={SCRIPTS: (probed,)})
sandbox.run(Job(folder=Path(sys.argv[2]), script="program.py"))
"""


@pytest.mark.parametrize("candidate", under(WATCHED, BUBBLEWRAP, LANDLOCK))
@pytest.mark.parametrize("killed", ["the pipeline", "the watch"])
def test_a_program_does_not_outlive_whoever_started_it(
    opened: Callable[[Candidate], LocalSandbox], tmp_path: Path, until: Callable[..., None],
    candidate: Candidate, killed: str,
) -> None:  # fmt: skip
    opened(candidate)
    work = tmp_path / "work"
    work.mkdir()
    (work / SCRIPT).write_text(STUBBORN)
    command = [sys.executable, "-c", PIPELINE, candidate.name, str(work)]
    environ = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": SECRET}
    with subprocess.Popen(command, env=environ, start_new_session=True) as pipeline:
        until(lambda: (work / "up").exists())
        assert len(living(work)) >= 3
        below = psutil.Process(pipeline.pid).children(recursive=True)
        if killed == "the pipeline":
            pipeline.kill()
        else:
            watch = below[1]  # the first keeps it
            assert watch.parent() == below[0]
            watch.kill()
        until(lambda: not living(work))
        until(lambda: not any(lives(process) for process in below))
        assert pipeline.wait(60) == (-9 if killed == "the pipeline" else 0)
