"""The processors, memory and nameless files that a program and its descendants use at this moment.

Law: a measurement is cheap and bounded, and a process that vanishes meanwhile counts nothing. Standard
library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
FILES_OPEN_MAX: Final = 4_096  # looked at, of all processes together
SEEN_MAX: Final = 50_000  # processes whose time is remembered


@dataclass(frozen=True, slots=True)
class Process:
    """One process, from its line in /proc."""

    pid: int
    parent: int
    is_zombie: bool  # ended, and not yet buried
    started_ticks: int  # since the machine did; tells it from a later one of its number
    own_s: float  # of processors, by itself
    cpu_s: float  # with the children that it has waited for
    resident_bytes: int
    threads: int


@dataclass(slots=True)
class Seen:
    """What processes took of processors at the last look at each: never more than all of them took."""

    own_s: dict[tuple[int, int], float] = field(default_factory=dict)

    def note(self, processes: Iterable[Process]) -> None:
        """Take note of processes, as far as there is room."""
        for each in processes:
            key = (each.pid, each.started_ticks)
            if key in self.own_s or len(self.own_s) < SEEN_MAX:
                self.own_s[key] = each.own_s

    def seconds(self) -> float:
        """Return the time of all together."""
        return sum(self.own_s.values())


def descendants(ancestor: int) -> list[Process]:
    """Return every process below `ancestor`; one that is born meanwhile may be missed."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := _process(int(name))) is not None:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        for process in children.pop(waiting.pop(), ()):
            found.append(process)
            waiting.append(process.pid)
    return found


def near_descendants(ancestor: int) -> list[Process]:
    """Return the same at a tenth of the price, perhaps without some who just change their parent."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # not every kernel has these lists
        return descendants(ancestor)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        for pid in _children(waiting.pop()):
            if (process := _process(pid)) is not None:
                found.append(process)
                waiting.append(pid)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
    return children


def _process(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:  # it has ended
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    own, of_children = (sum(map(int, fields[first : first + 2])) for first in (11, 13))
    threads = max(1, int(fields[17]))
    pages = int(fields[21])
    has_ended = fields[0] in (b"Z", b"X")
    if has_ended and threads > 1:  # only its first thread has, whose line says nothing of the others' memory
        has_ended = False
        pages = _pages_of_threads(pid)
    return Process(
        pid=pid,
        parent=int(fields[1]),
        is_zombie=has_ended,
        started_ticks=int(fields[19]),
        own_s=own / _TICKS_PER_S,
        cpu_s=(own + of_children) / _TICKS_PER_S,
        resident_bytes=pages * _PAGE,
        threads=threads,
    )


def _pages_of_threads(pid: int) -> int:
    pages = 0
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/statm", "rb") as file:
                pages = max(pages, int(file.read().split()[1]))
    return pages


def memory_bytes(processes: list[Process], limit_bytes: int) -> int:
    """Return the memory of all together; what they share is counted once where that decides."""
    resident = sum(process.resident_bytes for process in processes)
    if resident <= limit_bytes:
        return resident
    return sum(_proportional_bytes(process) for process in processes)


def _proportional_bytes(process: Process) -> int:
    with suppress(OSError), open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return process.resident_bytes


def oom_kills() -> int:
    """Return how many processes this machine ended for want of memory; 0 if it does not say."""
    with suppress(OSError), open("/proc/vmstat") as counters:
        for line in counters:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def nameless_bytes(processes: list[Process]) -> int:
    """Return what is kept in open files that no folder names any more, or never did."""
    found: dict[tuple[int, int], int] = {}
    looked_at = 0
    for process in processes:
        folder = f"/proc/{process.pid}/fd"
        with suppress(OSError):
            for name in os.listdir(folder):
                if (looked_at := looked_at + 1) > FILES_OPEN_MAX:
                    return sum(found.values())
                with suppress(OSError):
                    each = os.stat(f"{folder}/{name}")
                    if stat.S_ISREG(each.st_mode) and each.st_nlink == 0:
                        found[each.st_dev, each.st_ino] = each.st_blocks * 512
    return sum(found.values())
