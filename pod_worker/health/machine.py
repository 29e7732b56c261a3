"""Looks at the machine of the pod: its disk, its memory, its clock, the files that its settings name."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from events.runtime.errors import Transient
from events.runtime.measured_clock import CLAIMS_MAX_S, THE_STORES, ahead_words
from pod_worker.health.check import Finding
from pod_worker.machine.hardware import MIB

DISK_FREE_MIN: Final = 64 * MIB  # less fails an attempt in its first minutes
MEMORY_FREE_MIN: Final = 64 * MIB  # a pipeline's process alone takes more
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
PIECE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class DiskLook:
    """Looks at the disk of the worker's data: `check_room` raises `Transient` where the outbox has none."""

    data: Path
    check_room: Callable[[], None]

    def __call__(self) -> Finding:
        """Write a small file, durably."""
        written = self.data / "disk.check"
        try:
            self._write(written)
            free = os.statvfs(self.data)
            self.check_room()
        except OSError as error:
            code = "DISK_FULL" if error.errno in FULL else "DISK_FAILED"
            return Finding(False, code, f"{self.data} cannot be written: {error.strerror}")
        except Transient as error:
            return Finding(False, error.code, error.message)
        free_bytes = free.f_bavail * free.f_frsize
        if free_bytes < DISK_FREE_MIN:
            least = f"{DISK_FREE_MIN // MIB} MiB are needed"
            return Finding(False, "DISK_FULL", f"{self.data} has {free_bytes // MIB} MiB free, {least}")
        return Finding(True, message=f"{free_bytes // MIB} MiB free")

    def _write(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.write(descriptor, bytes(PIECE_BYTES))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        finally:
            path.unlink(missing_ok=True)


def look_at_memory() -> Finding:
    """Look at the memory that a pipeline could have."""
    free = psutil.virtual_memory().available
    if free < MEMORY_FREE_MIN:
        return Finding(
            False, "OUT_OF_MEMORY", f"{free // MIB} MiB of memory are free, {MEMORY_FREE_MIN // MIB} needed"
        )
    return Finding(True, message=f"{free // MIB} MiB free")


def judge_clock(offset_s: float | None) -> Finding:
    """Judge how far the machine's clock is ahead of the store's; None is not measured yet."""
    if offset_s is None:
        return Finding(True, message="not measured")
    words = f"the clock is {ahead_words(offset_s, THE_STORES)}"
    if abs(offset_s) > CLAIMS_MAX_S:
        return Finding(False, "CLOCK_OFF", f"{words}; at most {CLAIMS_MAX_S:.0f} s are allowed")
    return Finding(True, message=words)


def look_for_tools(environ: Mapping[str, str]) -> Finding:
    """Look for what the settings name as tools of pipelines: a table of prices, folders of data sets."""
    prices = environ.get("PODFLEET_PRICES")
    folders = filter(None, environ.get("PODFLEET_DATASETS", "").split(os.pathsep))
    missing = [each for each in folders if not Path(each).is_dir()]
    if prices and not Path(prices).is_file():
        missing.append(prices)
    if missing:
        return Finding(False, "NOT_AVAILABLE", f"its settings name what is not there: {', '.join(missing)}")
    return Finding(True)
