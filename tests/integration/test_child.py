"""Real child processes: what they say, how they end, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from events.catalog import ENDS
from events.delivery.pipe import LINE_MAX_BYTES, FactFrame, FromChild, Made, Ready, Shown, Start, encode
from events.runtime.clock import SystemClock
from events.runtime.errors import Transient
from pod_worker.child.exit_status import Exited, NeverStarted, Signalled, failure_for
from pod_worker.child.fork_server import PR_SET_CHILD_SUBREAPER, ForkServer
from pod_worker.child.main import load_what_works
from pod_worker.child.pipe_reader import PipeReader, log_frame
from pod_worker.child.process import Child, ChildOptions, Exit, Heard, allowed, oom_kills, secrets_of

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0  # of every wait for something that must happen
CLOCK = SystemClock()
ENVIRON = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}

# A child with a pipeline of the test's own, in place of the registered ones.
DRILL = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
from events.catalog import *
from events.kinds.experiment import NodeCompleted, NodeCreated
from pod_worker.child import fork_server_main, main as child_main

{pipeline}

if __name__ == "__main__":
    program = fork_server_main if any("--socket" in each for each in sys.argv) else child_main
    child_main.leave(program.main(sys.argv[1:], lambda kinds: {{"probe": run}}))
"""

# A fork server for all tests: its children run the pipeline that lies beside their workspace, else the probe.
DRILL_SERVER = """
import os, signal, subprocess, sys, threading, time
import numpy.random
from pathlib import Path
from events.catalog import *
from events.kinds.experiment import NodeCompleted, NodeCreated
from pod_worker.child import fork_server_main, main as child_main
from stages.registry import load

(probe,) = load(["probe"]).values()

def run(context):
    drill = context.workspace.parent / "pipeline.py"
    if not drill.exists():
        return probe(context)
    names = dict(globals())
    exec(compile(drill.read_text(), str(drill), "exec"), names)
    return names["run"](context)

child_main.leave(fork_server_main.main(sys.argv[1:], lambda kinds: {"probe": run}))
"""

# A child whose second pipeline loads when somebody writes into a pipe.
LOADING = """
import os, sys
from pathlib import Path
from pod_worker.child import main as child_main

def run(context):
    context.log("ran")

def load(kinds):
    if kinds == ["probe"]:
        return {{"probe": run}}
    Path("{gate}").read_text()
    return {load}

child_main.leave(child_main.main(sys.argv[1:], load))
"""

# A process that plays the pod: starts a child, says which processes there are, and waits.
POD = """
import sys, threading
import psutil
from events.runtime.clock import SystemClock
from events.delivery.pipe import Start
from pod_worker.child.process import Child, ChildOptions
from pod_worker.child.fork_server import ForkServer

root, drill, workspace, thread, state = sys.argv[1:]
environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": root}
begun = threading.Event()

def spawn():
    global child, fork_server  # a server that nothing refers to ends
    options = ChildOptions(environ=environ, command=(sys.executable, drill))
    if thread == "forked":
        fork_server = ForkServer(options, SystemClock(), options.command)
        fork_server.start()
        while not fork_server.is_loaded():
            begun.wait(0.01)
        child = fork_server.spawn()
    else:
        child = Child.spawn(options, SystemClock())
    child.wait_ready(60)
    child.start(Start("r", 1, "probe", {}, workspace, workspace), lambda heard: begun.set())

if thread != "other":
    spawn()
else:
    other = threading.Thread(target=spawn)
    other.start()
    other.join()
begun.wait(60)
while not psutil.Process(child.pid).children():
    begun.wait(0.01)
if state == "suspended":
    child.suspend()
print("up", child.pid, flush=True)
threading.Event().wait()
"""

GRANDCHILD = """
def run(context):
    subprocess.Popen(["sleep", "600"])
    context.log("started")
    threading.Event().wait()
"""


@dataclass
class Log:
    """What a listener heard; can be waited on."""

    heard: list[Heard] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, heard: Heard) -> None:
        with self.news:
            self.heard.append(heard)
            self.news.notify_all()

    def wait_for(self, message: str) -> None:
        with self.news:
            assert self.news.wait_for(lambda: message in self.messages(), LIMIT_S), self.heard

    def wait_for_more_than(self, count: int) -> None:
        with self.news:
            assert self.news.wait_for(lambda: len(self.heard) > count, LIMIT_S), len(self.heard)

    def data(self, name: str) -> list[dict[str, Any]]:
        return [one.data for one in self.heard if isinstance(one, FactFrame) and one.type == name]

    def messages(self, level: str | None = None) -> list[str]:
        lines = self.data("ai.run.log")
        return [line["message"] for line in lines if level in (None, line.get("level", "info"))]

    def ends(self) -> list[str]:
        return [one.type for one in self.heard if isinstance(one, FactFrame) and one.type in ENDS]


@dataclass
class Spawner:
    """Starts children of one test, or forks them from a fork server that is `warm`."""

    folder: Path
    stack: contextlib.ExitStack
    warm: ForkServer | None = None
    log: Log = field(default_factory=Log)

    def order(self, kind: str = "probe", **spec: Any) -> Start:
        """Return an order."""
        workspace = self.folder / "workspace"
        workspace.mkdir(exist_ok=True)
        return Start("01KRUN", 1, kind, spec, str(workspace), str(workspace / "restored"))

    def spawn(self, pipeline: str | None = None, **options: Any) -> Child:
        """A child that is ready to run `pipeline` (the source of a function `run`), else the probe."""
        child = self.stack.enter_context(self._born(pipeline, options))
        ready = child.wait_ready(LIMIT_S)
        assert isinstance(ready, Ready), (ready, child.join(LIMIT_S))
        return child

    def _born(self, pipeline: str | None, options: dict[str, Any]) -> Child:
        if self.warm is not None:
            assert not options, "a fork server has its own"
            if pipeline is not None:
                (self.folder / "pipeline.py").write_text(textwrap.dedent(pipeline))
            return self.warm.spawn()
        options = {"environ": ENVIRON, "kinds": ("probe",)} | options
        if pipeline is not None:
            options["command"] = (sys.executable, str(self.script(pipeline)))
        return Child.spawn(ChildOptions(**options), CLOCK)

    def loading(self, load: str) -> tuple[Child, Path]:
        """A child with a probe; its other kind is what `load` gives once somebody writes into the file."""
        script, gate = self.folder / "loading.py", self.folder / "gate"
        os.mkfifo(gate)
        script.write_text(LOADING.format(gate=str(gate), load=load))
        kinds = ("probe", "experiment")
        options = ChildOptions(environ=ENVIRON, kinds=kinds, command=(sys.executable, str(script)))
        return self.stack.enter_context(Child.spawn(options, CLOCK)), gate

    def script(self, pipeline: str) -> Path:
        path = self.folder / "drill.py"
        path.write_text(DRILL.format(pipeline=textwrap.dedent(pipeline)))
        return path

    def start(self, child: Child, kind: str = "probe", **spec: Any) -> None:
        child.start(self.order(kind, **spec), self.log)

    def run(self, pipeline: str | None = None, **spec: Any) -> Exit:
        """Run to the end."""
        child = self.spawn(pipeline)
        self.start(child, **spec)
        return finished(child)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """A fork server that is loaded, from which all tests of forked children have theirs."""
    script = tmp_path_factory.mktemp("fork_server") / "fork_server.py"
    script.write_text(DRILL_SERVER)
    with ForkServer(ChildOptions(environ=ENVIRON), CLOCK, (sys.executable, str(script))) as server:
        server.start()
        assert eventually(server.is_loaded)
        yield server


