"""The machine that was measured on: its facts, and whether it is quiet."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Final

import psutil

from events.runtime.clock import SystemClock

QUIET: Final = 0.85  # the share of all cores that is idle
LOOK_S: Final = 0.5
PATIENCE_S: Final = 40.0
SYNCS: Final = 50
CLOCK: Final = SystemClock()
ROOT: Final = Path(__file__).resolve().parents[2]


def await_quiet() -> None:
    """Wait until others leave the machine alone, but not for ever."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while psutil.cpu_times_percent(LOOK_S).idle / 100 < QUIET and CLOCK.monotonic_s() < until_s:
        pass


def facts() -> dict[str, str]:
    """Return what a reader needs to judge the figures."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "fdatasync": f"{_sync_ms():.2f} ms",
        "system": platform.release(),
        "Python": platform.python_version(),
        "commit": commit.stdout.strip() or "unknown",
        "date": f"{CLOCK.now():%Y-%m-%d}",
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def pause(seconds: float) -> None:
    """Let what was started come to rest."""
    CLOCK.wait(threading.Event(), seconds)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _sync_ms() -> float:
    """Return how long the disk takes to make one block last, the median."""
    taken_s: list[float] = []
    with tempfile.TemporaryFile() as file:
        for _ in range(SYNCS):
            begun_s = CLOCK.monotonic_s()
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            taken_s.append(CLOCK.monotonic_s() - begun_s)
    return 1000 * statistics.median(taken_s)
