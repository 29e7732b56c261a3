"""The processes of the campaign: each ends with its parent, is signalled, and is never left behind.

Law: only the campaign's main thread starts them, because the kernel ends a process on the
leash with the thread that started it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.runtime.clock import Clock
from podfleet.embedded.process import Command, Process, descendants, tail

LOOK_S: Final = 0.02


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; those that end meanwhile get none."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@dataclass(slots=True)
class Program:
    """One program that can be started again and again; `argv` and `environment` stay the same."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    log: Path
    clock: Clock
    is_stopped: bool = False
    process: Process | None = None

    @property
    def pid(self) -> int | None:
        """The process that lives now, None where none does."""
        if self.process is None or self.process.end() is not None:
            return None
        return self.process.pid

    def start(self) -> None:
        """Start the program; one that lives is left alone."""
        if self.pid is None:
            self.reap()
            self.process = Process(Command(self.argv, self.environment), self.log)

    def signal(self, number: int) -> bool:
        """Send a signal to the process itself; False where none lives."""
        pid = self.pid
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        self.is_stopped = number == signal.SIGSTOP or (self.is_stopped and number != signal.SIGCONT)
        return True

    def kill(self) -> bool:
        """End the process with SIGKILL and wait for its end; what it started is its own business."""
        if not self.signal(signal.SIGKILL):
            return False
        self.wait(10.0)
        return True

    def wait(self, limit_s: float) -> str | None:
        """Wait for the end; return it in words, None where the process still lives."""
        deadline_s = self.clock.monotonic_s() + limit_s
        never = threading.Event()
        while self.process is not None:
            end = self.process.end()
            if end is not None:
                self.is_stopped = False
                return end
            if self.clock.monotonic_s() >= deadline_s:
                return None
            self.clock.wait(never, LOOK_S)
        return "was never started"

    def children(self) -> list[int]:
        """Return the processes that descend from this one."""
        pid = self.pid
        return [] if pid is None else [member.pid for member in descendants(pid)]

    def reap(self) -> None:
        """End the process with all that it started."""
        if self.process is not None:
            self.process.kill()
            self.process = None
        self.is_stopped = False

    def last_words(self) -> str:
        """Return the end of the program's log."""
        return tail(self.log)
