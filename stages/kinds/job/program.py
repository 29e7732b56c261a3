"""One program of a person: started in a session of its own, heard line by line, ended with all that it began.

Law: it cannot outlive the process that started it: the guard of its session reads a pipe that ends with that
process, and then kills whoever is left. Its log takes a bounded place: of more the first and the last part.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, Final

from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.engines.processes import descendants, end_session
from stages.engines.running import END, GUARDED, make_way
from stages.isolation.sandbox import Start
from stages.kinds.job.secrets import Secrets

READ_BYTES: Final = 64 * 1024
FIRST_BYTES_MAX: Final = 192 << 20  # of the log, and as much of its end
LAST_BYTES_MAX: Final = 64 << 20
TAIL_CHARS: Final = 2_000
SHOWN_CHARS_MAX: Final = 128 * 1024  # in a second
KILL_S: Final = 30.0
DAEMONS_S: Final = 5.0
READER_S: Final = 10.0
STEP_S: Final = 0.05
OBSTACLE_BYTES_MAX: Final = 2_000
PR_SET_CHILD_SUBREAPER: Final = 36
BARE: Final = {"PATH": os.defpath, "LANG": "C.UTF-8"}


@dataclass(slots=True)
class Output:
    """What a program prints, from a thread of its own: into the log, and to whoever looks now."""

    log: Path
    show: Callable[[str], None]
    clock: Clock
    secrets: Secrets
    printed: int = 0
    tail: str = ""
    file: BinaryIO = field(init=False, repr=False)
    _last: bytearray = field(default_factory=bytearray)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _moment: int = -1
    _room: int = 0  # characters of this moment that are still shown
    _unshown: int = 0

    def __post_init__(self) -> None:
        self.file = self.log.open("w+b")

    def take(self, stream: IO[bytes]) -> None:
        """Read until the program, and whoever has its output, has ended."""
        text = codecs.getincrementaldecoder("utf-8")("replace")
        with stream:
            while piece := stream.read1(READ_BYTES):  # type: ignore[attr-defined] # a buffered reader
                with self._lock:
                    if self.file.closed:
                        return
                    piece = self.secrets.masked(piece)
                    self._write(piece)
                self._show(text.decode(piece))

    def finish(self) -> None:
        """Write the last part, and see that the log lies in its place: the program may have moved it."""
        with self._lock, self.file as file:
            rest = self.secrets.rest()
            self._write(rest)
            self._show(rest.decode(errors="replace"), is_last=True)
            if self._last:
                left_out = self.printed - FIRST_BYTES_MAX - len(self._last)
                file.write(f"\n[... {left_out:,} bytes are left out ...]\n".encode() if left_out else b"")
                file.write(self._last)
                file.flush()
            with suppress(OSError):
                if os.path.samestat(os.lstat(self.log), os.fstat(file.fileno())):
                    return
            make_way(self.log)
            file.seek(0)
            with self.log.open("xb") as copy:
                shutil.copyfileobj(file, copy)

    def _write(self, piece: bytes) -> None:
        room = max(0, FIRST_BYTES_MAX - self.printed)
        self.file.write(piece[:room])
        self.file.flush()
        self.printed += len(piece)
        self._last += piece[room:]
        if len(self._last) > 2 * LAST_BYTES_MAX:
            del self._last[:-LAST_BYTES_MAX]

    def _show(self, text: str, *, is_last: bool = False) -> None:
        """Pass text on to whoever looks now: of much in a moment the beginning, and at last the end."""
        self.tail = (self.tail + text)[-TAIL_CHARS:]
        moment = int(self.clock.monotonic_s())
        if moment != self._moment:
            self._moment, self._room = moment, SHOWN_CHARS_MAX
        if self._unshown and (is_last or self._room == SHOWN_CHARS_MAX):
            self._unshown, text = (
                0,
                f"\n[... {self._unshown:,} characters are in the file alone ...]\n{self.tail}",
            )
        shown = text if is_last else text[: self._room]
        self._room -= min(len(shown), self._room)
        self._unshown += len(text) - len(shown)
        if shown:
            self.show(shown)

    @property
    def last_line(self) -> str:
        """The last line that has something in it."""
        return next((each.strip() for each in reversed(self.tail.splitlines()) if each.strip()), "")


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was started; `code` is how it ended."""

    process: subprocess.Popen[bytes]
    output: Output
    reader: threading.Thread
    clock: Clock
    strangers: frozenset[int] = frozenset()  # that were below this process before
    plan: IO[bytes] | None = None  # of a sandbox: the file of its `Start`

    def code(self) -> int | None:
        """Return its status, the negative number of a signal, or None while it runs.

        Raises `PipelineError` where its sandbox says why it did not start it.
        """
        status = self.process.poll()
        said = (
            b""
            if status is None or self.plan is None
            else os.pread(self.plan.fileno(), OBSTACLE_BYTES_MAX, 0)
        )
        if said and not said.startswith(b"{"):
            why = said.decode(errors="replace")
            raise PipelineError("NO_ISOLATION", f"the sandbox did not start the program: {why}")
        return status

    def stop(self, grace_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Ask it to end, and end it; does nothing to one that has ended. Whatever it began ends with it.

        `meanwhile` is called again and again, and hears what it says last; it takes a moment.
        """
        if self.process.poll() is None:
            self.process.terminate()
            until_s = self.clock.monotonic_s() + grace_s
            while self.process.poll() is None and self.clock.monotonic_s() < until_s:
                meanwhile()
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(STEP_S)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        left = end_session(self.process.pid, KILL_S)
        if left:
            raise PipelineError("JOB_FAILED", f"processes {left} were killed and did not end", retryable=True)
        self.process.wait()
        self._end_daemons()
        self.reader.join(READER_S)

    def _end_daemons(self) -> None:
        """Kill who left the session, and became a child of this process when its parent had ended."""
        until_s, never = self.clock.monotonic_s() + DAEMONS_S, threading.Event()
        while left := self._daemons():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if self.clock.monotonic_s() > until_s:  # the end of this process's own user ends them
                return
            self.clock.wait(never, STEP_S)

    def _daemons(self) -> list[int]:
        found = descendants(os.getpid()).items()
        return [pid for pid, session in found if pid not in self.strangers and session != os.getsid(0)]


@contextmanager
def running(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: Output,
    clock: Clock,
    start: Start | None = None,
) -> Iterator[Program]:
    """Start a program in a folder; in the end nothing of it is left. `environment` is all that it has.

    `start` is that of a sandbox, which has the same environment: what starts there has none of it before.
    """
    strangers = frozenset(descendants(os.getpid()))
    with _planned(start) as plan:
        _adopt(True)
        process = subprocess.Popen(
            ["/bin/sh", "-c", GUARDED, "job", "", sys.executable, END, *_line(words, start, plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment if start is None else BARE),
            start_new_session=True,
            pass_fds=() if plan is None else (plan.fileno(),),
        )
        assert process.stdout is not None
        reader = threading.Thread(target=output.take, args=(process.stdout,), name="job-output", daemon=True)
        reader.start()
        program = Program(process, output, reader, clock, strangers, plan)
        try:
            yield program
        finally:
            try:
                program.stop(0.0)
            finally:
                _adopt(False)


@contextmanager
def _planned(start: Start | None) -> Iterator[IO[bytes] | None]:
    """Open the file of a start, which has no name: secrets are in it."""
    if start is None:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(start.plan)
        file.flush()
        yield file


def _line(words: Sequence[str], start: Start | None, plan: IO[bytes] | None) -> list[str]:
    if start is None or plan is None:
        return [*words]
    return [*start.words, str(plan.fileno()), *words]


def _adopt(is_so: bool) -> None:
    """Have processes below this one become its children when they lose their parent, where a kernel can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(is_so), 0, 0, 0)
