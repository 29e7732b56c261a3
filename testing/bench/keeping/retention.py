"""Claims while retention takes old runs away, beside the same claims without it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from pymongo import AsyncMongoClient

from control_plane.concurrency.loops import end, run_every
from control_plane.store import database
from control_plane.store.log.events import Events
from control_plane.store.log.retention import Retention
from control_plane.store.log.run_removals import RunRemovals
from control_plane.store.log.tombstones import Tombstones
from control_plane.store.queue.runs import Runs
from control_plane.upkeep.keeping import deleter, retainer
from control_plane.upkeep.keeping.deleter import Deleter
from control_plane.upkeep.keeping.retainer import Retainer
from control_plane.upkeep.keeping.retention import DEFAULTS, Rule
from events.runtime.clock import SystemClock, SystemIds
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.load import backlog
from testing.bench.machine import ROOT
from testing.bench.servers import mongod
from testing.bench.workloads.claims import measured, ours

RUNS: Final = 100_000  # that a year has left
SMALL_RUNS: Final = 300
EVENTS_A_RUN: Final = 10
CLAIMERS: Final = 4
CLAIMS_MAX: Final = 600  # a second: so deep is the queue
WITHOUT: Final = "without retention"
LOOK_S: Final = 0.05
MINUTE_S: Final = 60.0
METRICS: Final = (
    Metric("claims", "/s", goals=(Goal(0.95, WITHOUT),)),
    Metric("median", "ms", more_is_better=False),
    Metric("p99", "ms", more_is_better=False),
    Metric("runs taken", "/min"),
)
RULE: Final = Rule("old-runs", "runs", 1)


class NoObjects:
    """A storage that has nothing: what is measured is the store."""

    async def older(self, prefix: str, age: timedelta) -> AsyncIterator[Sequence[str]]:
        """Yield a page of nothing."""
        yield ()

    async def remove(self, key: str) -> None:
        """Leave it at that."""


def run(setting: Setting) -> Iterator[Row]:
    """Claim for a whole turn of retention, with its loops as a control plane has them, and without."""
    seconds = 2.0 if setting.small else retainer.TICK_S
    runs = SMALL_RUNS if setting.small else setting.runs or RUNS
    with mongod(setting.scratch / "retention") as server:
        url = server.url()
        asyncio.run(backlog.prepare(url))
        size = ("--runs", str(runs), "--events", str(EVENTS_A_RUN * runs), "--long-log", "0")
        command = [sys.executable, "-m", "testing.seed", *size]
        environment = {**os.environ, "MONGODB_URL": url}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        backlog.fill(url, int(CLAIMS_MAX * seconds * 2 * setting.rounds))
        asyncio.run(_set_rule(url))
        alone = partial(measured, url, ours, CLAIMERS, seconds)
        ways = {OURS: partial(_beside, url, seconds), WITHOUT: alone}
        yield from contest(f"{CLAIMERS} claimers, {runs:,} old runs", METRICS, ways, setting)


def _beside(url: str, seconds: float) -> Figures:
    """Claim while another process carries the rules out."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_retain, args=(url, there))
    process.start()
    here.recv()
    found = measured(url, ours, CLAIMERS, seconds)
    here.send("end")
    before, after = here.recv()
    process.join()
    assert after > before, "retention has taken nothing"
    return {**found, "runs taken": (after - before) * MINUTE_S / seconds}


def _retain(url: str, pipe: Connection) -> None:
    asyncio.run(_carry_out(url, pipe))


async def _carry_out(url: str, pipe: Connection) -> None:
    """Carry the rules out as a control plane does, until told to end; tell of how many runs."""
    async with database.connect(url) as client:
        mine = _retainer(client, url)
        gone = database.database(client, url).tombstones
        before = await gone.count_documents({})
        pipe.send("ready")
        loops = [
            asyncio.create_task(run_every(retainer.TICK_S, "retainer", mine.run_once)),
            asyncio.create_task(run_every(deleter.TICK_S, "deleter", mine.deleter.run_once)),
        ]
        while not pipe.poll():
            await asyncio.sleep(LOOK_S)
        await end(loops)
        pipe.send((before, await gone.count_documents({})))


async def _set_rule(url: str) -> None:
    async with database.connect(url) as client:
        mine = _retainer(client, url)
        for each in (*(replace(default, days=None) for default in DEFAULTS), RULE):
            await mine.put(each, by="bench")


def _retainer(client: AsyncMongoClient[database.Document], url: str) -> Retainer:
    db = database.database(client, url)
    stores = Runs(db), Events(db), RunRemovals(db), Tombstones(db)
    return Retainer(Retention(db), Deleter(*stores, NoObjects(), SystemIds()), SystemClock())


BENCH: Final = Bench("retention", "claims while retention takes old runs, beside claims without", run)
