"""Claims while a backup is taken, beside claims while none is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.load import backlog
from testing.bench.machine import CLOCK, ROOT
from testing.bench.servers import mongod
from testing.bench.workloads.claims import measured, ours

RUNS: Final = 100_000
SMALL_RUNS: Final = 10_000
CLAIMERS: Final = 4
SECONDS: Final = 10.0
SMALL_SECONDS: Final = 3.0
BEGIN_S: Final = 60.0  # in which a backup has to begin
LOOK_S: Final = 0.05
ALONE: Final = "without a backup"
SLOWED: Final = Goal(0.9, ALONE)
METRICS: Final = (
    Metric("claims", "/s", goals=(SLOWED,)),
    Metric("median", "ms", more_is_better=False),
    Metric("p99", "ms", more_is_better=False),
)
WHOLE: Final = (Metric("took", "s", more_is_better=False),)


def run(setting: Setting) -> Iterator[Row]:
    """Claim with and without a backup, in turn; then tell how long a backup takes when nobody claims."""
    depth, seconds = (SMALL_RUNS, SMALL_SECONDS) if setting.small else (RUNS, SECONDS)
    folder = setting.scratch / "backup"
    with mongod(setting.scratch / "mongo") as server:
        url = server.url()
        asyncio.run(backlog.prepare(url))
        backlog.fill(url, depth)
        ways = {
            OURS: partial(_beside_backups, url, folder, seconds),
            ALONE: partial(measured, url, ours, CLAIMERS, seconds),
        }
        yield from contest(f"{CLAIMERS} claimers, {depth:,} runs", METRICS, ways, setting)
        alone = {OURS: partial(_timed, url, folder)}
        yield from contest(f"a backup of {depth:,} runs", WHOLE, alone, replace(setting, rounds=1))


def _beside_backups(url: str, folder: Path, seconds: float) -> Figures:
    with _backups(url, folder):
        return measured(url, ours, CLAIMERS, seconds)


def _timed(url: str, folder: Path) -> Figures:
    begun_s = CLOCK.monotonic_s()
    with _started(url, folder) as process:
        assert process.wait() == 0, "the backup failed"
    return {"took": CLOCK.monotonic_s() - begun_s}


@contextmanager
def _backups(url: str, folder: Path) -> Iterator[None]:
    """Take one backup after the other, from the first document of the first one on."""
    is_over, has_begun = threading.Event(), threading.Event()

    def work() -> None:
        while not is_over.is_set():
            known = set(folder.glob("dump-*"))
            with _started(url, folder) as process:
                while process.poll() is None and not is_over.is_set():
                    if set(folder.glob("dump-*")) - known:
                        has_begun.set()
                    CLOCK.wait(is_over, LOOK_S)
                if is_over.is_set():
                    process.kill()
                elif process.returncode:
                    return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert has_begun.wait(BEGIN_S), "no backup began"
        yield
        assert thread.is_alive(), "the backup failed"
    finally:
        is_over.set()
        thread.join()


def _started(url: str, folder: Path) -> subprocess.Popen[bytes]:
    main = "import sys; from podfleet.main import main; sys.exit(main())"
    command = [sys.executable, "-c", main, "backup", str(folder), "--storage", "none"]
    return subprocess.Popen(
        command, env={**os.environ, "MONGODB_URL": url}, cwd=ROOT, stderr=subprocess.DEVNULL
    )


BENCH: Final = Bench("backup", "claims while a backup is taken, beside claims while none is", run)
