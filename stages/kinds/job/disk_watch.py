"""Ends a job before the disk of its pod is full: the pod can still tell of it, and its other runs go on."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.isolation.disk_use import DiskUse, disk_use, free_bytes
from stages.isolation.levels import DISK_LEFT_MIB

LOOK_S: Final = 1.0
MIB: Final = 1 << 20


@dataclass(slots=True)
class DiskWatch:
    """What a program writes below a folder, and what is left of the disk meanwhile."""

    folder: Path
    clock: Clock
    free_before: int = field(init=False)
    used_before: int = field(init=False)
    left: int = field(init=False)  # bytes; with less no program goes on
    _next_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.free_before = free_bytes(str(self.folder))
        self.used_before = disk_use(str(self.folder), sys.maxsize).used_bytes
        self.left = min(
            DISK_LEFT_MIB * MIB, self.free_before // 2
        )  # a pod with a small disk has its jobs, too

    def look(self) -> None:
        """Look at the disk, once a second. Raises `PipelineError`: DISK_LIMIT or DISK_FULL."""
        now_s = self.clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        free = free_bytes(str(self.folder))
        if free >= self.left:
            return
        use = disk_use(str(self.folder), sys.maxsize)
        written = use.used_bytes - self.used_before
        left = (
            f"the disk of the pod has {free // MIB:,} MiB left, and had {self.free_before // MIB:,} before it"
        )
        if is_its_own(use, written, self.free_before - free):
            raise PipelineError("DISK_LIMIT", f"the program wrote {written // MIB:,} MiB: {left}")
        raise PipelineError("DISK_FULL", f"{left}; the program wrote {written // MIB:,} MiB", retryable=True)


def is_its_own(use: DiskUse, written: int, gone: int) -> bool:
    """Say whether a program filled a disk: it wrote half of what went, or hid what it wrote. Pure."""
    return use.is_hiding or 2 * written >= gone
