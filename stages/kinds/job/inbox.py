"""The named pipe into which a program and those below it write, and what is whole of it.

Law: a look takes a bounded time and memory, whatever is written: a line without end is dropped as it comes.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stages.kinds.job.messages import LINE_BYTES_MAX

READ_BYTES: Final = 64 * 1024
READS_MAX: Final = 64  # in one look


@dataclass(slots=True)
class Inbox:
    """The reading end of a named pipe; it stays open for writing, too, so that it never ends."""

    path: Path
    _pipe: int
    _rest: bytes = b""
    _is_dropping: bool = False
    too_long: int = 0

    def lines(self, within_s: float) -> Iterator[bytes]:
        """Yield the whole lines that are there, or that come within a time, at most some megabytes."""
        wait_s = within_s
        for _ in range(READS_MAX):
            if not select.select([self._pipe], [], [], wait_s)[0]:
                return
            wait_s = 0.0
            try:
                piece = os.read(self._pipe, READ_BYTES)
            except BlockingIOError:  # the program reads, too, and was faster
                return
            *whole, self._rest = (self._rest + piece).split(b"\n")
            for line in whole:
                if self._is_dropping:
                    self._is_dropping = False
                elif line:
                    yield line
            if len(self._rest) > LINE_BYTES_MAX:
                self.too_long += not self._is_dropping
                self._is_dropping, self._rest = True, b""


@contextmanager
def inbox(path: Path) -> Iterator[Inbox]:
    """Make a named pipe, and remove it in the end."""
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield Inbox(path, pipe)
    finally:
        os.close(pipe)
        with suppress(OSError):  # the program may have put anything in its place
            path.unlink()
