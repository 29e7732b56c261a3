"""What this machine leaves to a run: cores, memory, room on the disk; read with bounds, from files alone."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from events.runtime.errors import PipelineError

ROOT: Final = Path("/")
FILE_BYTES_MAX: Final = 1 << 20
USABLE: Final = 0.9  # of the memory that is left: the rest of the pod goes on
DISK_LEFT_BYTES: Final = 512 << 20


def cores(root: Path = ROOT) -> int:
    """Return how many cores this process may use: those that it is bound to, and the quota of its group."""
    found = len(os.sched_getaffinity(0))
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").strip().partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        found = min(found, max(1, -(-int(quota) // int(period))))
    return found


def memory_left_bytes(root: Path = ROOT) -> int | None:
    """Return the memory that the machine, or this process's group, has left; None where nothing says it."""
    found = []
    for line in _text(root / "proc/meminfo").splitlines():
        words = line.split()
        if words[:1] == ["MemAvailable:"] and len(words) > 1 and words[1].isdigit():
            found.append(int(words[1]) * 1024)
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit = _text(root / "sys/fs/cgroup" / most).strip()
        now = _text(root / "sys/fs/cgroup" / used).strip()
        if limit.isdigit() and now.isdigit():
            found.append(max(0, int(limit) - int(now)))
    return min(found, default=None)


def need_memory(needed: int, left: int | None, *, lower: str, of: str = "the pod") -> None:
    """Raise `PipelineError` where more is needed than is left, before anything is allocated."""
    if left is not None and needed > USABLE * left:
        raise PipelineError(
            "OUT_OF_MEMORY",
            f"this needs {_mib(needed)} of memory, and {of} has {_mib(left)} left, of which {USABLE:.0%} are "
            f"given to it: lower {lower}, or take a larger pod",
        )


def need_room(folder: Path, needed: int) -> None:
    """Raise `PipelineError` where a file of this size would leave the disk too full."""
    free = shutil.disk_usage(folder).free
    if needed > free - DISK_LEFT_BYTES:
        raise PipelineError(
            "DISK_FULL",
            f"a file of {_mib(needed)} does not fit: {_mib(free)} are free, and {_mib(DISK_LEFT_BYTES)} "
            "stay so; lower bytes",
        )


def file_system_of(folder: Path, root: Path = ROOT) -> str | None:
    """Return the type of the file system that a folder lies on, such as `ext4` or `tmpfs`."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in _text(root / "proc/self/mountinfo").splitlines():
        mount, _, rest = line.partition(" - ")
        if mount.split()[2:3] == [wanted] and rest:
            return rest.split()[0][:40]
    return None


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


def _text(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return file.read(FILE_BYTES_MAX).decode(errors="replace")
    return ""
