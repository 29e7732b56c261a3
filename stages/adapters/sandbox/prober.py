"""Probes an isolation: lays out decoys, lets a program inside try to reach them, checks the decoys."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stages.adapters.sandbox import escape
from stages.isolation.levels import Candidate, Report, Trial, judge
from stages.isolation.sandbox import Job, JobLimits

SCRIPT: Final = "escape.py"
DECOY_NAME: Final = "PODFLEET_DECOY"
LIMITS: Final = JobLimits(wall_s=180.0, cpu_s=180.0)  # a first import from a slow disk takes its time
MODULES: Final = ("numpy", "torch")  # must work inside where they work outside

# Runs a job by a candidate: with these variables in its watch's environment, and `begun` told
# the watch's process id before the program starts.
Runner = Callable[[Candidate, Job, dict[str, str], Callable[[int], None]], Report]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """In what a probe differs from a generated program."""

    network: bool = False
    is_session: bool = False


@dataclass(frozen=True, slots=True)
class Decoys:
    """What is laid out: a folder, listeners, and how the files looked before."""

    folder: Path
    tcp: socket.socket
    udp: socket.socket
    stream: socket.socket
    datagrams: socket.socket
    abstract: socket.socket
    masked: tuple[str, ...]

    @property
    def work(self) -> Path:
        """The probe's work folder."""
        return self.folder / "work"

    @property
    def canary(self) -> Path:
        """A file that stands for another run's work."""
        return self.folder / "other" / "canary"

    @property
    def given(self) -> Path:
        """A file that the probe may read."""
        return self.folder / "given"

    @property
    def secret(self) -> str:
        """What the canary and the watch's environment hold."""
        return f"secret of {self.folder.name}"

    @property
    def planted(self) -> tuple[Path, ...]:
        """The files that should not come to be."""
        home = os.path.expanduser("~")  # stays as it is where nobody knows it
        places = (self.canary.parent, tempfile.gettempdir(), "/dev/shm", sys.prefix, home, "/")  # noqa: S108
        return tuple(Path(place, f"planted-{self.folder.name}") for place in dict.fromkeys(map(str, places)))

    def questions(self, watch: int) -> escape.Questions:
        """Return the tasks of the program inside."""
        return escape.Questions(
            secret=self.secret,
            canary=str(self.canary),
            given=str(self.given),
            plant=tuple(map(str, self.planted)),
            watch=watch,
            tcp_port=self.tcp.getsockname()[1],
            udp_port=self.udp.getsockname()[1],
            socket_file=self.stream.getsockname(),
            abstract=self.abstract.getsockname()[1:].decode(),
            masked=self.masked,
            modules=tuple(name for name in MODULES if importlib.util.find_spec(name)),
        )


def try_out(
    candidate: Candidate, run: Runner, masked: tuple[str, ...] = (), held: Held | None = None
) -> Trial:
    """Return what a program that is held by this candidate can do; `masked` is what it must not read.

    It is held as generated ones are, or else as `held` says.
    """
    held = held or Held()
    with _decoys(masked) as decoys:
        before = [_state(path) for path in (decoys.canary, decoys.given)]
        job = Job(
            folder=decoys.work,
            script=SCRIPT,
            readable=(decoys.given,),
            limits=LIMITS,
            network=held.network,
            is_session=held.is_session,
        )

        def begun(watch: int) -> None:
            (decoys.work / escape.QUESTIONS).write_text(decoys.questions(watch).encode())

        report = run(candidate, job, {DECOY_NAME: decoys.secret}, begun)
        try:
            answers = escape.Answers.decode((decoys.work / escape.ANSWERS).read_text())
        except OSError:
            words = report.obstacle or report.lost or " ".join(report.tail.split()) or "the probe did not end"
            return Trial(candidate, obstacle=f"it does not work here: {words[-300:]}")
        if answers.missing:
            words = "; ".join(f"{name}: {problem}" for name, problem in answers.missing.items())
            return Trial(candidate, obstacle=f"programs do not work in it: {words[:300]}")
        after = [_state(path) for path in (decoys.canary, decoys.given)]
        return judge(
            candidate,
            answers.worked
            | {
                "planted": _take_away(decoys.planted),
                "canary": before[0] != after[0],
                "given": before[1] != after[1],
                "tcp": _was_called(decoys.tcp),
                "udp": _was_called(decoys.udp),
                "unix": _was_called(decoys.stream) or _was_called(decoys.datagrams),
                "abstract": _was_called(decoys.abstract),
                "signals": report.signals_caught > 0,
            },
            network=held.network,
        )


@contextmanager
def _decoys(masked: tuple[str, ...]) -> Iterator[Decoys]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podfleet-probe-"))).resolve()

        def listening(family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
            listener = stack.enter_context(socket.socket(family, kind))
            listener.setblocking(False)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            return listener

        for name in ("work", "other"):
            (folder / name).mkdir()
        unix = str(folder / "other" / "s")
        decoys = Decoys(
            folder=folder,
            tcp=listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            udp=listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            stream=listening(socket.AF_UNIX, socket.SOCK_STREAM, unix),
            datagrams=listening(socket.AF_UNIX, socket.SOCK_DGRAM, f"{unix}.datagrams"),
            abstract=listening(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{folder.name}"),
            masked=masked,
        )
        decoys.canary.write_text(decoys.secret)
        decoys.given.write_text("may be read")
        (decoys.work / SCRIPT).write_text(Path(escape.__file__).read_text())
        yield decoys


def _was_called(listener: socket.socket) -> bool:
    with suppress(BlockingIOError):
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(16))
        caller, _ = listener.accept()
        caller.close()
        return True
    return False


def _state(path: Path) -> object:
    try:
        found = path.stat()
        return found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ino, path.read_bytes()
    except OSError:
        return None


def _take_away(paths: tuple[Path, ...]) -> bool:
    """Remove what was planted; return whether anything was."""
    found = [path for path in paths if path.exists()]
    for path in found:
        path.unlink(missing_ok=True)  # two names may be one place
    return bool(found)
