"""One program of a person: started in a session of its own, heard line by line, ended with all that it began.

Law: it cannot outlive the process that started it: the guard of its session reads a pipe that ends with that
process, and then kills whoever is left. Its log takes a bounded place: of more the first and the last part.
"""

from __future__ import annotations

import codecs
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.engines.processes import end_session
from stages.engines.running import END, GUARDED

READ_BYTES: Final = 64 * 1024
FIRST_BYTES_MAX: Final = 192 << 20  # of the log, and as much of its end
LAST_BYTES_MAX: Final = 64 << 20
TAIL_CHARS: Final = 2_000
KILL_S: Final = 30.0


@dataclass(slots=True)
class Output:
    """What a program prints, from a thread of its own: into the log, and to whoever looks now."""

    log: Path
    show: Callable[[str], None]
    printed: int = 0
    tail: str = ""
    _last: bytearray = field(default_factory=bytearray)

    def take(self, stream: IO[bytes]) -> None:
        """Read until the program, and whoever has its output, has ended."""
        text = codecs.getincrementaldecoder("utf-8")("replace")
        with stream, self.log.open("wb") as file:
            while piece := stream.read1(READ_BYTES):  # type: ignore[attr-defined] # a buffered reader
                room = max(0, FIRST_BYTES_MAX - self.printed)
                file.write(piece[:room])
                file.flush()
                self._keep(piece[room:])
                self.printed += len(piece)
                shown = text.decode(piece)
                self.tail = (self.tail + shown)[-TAIL_CHARS:]
                self.show(shown)
            if self._last:
                left_out = self.printed - FIRST_BYTES_MAX - len(self._last)
                file.write(f"\n[... {left_out:,} bytes are left out ...]\n".encode() if left_out else b"")
                file.write(self._last)

    def _keep(self, piece: bytes) -> None:
        self._last += piece
        if len(self._last) > 2 * LAST_BYTES_MAX:
            del self._last[:-LAST_BYTES_MAX]

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

    def code(self) -> int | None:
        """Return its status, the negative number of a signal, or None while it runs."""
        return self.process.poll()

    def stop(self, grace_s: float) -> None:
        """Ask it to end, and end it; does nothing to one that has ended. Whatever it began ends with it."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        left = end_session(self.process.pid, KILL_S)
        if left:
            raise PipelineError("JOB_FAILED", f"processes {left} were killed and did not end", retryable=True)
        self.process.wait()
        self.reader.join(KILL_S)


@contextmanager
def running(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], output: Output, clock: Clock
) -> Iterator[Program]:
    """Start a program in a folder; in the end nothing of it is left. `environment` is all that it has."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", GUARDED, "job", "", sys.executable, END, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
    )
    assert process.stdout is not None
    reader = threading.Thread(target=output.take, args=(process.stdout,), name="job-output", daemon=True)
    reader.start()
    program = Program(process, output, reader, clock)
    try:
        yield program
    finally:
        program.stop(0.0)
