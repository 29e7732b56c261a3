"""Names the processes that compute on the worker's devices and do not belong to it.

Law: only a process that the machine shows is named. What runs in another container is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pod_worker.machine.names import name_of

FOREIGN_MAX: Final = 16
ABOVE_MAX: Final = 256  # processes above one, which a damaged list could make endless
NAME_BYTES_MAX: Final = 64
PROC: Final = Path("/proc")


def foreign(pids: Iterable[int], worker: int | None = None, proc: Path = PROC) -> list[str]:
    """Return the name and pid of each process that does not stand below the worker, at most `FOREIGN_MAX`."""
    ours = os.getpid() if worker is None else worker
    found = []
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):  # it has ended, or is not to be seen
            if not _is_below(pid, ours, proc):
                found.append(f"{_name(pid, proc)} (pid {pid})")
    return found[:FOREIGN_MAX]


def _is_below(pid: int, ours: int, proc: Path) -> bool:
    for _ in range(ABOVE_MAX):
        if pid == ours:
            return True
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        pid = int(fields[1])
        if pid <= 1:
            return False
    return False


def _name(pid: int, proc: Path) -> str:
    with (proc / str(pid) / "comm").open("rb") as opened:
        return name_of(opened.read(NAME_BYTES_MAX).decode(errors="replace").strip()) or "a process"
