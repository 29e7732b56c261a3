"""Names the processes that compute on devices, and whose they are: this worker's, another slot's, others'.

Law: only a process that the machine shows is named. What runs in another container is not seen. Which slot a
process belongs to is said by a child of the slots' own supervisor alone, which no program can become.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pod_worker.machine.names import name_of
from pod_worker.slots.division import Slot

FOREIGN_MAX: Final = 16
ABOVE_MAX: Final = 256  # processes above one, which a damaged list could make endless
NAME_BYTES_MAX: Final = 64
COMMAND_BYTES_MAX: Final = 64 * 1024
PROC: Final = Path("/proc")
ARGUMENT: Final = b"--slot="


@dataclass(frozen=True, slots=True)
class Computing:
    """A process that computes on a device: its name and pid, and whether it stands below this worker.

    `slot` is the number of the slot of this pod to which it belongs, None for this worker's and strangers.
    """

    words: str
    is_ours: bool
    slot: int | None = None

    def __str__(self) -> str:
        return self.words if self.slot is None else f"{self.words}, slot {self.slot}"


@dataclass(frozen=True, slots=True)
class Family:
    """What tells processes apart: the worker, and the supervisor of its pod's slots, where it has one."""

    worker: int
    supervisor: int | None = None
    proc: Path = PROC

    @classmethod
    def here(cls, slot: Slot | None = None) -> Family:
        """Return that of this process."""
        return cls(os.getpid(), None if slot is None else slot.supervisor)

    def find(self, pids: Iterable[int]) -> Iterator[Computing]:
        """Yield each of these processes; one that has ended, or is not to be seen, is left out."""
        for pid in pids:
            with suppress(OSError, ValueError, IndexError):
                top, parent = self._way_up(pid)
                is_slot = parent is not None and parent == self.supervisor
                slot = self._slot(top) if is_slot and top != self.worker else None
                yield Computing(f"{self._name(pid)} (pid {pid})", top == self.worker, slot)

    def _way_up(self, pid: int) -> tuple[int, int | None]:
        """Return this worker, or the worker of another slot, above a process, and the parent of that."""
        for _ in range(ABOVE_MAX):
            if pid == self.worker:
                return pid, self.supervisor
            fields = (self.proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            above = int(fields[1])
            if above == self.supervisor or above <= 1:
                return pid, above
            pid = above
        return pid, None

    def _slot(self, worker: int) -> int | None:
        with (self.proc / str(worker) / "cmdline").open("rb") as opened:
            words = opened.read(COMMAND_BYTES_MAX).split(b"\0")
        said = next((each.removeprefix(ARGUMENT) for each in words if each.startswith(ARGUMENT)), b"")
        found = Slot.read(said.decode(errors="replace"))
        return None if found is None else found.number

    def _name(self, pid: int) -> str:
        with (self.proc / str(pid) / "comm").open("rb") as opened:
            return name_of(opened.read(NAME_BYTES_MAX).decode(errors="replace").strip()) or "a process"
