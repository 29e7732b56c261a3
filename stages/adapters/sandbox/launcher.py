"""Starts one program held by a plan, for a caller that watches and ends it: its output and end are its own.

Law: standard input, output and session are those of the program. The file of the plan is read, and emptied
before the program begins: whatever it holds later is why that was not to be. SIGTERM reaches the program
itself, also in a namespace of processes, and all of it ends with this process.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from stages.adapters.sandbox import kernel
from stages.adapters.sandbox.entering import enter
from stages.isolation.levels import Plan

NOT_STARTED: Final = 125
# Says of a program that is not there what a shell says.
SHELL: Final = ("/bin/sh", "-c", 'exec "$@"', "program")
OF_SIGNALS: Final = 128  # above it bubblewrap tells, as a shell does, of a signal
STATUS_BYTES_MAX: Final = 4_096
PROBLEM_CHARS_MAX: Final = 500


def main() -> NoReturn:
    """Start the program of the arguments: the file of its plan by number, then its words."""
    file, words = int(sys.argv[2]), (*SHELL, *sys.argv[3:])
    os.set_inheritable(file, False)
    plan = Plan.decode(os.pread(file, os.fstat(file).st_size, 0))
    os.ftruncate(file, 0)
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    if plan.namespaces:
        _Inside(plan, words, file).run()
    _begin(plan, words, file, -1)


def _begin(plan: Plan, words: Sequence[str], file: int, status: int) -> NoReturn:
    """Go on as the program, or say why not."""
    try:
        enter(plan, status)
        line = [*plan.command, *words]
        os.execve(line[0], line, dict(plan.environment))  # noqa: S606
    except OSError as error:
        _tell(file, f"it cannot be started: {error}")
    finally:
        os._exit(NOT_STARTED)


def _tell(file: int, why: str) -> None:
    os.pwrite(file, why[:PROBLEM_CHARS_MAX].encode(), 0)


class _Inside:
    """A program that bubblewrap runs in a namespace of processes, below this one."""

    def __init__(self, plan: Plan, words: Sequence[str], file: int) -> None:
        self._file, self._status = file, b""
        launcher = os.getpid()
        self._heard, told = os.pipe()
        signal.signal(signal.SIGTERM, self._pass_on)
        self._pid = os.fork()
        if self._pid == 0:
            with suppress(OSError):
                kernel.end_with_parent(launcher, signal.SIGKILL)
                _begin(plan, words, file, told)
            os._exit(NOT_STARTED)
        os.close(told)
        os.set_blocking(self._heard, False)

    def run(self) -> NoReturn:
        """Wait for its end, and end as it did."""
        _, ended = os.waitpid(self._pid, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = os.waitstatus_to_exitcode(ended)
        if code > 0 and "exit-code" not in self._fields() and not os.fstat(self._file).st_size:
            _tell(self._file, "bubblewrap did not start it; the log says why")
        number = -code if code < 0 else code - OF_SIGNALS
        if number > 0:
            with suppress(OSError, ValueError):  # no signal has this number
                if number != signal.SIGKILL:
                    signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
        os._exit(code % 256)

    def _pass_on(self, number: int, _frame: object) -> None:
        """Send a signal to the program, else to bubblewrap: what it has not begun does not begin then."""
        target = self._program() or self._pid
        with suppress(ProcessLookupError):
            os.kill(target, number)

    def _program(self) -> int | None:
        """Return the process that the program began as: the oldest child of its namespace's first process."""
        first = self._fields().get("child-pid")
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", errors="replace") as stat:
                    above = int(stat.read().rpartition(")")[2].split()[1])
                if above == first:
                    with open(f"/proc/{name}/status", errors="replace") as status:
                        inner = next(line for line in status if line.startswith("NSpid:"))
                    found.append((int(inner.split()[-1]), int(name)))
        return min(found)[1] if found else None

    def _fields(self) -> dict[str, object]:
        """Return what bubblewrap has told: lines of JSON."""
        with suppress(BlockingIOError):
            while len(self._status) < STATUS_BYTES_MAX and (piece := os.read(self._heard, STATUS_BYTES_MAX)):
                self._status += piece
        fields: dict[str, object] = {}
        for line in self._status.splitlines():
            with suppress(ValueError):
                fields |= json.loads(line)
        return fields
