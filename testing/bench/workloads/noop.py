"""Runs that do nothing, end to end with everything on, beside a bare loop with as many majority writes.

Everything: claim, started, stage events, artifact, completed, settle, and the projection of it all; each run
in a process of its own, forked from a warm one. The bare loop's jobs make the same number of majority writes,
each of one small document, in as many processes as there are workers. Peers run a
job in the worker itself and keep no log of it.
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any, Final
from urllib.parse import urlsplit

from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection

from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, way
from testing.bench.load import backlog
from testing.bench.machine import CLOCK, pause
from testing.bench.peers.environments import redis
from testing.bench.peers.jobs import CELERY, TASKIQ, Jobs, jobs
from testing.bench.servers import fleet

WORKERS: Final = 4
RUNS: Final = 200
WARM_UP: Final = 5  # runs a worker: by the third its fork server forks
LOOK_S: Final = 0.1
LIMIT_S: Final = 300.0
BARE_S: Final = 5.0
WRITES: Final = ("insert", "update", "findAndModify", "delete")
BARE: Final = "bare loop"
METRICS: Final = (
    Metric("runs", "/s", goals=(Goal(0.7, BARE),)),
    Metric("majority writes of a run", "", more_is_better=False),
)


def run(setting: Setting) -> Iterator[Row]:
    """Let four workers do runs of nothing."""
    count = 20 if setting.small else RUNS
    with (
        fleet(setting.scratch / "fleet", workers=WORKERS) as stack,
        MongoClient[dict[str, Any]](stack.mongodb_url, tz_aware=True) as mongo,
        redis(setting) as broker,
        jobs(TASKIQ, broker, WORKERS, setting) as taskiq,
        jobs(CELERY, broker, WORKERS, setting) as celery,
        jobs(CELERY, beside(stack.mongodb_url), WORKERS, setting) as celery_on_mongodb,
    ):
        runs = mongo.get_default_database().runs
        for _ in range(WARM_UP):
            _drain(stack.mongodb_url, runs, WORKERS)
        writes: list[float] = []

        def ours() -> Figures:
            before = _writes(mongo)
            rate = _drain(stack.mongodb_url, runs, count)
            writes.append((_writes(mongo) - before) / count)
            return {"runs": rate, "majority writes of a run": writes[-1]}

        def bare() -> Figures:
            each = round(statistics.median(writes))
            return {"runs": _bare(stack.mongodb_url, each, setting.small)}

        def peer(enough: int, found: Jobs) -> Figures:
            return {"runs": found.rate(count if setting.small else enough)}

        ways = {
            OURS: ours,  # first: the bare loop makes as many writes
            BARE: bare,
            "taskiq": way(taskiq, partial(peer, 1_000)),
            "Celery": way(celery, partial(peer, 500)),
            "Celery on MongoDB": way(celery_on_mongodb, partial(peer, 300)),
        }
        yield from contest(f"{WORKERS} workers", METRICS, ways, setting)


def beside(url: str) -> str:
    """Return the address of another database of the same MongoDB."""
    return urlsplit(url)._replace(path="/celery").geturl()


def _drain(url: str, runs: Collection[dict[str, Any]], count: int) -> float:
    """Queue so many runs; return how many ended in a second, from the first claim to the last end."""
    of_these = {"_id": {"$in": backlog.fill(url, count)}}
    until_s = CLOCK.monotonic_s() + LIMIT_S
    open_ones = {**of_these, "$or": [{"finishedAt": None}, {"logOpen": True}]}
    while runs.count_documents(open_ones) and CLOCK.monotonic_s() < until_s:
        pause(LOOK_S)
    done = list(runs.find({**of_these, "status": "COMPLETED"}, {"claimedAt": 1, "finishedAt": 1}))
    assert len(done) == count, f"{count - len(done)} runs did not complete"
    begun = min(each["claimedAt"] for each in done)
    ended = max(each["finishedAt"] for each in done)
    rate: float = count / (ended - begun).total_seconds()
    return rate


def _writes(mongo: MongoClient[dict[str, Any]]) -> int:
    commands = mongo.admin.command("serverStatus")["metrics"]["commands"]
    return sum(commands[name]["total"] for name in WRITES)


def _bare(url: str, writes: int, is_small: bool) -> float:
    """Return how many jobs of so many writes a second the bare loop does."""
    seconds = 0.3 if is_small else BARE_S
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(WORKERS)
    pipes = [spawn.Pipe(duplex=False) for _ in range(WORKERS)]
    processes = [
        spawn.Process(target=_jobs, args=(url, number, writes, barrier, seconds, there))
        for number, (_, there) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    done: list[int] = [here.recv() for here, _ in pipes]
    for process in processes:
        process.join()
    return sum(done) / seconds


def _jobs(url: str, number: int, writes: int, barrier: Barrier, seconds: float, there: Connection) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        jobs = client.get_default_database().get_collection(
            "bare_jobs", write_concern=WriteConcern("majority", j=True)
        )
        barrier.wait()
        done, until_s = 0, CLOCK.monotonic_s() + seconds
        while CLOCK.monotonic_s() < until_s:
            for step in range(writes):
                jobs.update_one({"_id": f"{number}/{done}"}, {"$set": {f"step{step}": step}}, upsert=True)
            done += 1
    there.send(done)
    there.close()


BENCH: Final = Bench("noop", "runs that do nothing, end to end, beside a bare loop", run)
