"""How fast a worker and the command line are there, and what a worker's parent takes of the memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient
from pymongo.database import Database

from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.machine import CLOCK, ROOT, pause
from testing.bench.servers import fleet, mongod

PATIENCE_S: Final = 30.0
LOOK_S: Final = 0.02
REST_S: Final = 3.0
WORKER: Final = (
    Metric("first claim", "s", more_is_better=False, goals=(Goal(0.7),)),
    Metric("parent", "MiB", more_is_better=False, goals=(Goal(60.0),)),
)
HELP: Final = (Metric("took", "s", more_is_better=False, goals=(Goal(0.3),)),)


def run(setting: Setting) -> Iterator[Row]:
    """Start a worker, and ask the command line for help, each time in a fresh process."""
    with (
        mongod(setting.scratch / "bench") as server,
        fleet(setting.scratch / "fleet", environment={"MONGODB_URL": server.url()}) as stack,
        MongoClient[dict[str, Any]](server.url()) as client,
    ):
        database = client.get_default_database()
        database.command("profile", 2)
        measured = partial(_worker, database, server.url(), stack.url)
        measured()  # whose modules are compiled by now
        yield from contest("worker", WORKER, {OURS: measured}, setting)
    yield from contest("podfleet --help", HELP, {OURS: _help, "python -c pass": _nothing}, setting)


def _worker(database: Database[dict[str, Any]], store: str, url: str) -> Figures:
    """Return when the store saw the first look for a run, and the memory of the idle parent."""
    with tempfile.TemporaryDirectory() as data:
        environ = {**_environ(), "MONGODB_URL": store, "CONTROL_PLANE_URL": url}
        command = [sys.executable, "-m", "pod_worker", "--data", data]
        begun = CLOCK.now()
        process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
        try:
            asked = _first_look(database, begun)
            pause(REST_S)
            return {"first claim": (asked - begun).total_seconds(), "parent": _resident_mib(process.pid)}
        finally:
            process.terminate()
            process.wait()


def _first_look(database: Database[dict[str, Any]], begun: datetime) -> datetime:
    sought = {
        "appName": "podfleet-worker",
        "command.listIndexes": {"$exists": False},  # of the checks before
        "ns": f"{database.name}.runs",
        "ts": {"$gte": begun.replace(tzinfo=None)},
    }
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while CLOCK.monotonic_s() < until_s:
        found = database["system.profile"].find_one(sought, sort=[("ts", 1)])
        if found is not None:
            asked: datetime = found["ts"]
            return asked.replace(tzinfo=UTC)
        pause(LOOK_S)
    raise TimeoutError("the worker asks for no run")


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1024


def _help() -> Figures:
    return _took([sys.executable, "-c", "from podfleet.main import main; main()", "--help"])


def _nothing() -> Figures:
    return _took([sys.executable, "-c", "pass"])


def _took(command: list[str]) -> Figures:
    begun_s = CLOCK.monotonic_s()
    subprocess.run(command, env=_environ(), check=True, stdout=subprocess.DEVNULL)
    return {"took": CLOCK.monotonic_s() - begun_s}


def _environ() -> dict[str, str]:
    """Return our environment with compiled modules kept, as an installed program has them."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT)}


BENCH: Final = Bench("start", "a worker's start and memory; the command line's help", run)
