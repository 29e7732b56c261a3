"""Limits the processes and threads of a run, so that what else its machine does can start some too.

Law: half of what the machine, or its container, numbers stays for others. The kernel counts all that the user
has, whatever limit they have themselves.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

# What the kernel numbers at most, and what the control group of a container may have; `max` is no limit.
NUMBERED: Final = (
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/sys/fs/cgroup/pids.max",
    "/sys/fs/cgroup/pids/pids.max",
)
TASKS_MIN: Final = 1_024  # what a pipeline on a machine of many processors needs for its threads


def limit_tasks() -> None:
    """Limit the tasks of this process and of all that it starts, for good where it is not root."""
    bound = tasks_max(NUMBERED)
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if most != resource.RLIM_INFINITY:
        bound = min(bound, most)
    resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))


def tasks_max(sources: Iterable[str]) -> int:
    """Return half of the least number in these files, and at least `TASKS_MIN`."""
    numbers = []
    for source in sources:
        with suppress(OSError, ValueError):
            numbers.append(int(Path(source).read_text()))
    return max(TASKS_MIN, min(numbers, default=0) // 2)
