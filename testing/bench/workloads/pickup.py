"""Pick-up at idle: from the submission over HTTP to the first word of the pipeline's process.

Of a job it is the first line that its program prints, in an environment that the pod has.

Peers' jobs run in the worker itself: told is the time until the first line of the job.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import httpx
from pymongo import MongoClient, WriteConcern

from events.lifecycle import FINAL
from podfleet import Client
from podfleet.client.trees.packing import pack
from podfleet.client.trees.pushing import Push
from podfleet.embedded.stack import Programs
from testing.bench.comparison import (
    OURS,
    Bench,
    Figures,
    Goal,
    Metric,
    Row,
    Setting,
    contest,
    percentile,
    way,
)
from testing.bench.machine import CLOCK, pause
from testing.bench.peers.environments import redis
from testing.bench.peers.jobs import CELERY, TASKIQ, Jobs, jobs
from testing.bench.servers import fleet

SUBMISSIONS: Final = 25
READY_S: Final = 60.0
LOOK_S: Final = 0.02
WARM_UP: Final = 4  # until children are forked
MAJORITY: Final = WriteConcern("majority", j=True)
IDLE_S: Final = 1.0  # and up to as much again, so that no rhythm of ours meets one of theirs
PEER_IDLE_S: Final = 0.25  # likewise; a peer has nothing to do after a job
METRICS: Final = (
    Metric("median", "ms", more_is_better=False, goals=(Goal(15),)),
    Metric("p99", "ms", more_is_better=False, goals=(Goal(50),)),
    Metric("submission", "ms", more_is_better=False),
)
PROBE: Final = "empty probe, to its end"
FIRST_WORD: Final = "empty probe, to its first word"
FIRST_LINE: Final = (Metric("median", "ms", more_is_better=False, goals=(Goal(1.3, beside=PROBE),)),)
PRINTS: Final = "python -c 'import time; print(time.time())'"


def run(setting: Setting) -> Iterator[Row]:
    """Submit runs, one at a time, to a fleet with an idle worker."""
    draw = random.Random(1)
    heard = setting.scratch / "heard"
    program = (sys.executable, "-m", "testing.bench.programs.timed_worker", str(heard), "0")
    with (
        fleet(setting.scratch / "fleet", workers=1, programs=Programs(worker=program)) as stack,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as client,
        bare_claimer(stack.mongodb_url) as insert,
        redis(setting) as broker,
        jobs(TASKIQ, broker, 1, setting) as taskiq,
        jobs(CELERY, broker, 1, setting) as celery,
    ):
        for _ in range(WARM_UP):
            _finished(client, _submit(client))
            pause(IDLE_S)
        count = 3 if setting.small else SUBMISSIONS

        def ours() -> Figures:
            since: dict[str, float] = {}
            answers_s = []
            for _ in range(count):
                pause(IDLE_S * (1 + draw.random()))
                submitted_s = CLOCK.now().timestamp()
                run_id = _submit(client)
                since[run_id] = submitted_s
                answers_s.append(CLOCK.now().timestamp() - submitted_s)
                _finished(client, run_id)
            spoke = dict(line.split() for line in heard.read_text().splitlines())
            late_s = [float(spoke[run_id]) - submitted_s for run_id, submitted_s in since.items()]
            return {**_late(late_s), "submission": 1000 * percentile(answers_s, 0.5)}

        def bare() -> Figures:
            late_s = []
            for _ in range(count):
                pause(IDLE_S * (1 + draw.random()))
                late_s.append(insert())
            return _late(late_s)

        def peer(found: Jobs) -> Figures:
            return _late(found.pick_ups(count, PEER_IDLE_S, draw))

        ways = {
            OURS: ours,
            "bare change stream": bare,
            "taskiq": way(taskiq, peer),
            "Celery": way(celery, peer),
        }
        yield from contest("pick-up", METRICS, ways, setting)
        tree = _tree_of_a_job(stack.url, setting.scratch / "job")

        def probe(*, is_whole: bool) -> float:
            begun_s, run_id = CLOCK.now().timestamp(), _submit(client)
            ended = datetime.fromisoformat(_finished(client, run_id)["finishedAt"])
            if is_whole:
                return ended.timestamp() - begun_s
            return float(dict(line.split() for line in heard.read_text().splitlines())[run_id]) - begun_s

        first = {
            OURS: partial(_first_lines, partial(_job, client, tree, "uv"), count, draw),
            "the pod's own Python": partial(_first_lines, partial(_job, client, tree, "pod"), count, draw),
            PROBE: partial(_first_lines, partial(probe, is_whole=True), count, draw),
            FIRST_WORD: partial(_first_lines, partial(probe, is_whole=False), count, draw),
        }
        _job(client, tree, "uv")  # makes the environment
        yield from contest("empty job", FIRST_LINE, first, setting)


def _tree_of_a_job(url: str, folder: Path) -> str:
    """Send a folder whose environment has no package, and return its tree."""
    folder.mkdir()
    (folder / "requirements.txt").write_text("# none\n")
    packed = pack(folder)
    with Client(url) as client:
        Push(client, CLOCK).run(packed)
    return hashlib.sha256(packed.tree.manifest()).hexdigest()


def _job(client: httpx.Client, tree: str, python: str) -> float:
    """Return the seconds until a job's program prints."""
    begun_s = CLOCK.now().timestamp()
    spec = {"command": PRINTS, "tree": tree, "python": python}
    run_id = client.post("/api/runs", json={"kind": "job", "spec": spec}).raise_for_status().json()["id"]
    _finished(client, run_id)
    files = client.get(f"/api/runs/{run_id}/artifacts").json()["items"]
    log = next(each["id"] for each in files if each["name"] == "log.txt")
    place = client.get(f"/api/artifacts/{log}").headers["location"]
    return float(httpx.get(place, trust_env=False).raise_for_status().text) - begun_s


