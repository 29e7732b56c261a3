"""What pages and programs ask of a filled store, one question at a time: how long each takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from http.client import HTTPConnection
from typing import Any, Final

from pymongo import MongoClient

from events.runtime.clock import SystemClock
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.load.questions import known, questions
from testing.bench.machine import ROOT
from testing.bench.servers import fleet
from testing.seed.fill import kept_plan

RUNS: Final = 20_000
SMALL_RUNS: Final = 300
EVENTS_A_RUN: Final = 10
LONG_LOG: Final = 50_000
SMALL_LOG: Final = 400
TIMES: Final = 21
CLOCK: Final = SystemClock()
METRICS: Final = (
    Metric("median", "ms", more_is_better=False),
    Metric("slowest question's p95", "ms", more_is_better=False, goals=(Goal(50.0),)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Ask every question of a store that `testing.seed` filled: the one that was given, or a small one."""
    environment = {} if setting.store is None else {"MONGODB_URL": setting.store}
    with fleet(setting.scratch / "data", environment=environment) as stack:
        if setting.store is None:
            _fill(stack.mongodb_url, small=setting.small)
        with MongoClient[dict[str, Any]](stack.mongodb_url, tz_aware=True) as client:
            db = client.get_default_database("podfleet")
            plan = kept_plan(db)
            groups = questions(known(db, plan.run(plan.long_run)))
        for name, asked in groups.items():
            ways = {OURS: partial(_measured, setting, stack.port, asked)}
            yield from contest(f"{plan.runs:,} runs: {name}", METRICS, ways, setting)


def _fill(url: str, *, small: bool) -> None:
    runs, lines = (SMALL_RUNS, SMALL_LOG) if small else (RUNS, LONG_LOG)
    size = ("--runs", str(runs), "--events", str(EVENTS_A_RUN * runs), "--long-log", str(lines))
    command = [sys.executable, "-m", "testing.seed", *size]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "MONGODB_URL": url}, check=True, capture_output=True)


def _measured(setting: Setting, port: int, asked: Mapping[str, str]) -> Figures:
    """Ask each question some times in a row, after a first time that does not count."""
    connection = HTTPConnection("127.0.0.1", port)
    took_ms: dict[str, list[float]] = {}
    for name, address in asked.items():
        _ask(connection, address)
        took_ms[name] = [_ask(connection, address) for _ in range(TIMES)]
    connection.close()
    late_ms = {name: percentile(each, 0.95) for name, each in took_ms.items()}
    slowest = max(late_ms, key=late_ms.__getitem__)
    setting.say(f"of {len(asked)} questions the slowest is {slowest}")
    everything = [each for group in took_ms.values() for each in group]
    return {"median": percentile(everything, 0.5), "slowest question's p95": late_ms[slowest]}


def _ask(connection: HTTPConnection, address: str) -> float:
    begun_s = CLOCK.monotonic_s()
    connection.request("GET", address)
    answer = connection.getresponse()
    answer.read()
    took_s = CLOCK.monotonic_s() - begun_s
    assert answer.status < 400, f"{address}: {answer.status}"
    return 1000 * took_s


BENCH: Final = Bench("lists", "lists, filters and run pages on a filled store", run)