@pytest.fixture
def way() -> str:
    """How children come to be."""
    return "started"


@pytest.fixture
def spawner(tmp_path: Path, way: str, request: pytest.FixtureRequest) -> Iterator[Spawner]:
    warm = request.getfixturevalue("warm") if way == "forked" else None
    take_in_orphans(way == "forked")
    with contextlib.ExitStack() as stack:
        yield Spawner(tmp_path, stack, warm)
    # A worker that has a fork server takes in orphans. These tests were one: what others leave is not theirs.
    take_in_orphans(False)


def take_in_orphans(do: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(do), 0, 0, 0)


both_ways = pytest.mark.parametrize("way", ["started", "forked"])
forked = pytest.mark.parametrize("way", ["forked"])
# Behind the order there is one code for both: what differs by how a child came to be is tested both ways.
STARTED = pytest.param("started", marks=pytest.mark.long("as forked; an end of each kind is started, too"))
either_way = pytest.mark.parametrize("way", [STARTED, "forked"])


def finished(child: Child) -> Exit:
    end = child.join(LIMIT_S)
    assert end is not None, "the child still runs"
    return end


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait until `condition` holds; say whether it ever did."""
    never, give_up_s = threading.Event(), CLOCK.monotonic_s() + LIMIT_S
    while not (holds := condition()) and CLOCK.monotonic_s() < give_up_s:
        CLOCK.wait(never, 0.005)
    return holds


def is_gone(pid: int) -> bool:
    return state_of(pid) in ("gone", psutil.STATUS_ZOMBIE)  # nobody may reap an orphan here


def state_of(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return "gone"


def fork_servers() -> set[int]:
    """Return the fork servers of this process."""
    return {one.pid for one in psutil.Process().children() if one.name() == "podfleet-warm"}


def descriptors() -> int:
    """Count what this process has open, but no connections: clients of servers make and end them any time."""
    count = 0
    for each in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of this list itself
            count += not os.readlink(f"/proc/self/fd/{each}").startswith("socket:")
    return count


def signals_of(pid: int, mask: str) -> set[int]:
    """Return the signals that a mask of /proc names, such as `SigIgn` or `ShdPnd`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    bits = int(next(line.split()[1] for line in lines if line.startswith(f"{mask}:")), 16)
    return {number for number in range(1, signal.NSIG) if bits >> (number - 1) & 1}


@both_ways
def test_what_a_pipeline_shows_is_heard_in_order_and_before_its_end(spawner: Spawner) -> None:
    spawner.run(
        """
        def run(context):
            for number in range(300):
                context.show(f"{number % 10}", tokens=number)
            context.show("\\ud83d next lap", lap=2)
            return "shown"
        """
    )
    shown = [each for each in spawner.log.heard if isinstance(each, Shown)]
    assert "".join(each.text for each in shown if each.lap == 1) == "0123456789" * 30
    assert "".join(each.text for each in shown if each.lap == 2) == "? next lap"
    assert len(shown) <= 8, "not a piece for each token"
    assert spawner.log.ends() == ["ai.run.completed"]
    assert not isinstance(spawner.log.heard[-1], Shown)