def _first_lines(measured: Callable[[], float], count: int, draw: random.Random) -> Figures:
    late_s = []
    for _ in range(count):
        pause(IDLE_S * (1 + draw.random()))
        late_s.append(measured())
    return {"median": 1000 * percentile(late_s, 0.5)}


def _late(seconds: Sequence[float]) -> Figures:
    return {"median": 1000 * percentile(seconds, 0.5), "p99": 1000 * percentile(seconds, 0.99)}


@contextmanager
def bare_claimer(url: str) -> Iterator[Callable[[], float]]:
    """Let a process claim what it sees inserted; give what inserts, and tells how long the claim took."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_claim_inserted, args=(url, there))
    process.start()
    there.close()
    here.recv()  # it watches
    with MongoClient[dict[str, Any]](url) as client:
        jobs = client.get_default_database().get_collection("bare_jobs", write_concern=MAJORITY)

        def insert() -> float:
            begun_s = CLOCK.now().timestamp()
            jobs.insert_one({"status": "QUEUED"})
            claimed_s: float = here.recv()
            return claimed_s - begun_s

        yield insert
        jobs.insert_one({"status": "OVER"})
    process.join()


def _claim_inserted(url: str, there: Connection) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        jobs = client.get_default_database().get_collection("bare_jobs", write_concern=MAJORITY)
        with jobs.watch() as stream:
            there.send(0.0)
            for change in stream:
                if change.get("fullDocument", {}).get("status") == "OVER":
                    return
                if change["operationType"] == "insert":
                    jobs.find_one_and_update({"status": "QUEUED"}, {"$set": {"status": "CLAIMED"}})
                    there.send(CLOCK.now().timestamp())


def _submit(client: httpx.Client) -> str:
    answer = client.post("/api/runs", json={"kind": "probe", "spec": {"seconds": 0, "events": 1}})
    run_id: str = answer.raise_for_status().json()["id"]
    return run_id


def _finished(client: httpx.Client, run_id: str) -> dict[str, Any]:
    until_s = CLOCK.monotonic_s() + READY_S
    while CLOCK.monotonic_s() < until_s:
        found: dict[str, Any] = client.get(f"/api/runs/{run_id}").json()
        if found["status"] in FINAL and not found["logOpen"]:
            return found
        pause(LOOK_S)
    raise AssertionError(f"the run does not end: {found}")


BENCH: Final = Bench("pickup", "from submission to the first word of the child, at idle", run)
