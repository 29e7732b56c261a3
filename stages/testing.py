"""Runs a pipeline in memory, for tests: doubles of everything that a context holds.

`python -m stages.testing` is the other side of `ForkingSandbox`.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

from events.kinds import KINDS
from events.kinds.declaring.fact import Fact
from events.kinds.declaring.spec import Spec
from events.queue.notes import Note
from events.runtime.clock import Clock, SystemClock
from events.runtime.errors import PipelineError
from stages.context import Context
from stages.isolation.sandbox import LOG_TAIL_CHARS, Ended, Isolation, Job, Sandbox, Start
from stages.ports import Reporter, Tools
from stages.ports.checkpoints import Checkpoints, Restored
from stages.ports.live_view import LiveView

F = TypeVar("F", bound=Fact)

RUN_ID: Final = "01K00000000000000000000001"
OUTPUT: Final = "output.txt"
MESSAGE_BYTES: Final = 10_000


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was handed over."""

    path: Path
    name: str
    content_type: str
    stage: str | None


@dataclass(slots=True)
class MemoryCheckpoints:
    """Keeps checkpoints in memory, as they would come back: through JSON.

    A second one made of `kept` is what the next attempt finds.
    """

    attempt: int = 1
    found: Mapping[str, Restored] = field(default_factory=dict)
    kept: dict[str, Restored] = field(default_factory=dict)

    def keep(self, name: str, state: Mapping[str, Any], files: Mapping[str, Path]) -> str | None:
        plain = json.loads(json.dumps(state, allow_nan=False))
        self.kept[name] = Restored(self.attempt, plain, dict(files))
        return None

    def restored(self, name: str) -> Restored | None:
        return self.found.get(name)