class TestEnds:
    @either_way
    @pytest.mark.parametrize(
        ("end", "final", "code"),
        [
            ("completed", "ai.run.completed", None),
            ("exception", "ai.run.failed", "ValueError"),
            ("retryable", "ai.run.failed", "PROBE_RETRYABLE"),
            ("out_of_memory", "ai.run.failed", "OUT_OF_MEMORY"),
            ("cuda_out_of_memory", "ai.run.failed", "OUT_OF_MEMORY"),
        ],
    )
    def test_an_end_that_the_pipeline_can_tell_is_told_once_and_last(
        self, spawner: Spawner, end: str, final: str, code: str | None
    ) -> None:
        exit_ = spawner.run(seconds=0, events=3, end=end)
        assert exit_.end == Exited(0)
        assert exit_.final == final
        assert spawner.log.ends() == [final]
        last = spawner.log.heard[-1]
        assert isinstance(last, FactFrame)
        assert (last.type, last.data.get("code")) == (final, code)

    @both_ways
    @pytest.mark.parametrize(
        ("end", "expected", "code"),
        [
            ("kill", Signalled(signal.SIGKILL), "KILLED"),
            ("segfault", Signalled(signal.SIGSEGV), "SEGFAULT"),
            ("exit", Exited(3), "EXITED"),
        ],
    )
    def test_an_end_that_the_pipeline_cannot_tell_has_its_evidence(
        self, spawner: Spawner, end: str, expected: Exited | Signalled, code: str
    ) -> None:
        exit_ = spawner.run(seconds=0, events=3, end=end)
        assert exit_.end == expected
        assert exit_.final is None
        assert spawner.log.ends() == []
        assert [one.name for one in spawner.log.heard if isinstance(one, Made)] == ["probe.bin"]
        assert failure_for(exit_.end, oom_evidence=exit_.oom_evidence).code == code

    @both_ways
    def test_a_crash_in_native_code_leaves_the_python_stack(self, spawner: Spawner) -> None:
        exit_ = spawner.run(seconds=0, events=0, end="segfault")
        assert "Segmentation fault" in exit_.last_words
        assert "in _segfault" in exit_.last_words
        assert any("in _segfault" in line for line in spawner.log.messages("warning"))

    @both_ways
    def test_a_hanging_pipeline_obeys_a_request_to_stop(self, spawner: Spawner) -> None:
        child = spawner.spawn()
        spawner.start(child, seconds=0, events=3, end="hang")
        spawner.log.wait_for("probe event 3 of 3")
        assert child.join(0) is None
        child.terminate()
        assert finished(child).end == Exited(0)
        assert spawner.log.ends() == ["ai.run.canceled"]

    @either_way
    def test_a_deaf_pipeline_obeys_nothing_but_a_kill(self, spawner: Spawner) -> None:
        child = spawner.spawn()
        spawner.start(child, seconds=0, events=0, end="deaf")
        assert eventually(lambda: signal.SIGTERM in signals_of(child.pid, "SigIgn"))
        child.terminate()
        assert child.join(0.2) is None
        child.kill()
        assert finished(child).end == Signalled(signal.SIGKILL)
        assert spawner.log.ends() == []

    @either_way
    def test_a_second_end_is_not_told(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                context.emit(RunFailed(code="FIRST", message="by itself"))
                return "and then it returned"
        """
        assert spawner.run(pipeline).final == "ai.run.failed"
        assert spawner.log.ends() == ["ai.run.failed"]

    @both_ways
    def test_a_thread_that_the_pipeline_left_behind_holds_nobody(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                threading.Thread(target=threading.Event().wait).start()
                return "done"
        """
        assert spawner.run(pipeline).end == Exited(0)
        assert spawner.log.ends() == ["ai.run.completed"]

    @either_way
    def test_a_kind_that_the_pod_does_not_have_fails_with_its_reason(self, spawner: Spawner) -> None:
        child = spawner.spawn()
        spawner.start(child, kind="experiment", idea="x")
        assert finished(child).end == Exited(0)
        (failure,) = spawner.log.data("ai.run.failed")
        assert failure["code"] == "NOT_AVAILABLE"
        assert "'experiment'" in failure["message"]

    @either_way
    def test_a_specification_that_cannot_be_read_fails_with_its_reason(self, spawner: Spawner) -> None:
        spawner.run(seconds=-1)
        (failure,) = spawner.log.data("ai.run.failed")
        assert failure["code"] == "CONFIG"
        assert "$.seconds" in failure["message"]


class TestStart:
    def test_a_ready_child_names_its_kinds_and_its_device(self, spawner: Spawner) -> None:
        ready = spawner.spawn().wait_ready(0)
        assert isinstance(ready, Ready)
        assert ready.kinds == ["probe"]
        assert ready.device

    def test_a_child_that_is_not_ready_yet_can_be_asked_again(self, spawner: Spawner) -> None:
        child = spawner.stack.enter_context(
            Child.spawn(ChildOptions(environ=ENVIRON, kinds=("probe",)), CLOCK)
        )
        first = child.wait_ready(0)
        assert isinstance(first, NeverStarted)
        assert first.end is None
        assert isinstance(child.wait_ready(LIMIT_S), Ready)

    @pytest.mark.parametrize(("load", "is_whole"), [("{'experiment': run}", True), ("os._exit(3)", False)])
    def test_a_kind_that_is_loaded_is_told_while_a_heavy_one_is_on_its_way(
        self, spawner: Spawner, load: str, is_whole: bool
    ) -> None:
        child, gate = spawner.loading(load)
        first = child.wait_ready(LIMIT_S)
        assert isinstance(first, Ready)
        assert (first.kinds, first.is_loading) == (["probe"], True)
        gate.write_text("go on")
        answer = child.wait_ready(LIMIT_S)
        if is_whole:
            assert isinstance(answer, Ready)
            assert (answer.kinds, answer.is_loading) == (["experiment", "probe"], False)
            assert child.wait_ready(LIMIT_S) == answer
        else:
            assert isinstance(answer, NeverStarted)
            assert answer.end == Exited(3)

    def test_a_kind_that_is_loaded_runs_while_a_heavy_one_is_on_its_way(self, spawner: Spawner) -> None:
        child, _ = spawner.loading("None")  # it never gets so far
        assert isinstance(child.wait_ready(LIMIT_S), Ready)
        spawner.start(child)
        assert finished(child).end == Exited(0)
        assert spawner.log.messages() == ["ran"]

    def test_a_child_that_dies_before_it_is_ready_is_known_at_once_with_its_last_words(
        self, spawner: Spawner, tmp_path: Path
    ) -> None:
        script = tmp_path / "broken.py"
        script.write_text("import no_such_module_here\n")
        options = ChildOptions(environ=ENVIRON, command=(sys.executable, str(script)))
        child = spawner.stack.enter_context(Child.spawn(options, CLOCK))
        answer = child.wait_ready(LIMIT_S)
        assert isinstance(answer, NeverStarted)
        assert answer.end == Exited(1)
        words = finished(child).last_words
        assert "No module named 'no_such_module_here'" in words
        assert failure_for(answer, oom_evidence=False).code == "START_FAILED"

    def test_a_program_that_is_not_there_is_told_at_spawn(self, tmp_path: Path) -> None:
        before = descriptors()
        with pytest.raises(Transient, match="cannot start"):
            Child.spawn(ChildOptions(environ=ENVIRON, command=(str(tmp_path / "none"),)), CLOCK)
        assert descriptors() == before

    def test_a_pipeline_that_cannot_be_imported_does_not_take_the_others_off_the_pod(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert list(load_what_works(["no_such_kind", "probe"])) == ["probe"]
        assert "no_such_kind" in capsys.readouterr().err

    def test_an_order_to_a_dead_child_is_no_error_and_its_end_is_told(self, spawner: Spawner) -> None:
        child = spawner.spawn()
        child.kill()
        finished(child)
        spawner.start(child)
        assert finished(child).end == Signalled(signal.SIGKILL)

    def test_a_child_without_an_order_goes_when_it_is_asked(self, spawner: Spawner) -> None:
        child = spawner.spawn()
        child.terminate()
        exit_ = finished(child)
        assert (exit_.end, exit_.final) == (Signalled(signal.SIGTERM), None)

    def test_a_child_goes_quietly_when_the_orders_end(self) -> None:
        events, events_of_child = os.pipe()
        orders_of_child, orders = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-m", "pod_worker.child.main", "--kinds", "probe",
             f"--events-fd={events_of_child}", f"--orders-fd={orders_of_child}"],
            pass_fds=(events_of_child, orders_of_child), env=ENVIRON, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(orders_of_child)
        os.close(events_of_child)
        os.close(orders)
        assert child.communicate(timeout=LIMIT_S)[1] == b""
        assert child.returncode == 0
        os.close(events)

    def test_every_descriptor_is_given_back(self, spawner: Spawner) -> None:
        gc.collect()  # what other tests of this process left may go at any time: only growth is ours
        before = descriptors()
        for _ in range(3):
            spawner.run(seconds=0)
        assert descriptors() <= before


class TestHearing:
    @either_way
    def test_ten_thousand_fast_events_arrive_complete_and_in_order(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                with context.stage("probe") as stage:
                    for step in range(10_000):
                        stage.metric("loss", step / 2, step)
                os._exit(0)
        """
        spawner.run(pipeline)
        metrics = spawner.log.data("ai.run.stage_metric")
        assert [metric["step"] for metric in metrics] == list(range(10_000))
        assert metrics[-1] == {"stage": "probe", "name": "loss", "value": 4999.5, "step": 9999}

    @either_way
    def test_threads_do_not_cut_into_each_others_events(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                def speak(number):
                    for step in range(200):
                        context.log(f"{number} {step} " + "x" * 10_000)
                threads = [threading.Thread(target=speak, args=(number,)) for number in range(8)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                return "done"
        """
        spawner.run(pipeline)
        said = [message.split()[:2] for message in spawner.log.messages()]
        for number in range(8):
            assert [step for who, step in said if who == str(number)] == [str(step) for step in range(200)]
        assert len(said) == 1600

    @either_way
    def test_all_that_was_written_before_a_kill_is_heard(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                for step in range(300):
                    context.log(f"event {step}")
                    print(f"line {step}")
                os.kill(os.getpid(), signal.SIGKILL)
        """
        child = spawner.spawn(pipeline)

        def listen_late(heard: Heard) -> None:
            eventually(lambda: state_of(child.pid) == "gone")
            spawner.log(heard)

        child.start(spawner.order(), listen_late)
        assert finished(child).end == Signalled(signal.SIGKILL)
        messages = spawner.log.messages()
        for word in ("event", "line"):
            assert [m for m in messages if m.startswith(word)] == [f"{word} {step}" for step in range(300)]

    def test_what_is_printed_between_two_reads_still_comes_before_its_event(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pipes = {name: os.pipe() for name in ("events", "stdout", "stderr", "death")}
        readers = {name: reader for name, (reader, _) in pipes.items()}
        for fd in readers.values():
            os.set_blocking(fd, False)
        read = os.read

        def read_late(fd: int, size: int) -> bytes:
            """The child prints and speaks after it was seen that it spoke, and before that is read."""
            if fd == readers["events"] and pipes["death"][1] in still_open:
                os.write(pipes["stdout"][1], b"printed\n")
                os.write(pipes["events"][1], encode(log_frame("said", "info")))
                still_open.remove(pipes["death"][1])
                os.close(pipes["death"][1])
            return read(fd, size)

        still_open = [writer for _, writer in pipes.values()]
        monkeypatch.setattr(os, "read", read_late)
        os.write(pipes["events"][1], encode(log_frame("first", "info")))
        hearing = PipeReader(**readers)
        log: list[FromChild] = []
        hearing.listen(log.append)
        assert [frame.data["message"] for frame in log if isinstance(frame, FactFrame)] == [
            "printed",
            "first",
            "said",
        ]
        hearing.close()
        for fd in still_open:
            os.close(fd)

    @both_ways
    def test_what_was_printed_before_an_event_comes_before_it(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                for step in range(500):
                    print(f"printed {step}")
                    context.log(f"said {step}")
                sys.stdout.write("no line end")
                return "done"
        """
        spawner.run(pipeline)
        messages = spawner.log.messages()
        place = {message: index for index, message in enumerate(messages)}
        assert all(place[f"printed {step}"] < place[f"said {step}"] for step in range(500))
        assert "no line end" in messages

    @both_ways
    def test_standard_output_is_information_and_standard_error_a_warning(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                print("to out", "\\udcff", "ok")
                print("to err", file=sys.stderr)
                subprocess.run(["sh", "-c", "printf 'bytes \\\\377\\\\376 and on\\\\n\\\\n'"])
                os.write(1, b"10%\\r20%\\r100%\\n")
                os.write(1, b"y" * 20_000 + b"\\n")
                return "done"
        """
        spawner.run(pipeline)
        assert spawner.log.messages("warning") == ["to err"]
        lines = spawner.log.messages("info")
        assert lines[0] == "to out \\udcff ok"
        assert lines[1] == "bytes \ufffd\ufffd and on"
        assert lines[2] == "100%"
        assert [len(line) for line in lines[3:]] == [8_000, 8_000, 4_000]

    def test_a_broken_frame_is_a_warning_and_the_run_goes_on(self, spawner: Spawner) -> None:
        pipeline = f"""
            def run(context):
                fd = next(int(a.partition("=")[2]) for a in sys.argv if a.startswith("--events-fd"))
                os.write(fd, b"garbage\\n")
                os.write(fd, b'{{"type":"unheard of"}}\\n')
                os.write(fd, b"z" * {LINE_MAX_BYTES + 1} + b"\\n")
                context.log("still here")
                os.write(fd, b'{{"type":"said"')
                os._exit(3)
        """
        spawner.run(pipeline)
        *_, first, second, third, last = spawner.log.messages("warning")
        assert "could not be read" in first
        assert "could not be read" in second
        assert f"more than {LINE_MAX_BYTES} bytes" in third
        assert last == "the pipeline's process ended in the middle of a frame"
        assert spawner.log.messages("info") == ["still here"]

    @either_way
    def test_a_listener_that_raises_ends_the_child_and_is_heard_of(self, spawner: Spawner) -> None:
        child = spawner.spawn()

        def refuse(heard: Heard) -> None:
            raise OSError(28, "the disk is full")

        child.start(spawner.order(end="hang"), refuse)
        with pytest.raises(OSError, match="the disk is full"):
            child.join(LIMIT_S)
        assert is_gone(child.pid)

    @either_way
    def test_a_child_can_be_left_though_its_listener_is_stuck(
        self, spawner: Spawner, caplog: pytest.LogCaptureFixture
    ) -> None:
        stuck = threading.Event()

        def listen(heard: Heard) -> None:
            spawner.log(heard)
            stuck.wait(LIMIT_S)

        with spawner.spawn() as child:
            child.start(spawner.order(end="hang"), listen)
            spawner.log.wait_for_more_than(0)
        assert is_gone(child.pid)
        assert "child.unheard" in caplog.messages
        stuck.set()
        assert finished(child).end == Signalled(signal.SIGKILL)

    @either_way
    def test_an_event_that_nobody_could_take_becomes_an_error_line(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                with context.stage("s") as stage:
                    stage.metric("loss", float("nan"))
                    context.emit(NodeCreated(stage="s", node="n", plan="p", params={"x": object()}))
                    context.emit(ValidationAutoCompleted(verdict="pass", scores={"x": ["y" * 100] * 10_000}))
                    stage.metric("loss", 0.5)
                return "done"
        """
        exit_ = spawner.run(pipeline)
        assert exit_.final == "ai.run.completed"
        nan, strange, large = spawner.log.messages("error")
        assert nan.startswith("ai.run.stage_metric was not reported")
        assert strange.startswith("ai.node.created was not reported")
        assert large.startswith("ai.validation.auto_completed was not reported")
        assert [metric["value"] for metric in spawner.log.data("ai.run.stage_metric")] == [0.5]

    @either_way
    def test_numbers_of_numpy_travel_as_numbers(self, spawner: Spawner) -> None:
        pipeline = """
            import numpy
            def run(context):
                with context.stage("s") as stage:
                    stage.metric("loss", numpy.float32(0.25), numpy.int64(3))
                return "done"
        """
        spawner.run(pipeline)
        assert spawner.log.data("ai.run.stage_metric") == [
            {"stage": "s", "name": "loss", "value": 0.25, "step": 3}
        ]

    @either_way
    def test_a_long_line_loses_its_middle_and_says_so(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                context.log("begin" + "x" * 1_000_000 + "end \\ud800")
                return "done"
        """
        spawner.run(pipeline)
        (message,) = spawner.log.messages("info")
        assert message.startswith("begin")
        assert message.endswith("end \\ud800")
        assert "characters left out" in message

    @either_way
    def test_an_end_is_told_however_long_or_strange_it_is(self, spawner: Spawner) -> None:
        pipeline = """
            class Odd(Exception): pass
            Odd.__name__ = "O" * 500

            def run(context):
                raise Odd("begin" + "\\ud800" + "\\0" * 1_000_000 + "end")
        """
        assert spawner.run(pipeline).final == "ai.run.failed"
        (failure,) = spawner.log.data("ai.run.failed")
        assert len(failure["code"]) == 200
        assert failure["message"].startswith("begin")
        assert failure["message"].endswith("end")
        assert failure["traceback"].endswith("end\n")

    @either_way
    def test_a_failure_without_a_code_is_told_all_the_same(self, spawner: Spawner) -> None:
        pipeline = """
            from events.runtime.errors import PipelineError
            def run(context):
                raise PipelineError("", "no code", retryable=True)
        """
        assert spawner.run(pipeline).final == "ai.run.failed"
        assert spawner.log.data("ai.run.failed") == [
            {"code": "FAILED", "message": ": no code", "retryable": True}
        ]
        assert len(spawner.log.messages("error")) == 1

    @either_way
    def test_an_artifact_comes_with_a_path_that_means_the_same_here(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                os.chdir(context.workspace)
                Path("plot.png").write_bytes(b"x")
                with context.stage("plots"):
                    context.keep(Path("plot.png"))
                return "done"
        """
        spawner.run(pipeline)
        (made,) = [one for one in spawner.log.heard if isinstance(one, Made)]
        path = spawner.folder / "workspace" / "plot.png"
        assert made == Made(path=str(path), name="plot.png", content_type="image/png", stage="plots")

    @either_way
    @pytest.mark.parametrize("name", ["", "n" * 201, "lone \\udcff"])
    def test_a_name_that_no_artifact_can_have_fails_the_run(self, spawner: Spawner, name: str) -> None:
        pipeline = f"""
            def run(context):
                context.reporter.made(Path("x"), name="{name}", content_type="x", stage=None)
        """
        spawner.run(pipeline)
        assert spawner.log.data("ai.run.failed")[0]["code"] == "ValueError"

    @either_way
    def test_a_forked_process_may_not_report(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                forked = os.fork()
                if not forked:
                    try:
                        context.log("from the fork")
                    except RuntimeError:
                        os._exit(7)
                    os._exit(0)
                context.log(f"status {os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])}")
                return "done"
        """
        spawner.run(pipeline)
        assert spawner.log.messages() == ["status 7"]

    def test_what_is_said_before_the_order_goes_to_the_pods_own_log(
        self, spawner: Spawner, caplog: pytest.LogCaptureFixture
    ) -> None:
        spawner.run("print('imported')\ndef run(context): return 'done'")
        assert spawner.log.messages() == []
        said = [vars(record)["said"] for record in caplog.records if record.message == "child.said"]
        assert len(said) == 1
        assert "imported" in said[0]


class TestCancel:
    @both_ways
    def test_code_that_catches_every_exception_cannot_swallow_a_cancel(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                while True:
                    try:
                        context.log("trying")
                        threading.Event().wait(0.01)
                    except Exception:
                        context.log("swallowed")
        """
        child = spawner.spawn(pipeline)
        spawner.start(child)
        spawner.log.wait_for("trying")
        child.terminate()
        exit_ = finished(child)
        assert (exit_.end, exit_.final) == (Exited(0), "ai.run.canceled")
        assert "swallowed" not in spawner.log.messages()

    @forked
    def test_a_count_that_is_canceled_takes_its_processes_with_it(self, spawner: Spawner) -> None:
        child = spawner.spawn(
            """
            from dataclasses import replace
            from events.kinds import KINDS, read_spec
            from stages.kinds.compute import pipeline
            pipeline.cores = lambda: 2

            def run(context):
                spec = read_spec("compute", {"n": 10**10, "progress_interval_s": 0.1})
                return pipeline.run(replace(context, spec=spec, kind=KINDS["compute"]))
            """
        )
        spawner.start(child)
        spawner.log.wait_for("Compute: Count primes <= 10000000000")
        members = [each.pid for each in psutil.Process(child.pid).children()]
        assert len(members) == 2
        child.terminate()
        finished(child)
        assert spawner.log.ends() == ["ai.run.canceled"]
        assert eventually(lambda: all(map(is_gone, members)))

    @either_way
    def test_a_second_request_does_not_break_into_the_clean_up(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                try:
                    context.log("working")
                    threading.Event().wait()
                finally:
                    context.log("cleaning")
                    while not (context.workspace / "go on").exists():
                        time.sleep(0.01)
                    context.log("cleaned")
        """
        child = spawner.spawn(pipeline)
        spawner.start(child)
        spawner.log.wait_for("working")
        child.terminate()
        spawner.log.wait_for("cleaning")
        child.terminate()
        child.terminate()
        (spawner.folder / "workspace" / "go on").touch()
        assert finished(child).final == "ai.run.canceled"
        assert spawner.log.messages() == ["working", "cleaning", "cleaned"]

    @either_way
    @pytest.mark.parametrize(
        "after", [1, 100, pytest.param(1_000, marks=pytest.mark.long("after 1 frame, and after 100"))]
    )
    def test_a_cancel_in_the_middle_of_a_frame_leaves_every_frame_whole(
        self, spawner: Spawner, after: int
    ) -> None:
        pipeline = """
            def run(context):
                step = 0
                while True:
                    context.log(f"{step} " + "x" * 10_000)  # a pipe takes more than 4096 bytes in parts
                    step += 1
        """
        child = spawner.spawn(pipeline)
        go_on = threading.Event()

        def listen(heard: Heard) -> None:
            spawner.log(heard)
            if len(spawner.log.heard) > after:
                go_on.wait(LIMIT_S)

        child.start(spawner.order(), listen)
        spawner.log.wait_for_more_than(after)
        # nobody reads now: the pipe is full, and the child waits with a frame half written
        looks = 20
        assert eventually(lambda: all(state_of(child.pid) == psutil.STATUS_SLEEPING for _ in range(looks)))
        child.terminate()
        assert eventually(lambda: not signals_of(child.pid, "ShdPnd") & {signal.SIGTERM})
        go_on.set()
        assert finished(child).end == Exited(0)
        assert spawner.log.messages("warning") == []
        assert spawner.log.ends() == ["ai.run.canceled"]
        steps = [int(message.split()[0]) for message in spawner.log.messages("info")]
        assert steps == list(range(len(steps)))

    @either_way
    def test_a_cancel_while_a_failure_is_being_described_leaves_exactly_one_end(
        self, spawner: Spawner
    ) -> None:
        pipeline = """
            class Late(Exception):
                def __str__(self):
                    os.kill(os.getpid(), signal.SIGTERM)
                    return "late"

            def run(context):
                raise Late
        """
        exit_ = spawner.run(pipeline)
        assert (exit_.end, exit_.final) == (Exited(0), "ai.run.canceled")
        assert spawner.log.ends() == ["ai.run.canceled"]

    @either_way
    def test_a_cancel_while_an_event_is_being_written_comes_after_the_event(self, spawner: Spawner) -> None:
        pipeline = """
            class Number:
                def item(self):
                    os.kill(os.getpid(), signal.SIGTERM)
                    return 0.5

            def run(context):
                with context.stage("s") as stage:
                    stage.metric("loss", Number())
                    context.log("not reached")
        """
        assert spawner.run(pipeline).final == "ai.run.canceled"
        assert spawner.log.data("ai.run.stage_metric") == [{"stage": "s", "name": "loss", "value": 0.5}]
        assert spawner.log.messages() == []

    @either_way
    @pytest.mark.parametrize("lag", range(12))
    def test_a_cancel_at_any_moment_around_the_end_leaves_exactly_one_end(
        self, spawner: Spawner, lag: int
    ) -> None:
        pipeline = """
            def run(context):
                context.log("almost done")
                for _ in range(1_000): pass
                if context.spec.events % 2:
                    raise ValueError("no")
                return "done"
        """
        child = spawner.spawn(pipeline)
        spawner.start(child, events=lag)
        spawner.log.wait_for("almost done")
        for _ in range(lag * 200):  # moves the signal by microseconds
            pass
        child.terminate()
        exit_ = finished(child)
        assert exit_.end == Exited(0)
        assert len(spawner.log.ends()) == 1
        assert exit_.final == spawner.log.ends()[0]

    @either_way
    def test_a_cancel_that_does_not_interrupt_a_blocking_call_is_noticed_all_the_same(
        self, spawner: Spawner
    ) -> None:
        pipeline = """
            def run(context):
                def strike():
                    # in this thread, so that the main thread sleeps on, as if it had just fallen asleep
                    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
                threading.Timer(0.1, strike).start()
                threading.Event().wait()
        """
        exit_ = spawner.run(pipeline)
        assert (exit_.end, exit_.final) == (Exited(0), "ai.run.canceled")

    @either_way
    def test_ctrl_c_is_the_parents_matter(self, spawner: Spawner) -> None:
        child = spawner.spawn()
        spawner.start(child, seconds=0, events=3, end="hang")
        spawner.log.wait_for("probe event 3 of 3")
        os.kill(child.pid, signal.SIGINT)
        child.terminate()
        assert finished(child).final == "ai.run.canceled"


class TestGroup:
    @either_way
    @pytest.mark.parametrize(
        "end", ["return 'done'", "os._exit(3)", "os.kill(os.getpid(), 9)", "raise ValueError"]
    )
    def test_no_grandchild_survives_the_end(self, spawner: Spawner, end: str) -> None:
        pipeline = f"""
            def run(context):
                context.log(str(subprocess.Popen(["sleep", "600"]).pid))
                {end}
        """
        spawner.run(pipeline)
        pid = int(spawner.log.messages("info")[0])
        assert eventually(lambda: is_gone(pid))

    @both_ways
    def test_a_kill_ends_the_whole_group_also_when_it_is_suspended(self, spawner: Spawner) -> None:
        child = spawner.spawn(GRANDCHILD)
        spawner.start(child)
        spawner.log.wait_for("started")
        pids = [child.pid, *(one.pid for one in psutil.Process(child.pid).children(recursive=True))]
        child.suspend()
        assert eventually(lambda: all(state_of(pid) == psutil.STATUS_STOPPED for pid in pids))
        child.kill()
        assert finished(child).end == Signalled(signal.SIGKILL)
        assert eventually(lambda: all(is_gone(pid) for pid in pids))

    @both_ways
    def test_a_suspended_child_stands_still_and_a_resumed_one_goes_on(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                subprocess.Popen(["sleep", "600"])
                while True:
                    context.log("working")
                    time.sleep(0.001)
        """
        child = spawner.spawn(pipeline)
        spawner.start(child)
        spawner.log.wait_for_more_than(10)
        pids = [child.pid, *(one.pid for one in psutil.Process(child.pid).children())]
        assert len(pids) == 2
        child.suspend()
        assert eventually(lambda: all(state_of(pid) == psutil.STATUS_STOPPED for pid in pids))
        used = psutil.Process(child.pid).cpu_times()
        child.terminate()  # is heard later
        assert child.join(0.2) is None
        assert psutil.Process(child.pid).cpu_times() == used
        count = len(spawner.log.heard)
        child.resume()
        spawner.log.wait_for_more_than(count)
        assert finished(child).final == "ai.run.canceled"

    @either_way
    def test_a_daemon_that_escaped_does_not_hold_the_end_up(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                loop = ["sh", "-c", "while :; do echo again; done"]
                daemon = subprocess.Popen(loop, start_new_session=True)
                context.emit(RunUsage(model=str(daemon.pid)))
                return "done"
        """
        try:
            assert spawner.run(pipeline).final == "ai.run.completed"
        finally:
            os.killpg(int(spawner.log.data("ai.run.usage")[0]["model"]), signal.SIGKILL)


class TestPod:
    @pytest.mark.parametrize("thread", ["main", "other", "forked"])
    @pytest.mark.parametrize(
        "state", [pytest.param("running", marks=pytest.mark.long("suspended: no less dies")), "suspended"]
    )
    def test_a_killed_pod_leaves_no_process(self, spawner: Spawner, thread: str, state: str) -> None:
        pod, pids = self._pod(spawner, thread, state)
        assert len(pids) == (
            4 if thread == "forked" else 3
        )  # the child, the grandchild, the guard, the fork server
        pod.kill()
        pod.communicate(timeout=LIMIT_S)
        assert eventually(lambda: all(is_gone(pid) for pid in pids)), [state_of(pid) for pid in pids]

    @pytest.mark.parametrize("thread", ["main", "forked"])
    def test_the_child_dies_with_its_pod_also_when_the_guard_is_gone(
        self, spawner: Spawner, thread: str
    ) -> None:
        pod, pids = self._pod(spawner, thread, "running")
        assert eventually(lambda: {"sh", "sleep"} <= {psutil.Process(pid).name() for pid in pids})
        guard = next(pid for pid in pids if psutil.Process(pid).name() == "sh")
        os.kill(guard, signal.SIGKILL)
        (orphan,) = [pid for pid in pids if psutil.Process(pid).name() == "sleep"]
        child = psutil.Process(orphan).ppid()
        pod.kill()
        pod.communicate(timeout=LIMIT_S)
        try:
            assert eventually(lambda: is_gone(child))
        finally:
            os.kill(orphan, signal.SIGKILL)

    def _pod(self, spawner: Spawner, thread: str, state: str) -> tuple[subprocess.Popen[bytes], list[int]]:
        script = spawner.folder / "pod.py"
        script.write_text(POD)
        drill = spawner.script(GRANDCHILD)
        command = [sys.executable, *map(str, (script, ROOT, drill, spawner.folder)), thread, state]
        pod = subprocess.Popen(command, env=ENVIRON, stdout=subprocess.PIPE)
        spawner.stack.callback(pod.wait)
        spawner.stack.callback(pod.kill)
        assert pod.stdout is not None
        assert pod.stdout.readline().startswith(b"up ")
        return pod, [one.pid for one in psutil.Process(pod.pid).children(recursive=True)]


class TestForkServer:
    def test_the_first_child_is_started_and_later_ones_are_forked(self, spawner: Spawner) -> None:
        options = ChildOptions(environ=ENVIRON, kinds=("probe",))
        with ForkServer(options, CLOCK) as warm:
            assert not warm.is_loaded()
            for _ in range(2):  # the second lets the fork server load, and does not wait for it
                with warm.spawn() as child:
                    assert isinstance(child.wait_ready(LIMIT_S), Ready)
            assert eventually(warm.is_loaded)
            children = [spawner.stack.enter_context(warm.spawn()) for _ in range(3)]
            assert [isinstance(child.wait_ready(LIMIT_S), Ready) for child in children] == [True] * 3
            assert {psutil.Process(child.pid).name() for child in children} == {"podfleet-run"}
            parents = {psutil.Process(child.pid).ppid() for child in children}
            assert parents == {os.getpid()}
            for child in children:
                spawner.start(child, seconds=0, events=3)
                assert finished(child).final == "ai.run.completed"

    def test_a_child_that_was_started_ahead_is_the_first_and_is_ended_where_nobody_wanted_it(
        self, spawner: Spawner
    ) -> None:
        options = ChildOptions(environ=ENVIRON, kinds=("probe",))
        before = set(psutil.Process().children())  # some of which may end meanwhile
        with ForkServer(options, CLOCK) as warm:
            warm.prestart()
            ahead = set(psutil.Process().children()) - before
            with warm.spawn() as child:
                assert child.pid in {each.pid for each in ahead}
                assert isinstance(child.wait_ready(LIMIT_S), Ready)
        with ForkServer(options, CLOCK) as warm:
            warm.prestart()
        assert set(psutil.Process().children()) <= before

    @forked
    def test_each_child_has_chance_of_its_own(self, spawner: Spawner) -> None:
        pipeline = """
            import random
            import numpy

            def run(context):
                context.log(f"{random.random()} {numpy.random.random()}")
                return "done"
        """
        first, second = spawner.spawn(pipeline), spawner.spawn(pipeline)
        for child in (first, second):
            spawner.start(child)
            assert finished(child).final == "ai.run.completed"
        drawn = [number for line in spawner.log.messages("info") for number in line.split()]
        assert len(set(drawn)) == 4

    def test_a_fork_server_that_died_is_replaced_and_children_are_started_meanwhile(
        self, spawner: Spawner
    ) -> None:
        others = fork_servers()
        warm = spawner.stack.enter_context(ForkServer(ChildOptions(environ=ENVIRON, kinds=("probe",)), CLOCK))
        warm.start()
        assert eventually(warm.is_loaded)
        first = spawner.stack.enter_context(warm.spawn())
        assert isinstance(first.wait_ready(LIMIT_S), Ready)
        (lost,) = fork_servers() - others
        os.kill(lost, signal.SIGKILL)
        assert eventually(lambda: not warm.is_loaded())
        started = spawner.stack.enter_context(warm.spawn())
        assert isinstance(started.wait_ready(LIMIT_S), Ready)
        spawner.stack.enter_context(warm.spawn())
        assert eventually(warm.is_loaded)
        spawner.start(first, seconds=0, events=3)  # what was forked from it goes on
        assert finished(first).final == "ai.run.completed"

    @forked
    def test_what_a_pipeline_left_behind_is_buried_when_it_ends(self, spawner: Spawner) -> None:
        pipeline = """
            def run(context):
                daemon = subprocess.Popen(["true"], start_new_session=True)
                context.log(f"left {daemon.pid}")
                os._exit(3)
        """
        child = spawner.spawn(pipeline)
        spawner.start(child)
        assert finished(child).end == Exited(3)
        daemon = int(spawner.log.messages("info")[0].split()[1])
        assert eventually(lambda: is_gone(daemon))
        spawner.spawn()
        assert state_of(daemon) == "gone"


class TestEnvironment:
    SECRETS = ("MONGODB_URL", "PODFLEET_API_KEY", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "MINIO_ENDPOINT")

    def test_no_credential_of_the_pod_reaches_the_child(
        self, spawner: Spawner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in self.SECRETS:
            monkeypatch.setenv(name, "hunter2-hunter2")
        monkeypatch.setenv("OPENAI_API_KEY", "model-key")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        pipeline = """
            def run(context):
                context.log(" ".join(sorted(os.environ)))
                threading.Event().wait()
        """
        child = spawner.spawn(pipeline, environ=os.environ)  # noqa: TID251 - the pod's own, as in its __main__
        spawner.start(child)
        spawner.log.wait_for_more_than(1)
        names = spawner.log.messages()[0].split()
        assert not {name for name in names if name.startswith(("MONGODB", "MINIO", "PODFLEET"))}
        assert "OPENAI_API_KEY" in names
        read = []
        for process in psutil.Process().children():
            with suppress(ProcessLookupError, FileNotFoundError):  # it has ended
                told = [Path(f"/proc/{process.pid}/{file}").read_bytes() for file in ("environ", "cmdline")]
                read.append(b"".join(told))
        assert len(read) >= 2  # the child and its guard
        assert not [each for each in read if b"hunter2" in each]

    def test_a_model_key_that_an_error_quotes_is_told_to_nobody(self, spawner: Spawner) -> None:
        key = "sk-that-the-pipeline-has"
        pipeline = """
            def run(context):
                key = os.environ["OPENAI_API_KEY"]
                print("printed", key, os.environ["ANTHROPIC_API_KEY"])
                context.log(f"logged {key}")
                try:
                    raise ValueError(f"Incorrect API key provided: {key}")
                except ValueError as error:
                    raise RuntimeError("no answer") from error
        """
        environ = ENVIRON | {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": "EMPTY"}
        child = spawner.spawn(pipeline, environ=environ)
        spawner.start(child)
        end = finished(child)
        assert spawner.log.messages() == ["printed *** EMPTY", "logged ***"], "a placeholder is no secret"
        (failure,) = spawner.log.data("ai.run.failed")
        assert "Incorrect API key provided: ***" in failure["traceback"]
        assert key not in str(spawner.log.heard) + end.last_words

    def test_proxies_are_passed_in_both_cases(self) -> None:
        passed = allowed({"HTTPS_PROXY": "http://a", "no_proxy": "b", "HTTP_PROXY": ""})
        assert passed == {
            "HTTPS_PROXY": "http://a", "https_proxy": "http://a", "NO_PROXY": "b", "no_proxy": "b",
        }  # fmt: skip

    @pytest.mark.parametrize(
        "name",
        ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES",
         "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "HF_TOKEN",
         "HF_HOME", "HF_HUB_OFFLINE", "MODEL_PATH", "PODFLEET_ENGINES", "OPENAI_API_KEY", "OPENAI_BASE_URL",
         "ANTHROPIC_API_KEY", "PODFLEET_ENDPOINTS"],
    )  # fmt: skip
    def test_what_a_pipeline_needs_is_passed(self, name: str) -> None:
        assert allowed({name: "x"}) == {name: "x"}

    @pytest.mark.parametrize(
        "name",
        [
            *SECRETS,
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "RUNPOD_API_KEY",
            "MY_PATH",
            "HF_TOKEN_2",
            "OPENAI_ADMIN_KEY",
            "NVIDIA_API_KEY",
            "DATABASE_URL",
        ],
    )
    def test_what_is_not_named_is_not_passed(self, name: str) -> None:
        assert allowed({name: "x"}) == {}

    def test_passwords_of_the_addresses_that_are_passed_are_told_to_nobody(self) -> None:
        addresses = {
            "HTTPS_PROXY": "http://me:of-the-proxy@p",
            "OPENAI_BASE_URL": "https://of-the-gateway@m/v1",
            "PODFLEET_LITERATURE_URL": "https://me:of%20the%20index@i",
            "MONGODB_URL": "mongodb://me:never-passed@db",
        }
        assert set(secrets_of(addresses)) == {
            "of-the-proxy", "of-the-gateway", "of%20the%20index", "of the index",
        }  # fmt: skip

    def test_options_do_not_print_the_environment(self) -> None:
        assert "hunter2" not in repr(ChildOptions(environ={"MONGODB_URL": "hunter2"}))


class TestOutOfMemoryEvidence:
    """The counters as kernels write them, in folders that stand for /proc and /sys/fs/cgroup."""

    def test_the_second_version_of_control_groups_is_read(self, tmp_path: Path) -> None:
        proc, groups = self._machine(tmp_path, "0::/pod/a\n")
        self._write(
            groups / "pod/a/memory.events", "low 0\nhigh 9\nmax 3\noom 4\noom_kill 2\noom_group_kill 0\n"
        )
        assert oom_kills(proc, groups) == 2

    def test_the_first_version_is_read_also_beside_the_second(self, tmp_path: Path) -> None:
        proc, groups = self._machine(tmp_path, "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n")
        self._write(
            groups / "memory/docker/abc/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"
        )
        assert oom_kills(proc, groups) == 5

    def test_inside_a_container_our_group_is_the_root(self, tmp_path: Path) -> None:
        proc, groups = self._machine(tmp_path, "0::/system.slice/docker-abc.scope\n")
        self._write(groups / "memory.events", "oom_kill 1\n")
        assert oom_kills(proc, groups) == 1

    def test_else_the_whole_machine_is_asked(self, tmp_path: Path) -> None:
        proc, groups = self._machine(tmp_path, "0::/\n")
        self._write(proc / "vmstat", "nr_free_pages 10\noom_kill 7\n")
        assert oom_kills(proc, groups) == 7

    def test_without_any_counter_there_is_no_evidence(self, tmp_path: Path) -> None:
        assert oom_kills(tmp_path / "proc", tmp_path / "cgroup") == 0

    def test_this_machine_can_be_asked(self) -> None:
        assert oom_kills() >= 0

    def _machine(self, folder: Path, membership: str) -> tuple[Path, Path]:
        self._write(folder / "proc/self/cgroup", membership)
        return folder / "proc", folder / "cgroup"

    def _write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
