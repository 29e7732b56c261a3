"""One process of the stack: started in a session of its own, ended with all that it started.

A session of its own keeps the terminal's Ctrl-C away from it, so that the supervisor alone
decides the order in which things stop.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.runtime.errors import ConfigError
from podfleet.embedded.private_file import private_directory

DIE_WITH_PARENT: Final = Path(__file__).with_name("die_with_parent.py")
LOG_BYTES_MAX: Final = 16 * 1024 * 1024
TAIL_BYTES_MAX: Final = 2_000
PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute; secrets travel in the environment, never in the arguments."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """A process, distinguished from a later one with the same number by the moment of its start."""

    pid: int
    started: str


class Process:
    """A started command. The caller must call `kill` in the end, whatever happened."""

    def __init__(self, command: Command, log: Path) -> None:
        """Start `command`, its output appended to `log`.

        The calling thread has to live as long as the process shall: the kernel kills the
        process when that thread ends.
        """
        program = shutil.which(command.argv[0])
        if program is None:
            raise ConfigError([f"the program {command.argv[0]} does not exist or may not be executed"])
        private_directory(log.parent)
        _rotate(log)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(DIE_WITH_PARENT),
                    str(os.getpid()),
                    program,
                    *command.argv[1:],
                ],
                env=dict(command.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._family: frozenset[Member] = frozenset()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def status(self) -> int | None:
        """Return its exit status, or the signal that ended it as a negative number; None while it lives."""
        return self._popen.poll()

    def end(self) -> str | None:
        """Return in words how the process ended, or None while it lives."""
        status = self.status()
        if status is None:
            return None
        return f"exited with status {status}" if status >= 0 else f"was killed by {_signal_name(-status)}"

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the process itself: what it started is its own business, at first."""
        self._family = descendants(self.pid)
        if self._popen.poll() is None:
            self._popen.terminate()

    def kill(self) -> None:
        """End the process, its group and whatever of its family is left, and wait for its end."""
        family = self._family | descendants(self.pid)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        for member in family:
            if started(member.pid) == member.started:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)


def descendants(pid: int) -> frozenset[Member]:
    """Return the living processes that descend from `pid`; none where there is no /proc."""
    children: dict[int, list[Member]] = {}
    for entry in PROC.glob("[0-9]*/stat"):
        fields = _stat(entry)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(Member(int(entry.parent.name), fields[19]))
    found: set[Member] = set()
    ancestors = [pid]
    while ancestors:
        for member in children.get(ancestors.pop(), []):
            found.add(member)
            ancestors.append(member.pid)
    return frozenset(found)


def started(pid: int) -> str | None:
    """Return the kernel's moment of start of `pid`, or None when there is no such process."""
    fields = _stat(PROC / str(pid) / "stat")
    return None if fields is None else fields[19]


def tail(log: Path) -> str:
    """Return the last lines of `log`, for an error message."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES_MAX))
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def _stat(path: Path) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name: state, parent, group, session, ..."""
    try:
        text = path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    return text.rpartition(")")[2].split()  # the name may hold spaces and brackets


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _rotate(log: Path) -> None:
    """Keep one older log, so that a stack that runs for months does not fill the disk at restarts."""
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_suffix(".old"))