@dataclass(slots=True)
class RecordingReporter:
    """Records, in order, the facts and files of a pipeline."""

    facts: list[Fact] = field(default_factory=list)
    files: list[KeptFile] = field(default_factory=list)

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        assert path.is_file()
        self.files.append(KeptFile(path, name, content_type, stage))

    def of(self, kind: type[F]) -> list[F]:
        """Return the facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]


@dataclass(slots=True)
class MemoryNotes:
    """Holds what people wrote; a test may add to it while the pipeline runs."""

    written: list[Note] = field(default_factory=list)

    def all(self) -> Sequence[Note]:
        return tuple(self.written)

    def write(self, text: str, by: str = "somebody") -> None:
        """Add a note."""
        self.written.append(Note(len(self.written) + 1, text, by))


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """What was shown at once."""

    text: str
    lap: int
    values: Mapping[str, float]


@dataclass(slots=True)
class RecordingLiveView:
    """Records, in order, what a pipeline shows."""

    pieces: list[ShownPiece] = field(default_factory=list)

    def show(self, text: str, lap: int, values: Mapping[str, float]) -> None:
        self.pieces.append(ShownPiece(text, lap, dict(values)))

    def text(self, lap: int = 1) -> str:
        """Return the whole text of a lap."""
        return "".join(piece.text for piece in self.pieces if piece.lap == lap)


class NoSandbox:
    """Runs nothing: for pipelines that execute no programs."""

    def isolation(self) -> Isolation:
        return Isolation("none", ("nothing is held in",))

    def run(self, job: Job) -> Ended:
        return Ended(how="not_started", seconds=0.0, message="this sandbox runs nothing")

    def start(self, job: Job, folder: Path, environment: Mapping[str, str]) -> Start:
        raise PipelineError("NO_ISOLATION", "this sandbox starts nothing")


class Started(Protocol):
    """A process, as far as its sandbox asks for it."""

    def wait(self) -> int: ...


def _start(arguments: Sequence[str], orders: socket.socket) -> Started:
    return subprocess.Popen([sys.executable, *arguments], stdin=orders.fileno())


class ForkingSandbox(NoSandbox):
    """Runs each program in a fork of a process that has imported torch: quick, and without any isolation.

    It keeps to the limit of time alone. Used as a context manager, it ends its processes. `start`
    starts what `python *arguments` would start, with a socket in the place of its standard input.
    """

    def __init__(
        self,
        slots: int = 2,
        clock: Clock | None = None,
        start: Callable[[Sequence[str], socket.socket], Started] = _start,
    ) -> None:
        self._clock = clock or SystemClock()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = start(["-m", "stages.testing", str(slots)], theirs)

    def isolation(self) -> Isolation:
        return Isolation("forks", ("nothing is held in",))

    def run(self, job: Job) -> Ended:
        begun_s = self._clock.monotonic_s()
        order = json.dumps([str(job.folder), job.script, job.limits.wall_s]).encode()
        end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with end:
            with theirs:
                socket.send_fds(self._orders, [order], [theirs.fileno()])
            answer = json.loads(end.recv(MESSAGE_BYTES))
        output = job.folder / OUTPUT
        tail = output.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARS:]
        seconds = self._clock.monotonic_s() - begun_s
        return Ended(
            how=answer["how"],
            seconds=seconds,
            log_tail=tail,
            message=answer["message"],
            processor_s=answer["processor_s"],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._orders.close()  # and so it ends
        self._process.wait()


def make_context(
    spec: Spec,
    workspace: Path,
    *,
    reporter: Reporter | None = None,
    checkpoints: Checkpoints | None = None,
    notes: MemoryNotes | None = None,
    tools: Tools | None = None,
    attempt: int = 1,
    clock: Clock | None = None,
    pod: str = "",
    replication_asked: bool = False,
    told: Mapping[str, Any] | None = None,
    live: LiveView | None = None,
) -> Context:
    """Return a context in memory; without `tools` nothing can be executed."""
    return Context(
        run_id=RUN_ID,
        attempt=attempt,
        spec=spec,
        workspace=workspace,
        clock=clock or SystemClock(),
        reporter=reporter or RecordingReporter(),
        checkpoints=checkpoints or MemoryCheckpoints(attempt),
        notes=notes or MemoryNotes(),
        tools=tools or make_tools(),
        pod=pod,
        replication_asked=replication_asked,
        told=told or {},
        kind=next((each for each in KINDS.values() if each.spec is type(spec)), None),
        live=live or RecordingLiveView(),
    )


def make_tools(sandbox: Sandbox | None = None, **values: Any) -> Tools:
    """Return tools of a pod with two slots and no device."""
    return Tools(**{"sandbox": sandbox or NoSandbox(), "slots": 2, "judge_secret": "of tests", **values})


def _serve(slots: int) -> None:
    """Take orders, in as many processes as there are slots: fork for each, and answer how the fork ended."""
    import torch  # noqa: PLC0415 - what takes long is imported once, and here alone

    torch.set_num_threads(1)
    weight = torch.nn.Linear(1, 1)
    torch.optim.AdamW(weight.parameters()).step()  # imports what torch puts off until then

    orders = socket.socket(fileno=sys.stdin.fileno())
    others: list[int] = []
    for _ in range(slots - 1):
        pid = os.fork()
        if pid == 0:
            others.clear()  # they are not this one's
            break
        others.append(pid)
    while True:
        order, fds, *_ = socket.recv_fds(orders, MESSAGE_BYTES, 1)
        if not order:
            break
        folder, script, wall_s = json.loads(order)
        pid = os.fork()
        if pid == 0:
            _execute(Path(folder), script, wall_s)
        _, status, used = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        how = (
            "finished"
            if code == 0
            else "timed_out"
            if code == -signal.SIGALRM
            else "exited"
            if code > 0
            else "killed"
        )
        answer: dict[str, Any] = {
            "how": how,
            "message": "" if code == 0 else f"the program {how.replace('_', ' ')} ({code})",
        }
        answer["processor_s"] = used.ru_utime + used.ru_stime
        with socket.socket(fileno=fds[0]) as asker:
            asker.send(json.dumps(answer).encode())
    for pid in others:
        os.waitpid(pid, 0)


def _execute(folder: Path, script: str, wall_s: float) -> None:
    with _printing_to(folder / OUTPUT):
        os.chdir(folder)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, wall_s)
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as leaving:
            os._exit(leaving.code if isinstance(leaving.code, int) else 1)
        except BaseException:  # noqa: BLE001 - the fork's last line
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    os._exit(0)


@contextmanager
def _printing_to(file: Path) -> Iterator[None]:
    with file.open("w", encoding="utf-8") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        yield
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
