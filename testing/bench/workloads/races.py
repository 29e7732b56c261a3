"""Races: how far apart lanes on one machine start, and how soon and at which cost one sees what they show.

A lane's start is what its process reads from the monotonic clock, which all share, as it passes the barrier;
that of a run that starts when it is claimed is when its worker hears its first word. The clocks of the pods
are wrong by `AHEAD_S`. A token is late by the time from just before its pipeline shows it until a reader has
it.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from pymongo import MongoClient

from events.queue.claims import Claim
from events.queue.matching import WaitingClass
from events.runtime.clock import SystemIds
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from podfleet.embedded.stack import Programs, Stack
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.load import lanes
from testing.bench.machine import CLOCK, pause
from testing.bench.programs.timed_worker import BEGAN
from testing.bench.servers import fleet

LANES: Final = 4
RACES: Final = 30
PATIENCE_S: Final = 120.0
LOOK_S: Final = 0.1
CLOSED: Final = ("COMPLETED", "FAILED", "CANCELED")
CLAIMED: Final = "started when claimed"
AHEAD_S: Final = 10.0
METRICS: Final = (
    Metric("start skew, median", "ms", more_is_better=False),
    Metric("start skew, p99", "ms", more_is_better=False, goals=(Goal(20.0),)),
    Metric("clock offset, wrong by at most", "ms", more_is_better=False, goals=(Goal(5.0),)),
)
WATCHED: Final = 16
SHOWN_S: Final = 15.0
SETTLE_S: Final = 3.0
LEASE_S: Final = 600.0
LATE: Final = (
    Metric("token late, median", "ms", more_is_better=False),
    Metric("token late, p95", "ms", more_is_better=False, goals=(Goal(150.0),)),
    Metric("tokens that never came", "", more_is_better=False, goals=(Goal(0.0),)),
)
COST: Final = (
    *(Metric(each.name, each.unit, more_is_better=False) for each in LATE),
    Metric("cores beyond rest", "cores", more_is_better=False, goals=(Goal(0.1),)),
    Metric("cores at rest", "cores", more_is_better=False),
    Metric("writes to runs", "", more_is_better=False, goals=(Goal(0.0),)),
)
NAMES: Final = count(1)
SPEC: Final = {"seconds": 0, "events": 1, "artifact_bytes": 0}


def run(setting: Setting) -> Iterator[Row]:
    """Let lanes race on four workers of this machine."""
    heard = setting.scratch / "heard"
    program = (sys.executable, "-m", "testing.bench.programs.timed_worker", str(heard), str(AHEAD_S))
    with (
        fleet(setting.scratch / "fleet", workers=LANES, programs=Programs(worker=program)) as stack,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as client,
    ):
        pods = _pods(client)
        race = {"kind": "race", "lanes": [{"pod": pod} for pod in pods]}
        matrix = {"kind": "matrix", "values": {"seconds": [0] * LANES}, "parallel": LANES}
        times = 2 if setting.small else RACES
        ways = {
            OURS: partial(_measured, client, heard, race, BEGAN, times),
            CLAIMED: partial(_measured, client, heard, matrix, "", times),
        }
        _finished(client, race)  # whose children are warm by now
        yield from contest(f"{LANES} lanes, clocks wrong by {AHEAD_S:g} s", METRICS, ways, setting)


def _measured(client: httpx.Client, heard: Path, plan: Mapping[str, Any], mark: str, times: int) -> Figures:
    groups = dict(_finished(client, plan) for _ in range(times))
    spoke = {name: float(at) for name, at in map(str.split, heard.read_text().splitlines())}
    skews_ms = [1000 * _spread([spoke[f"{run_id}{mark}"] for run_id in runs]) for runs in groups.values()]
    figures = {METRICS[0].name: percentile(skews_ms, 0.5), METRICS[1].name: percentile(skews_ms, 0.99)}
    if mark:
        figures[METRICS[2].name] = max(_wrong_ms(client, name) for name in groups)
    return figures


def _wrong_ms(client: httpx.Client, race: str) -> float:
    """Return by how much a race's lanes were wrong about their own clocks, at worst."""
    told = client.get(f"/api/groups/{race}").raise_for_status().json()["race"]["lanes"]
    return 1000 * max(abs(float(each["offsetS"]) - AHEAD_S) for each in told)


def _spread(moments: Sequence[float]) -> float:
    return max(moments) - min(moments)


def _finished(client: httpx.Client, plan: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Let a group run to its end; return its name and its runs."""
    name = f"bench-{next(NAMES)}"
    body = {"id": name, "run": {"kind": "probe", "spec": SPEC}, "plan": plan}
    client.post("/api/groups", json=body).raise_for_status()
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while client.get(f"/api/groups/{name}").raise_for_status().json()["status"] not in CLOSED:
        if CLOCK.monotonic_s() > until_s:
            raise TimeoutError(f"{name} does not end")
        pause(LOOK_S)
    found = client.get("/api/runs", params={"group": name}).raise_for_status().json()["items"]
    assert [each["status"] for each in found] == ["COMPLETED"] * LANES
    return name, [each["id"] for each in found]


def _pods(client: httpx.Client) -> list[str]:
    """Return the names of the workers, once all have reported."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while True:
        found = client.get("/api/pods").raise_for_status().json()["items"]
        names = sorted({each["id"].partition("/")[0] for each in found})
        if len(names) == LANES:
            return names
        if CLOCK.monotonic_s() > until_s:
            raise TimeoutError(f"{len(names)} of {LANES} workers report")
        pause(LOOK_S)


def show(setting: Setting) -> Iterator[Row]:
    """Let a run show tokens from its own process on, then many lanes at once, while somebody reads."""
    shown = setting.scratch / "shown"
    program = (sys.executable, "-m", "testing.bench.programs.tokens", str(shown))
    with (
        fleet(setting.scratch / "one", workers=1, programs=Programs(worker=program)) as stack,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as client,
    ):
        seconds = 3.0 if setting.small else SHOWN_S
        _one(stack, client, shown, 1.0)  # whose process is warm by now
        ways = {OURS: partial(_one, stack, client, shown, seconds)}
        yield from contest("a token, from its pipeline to a reader", LATE, ways, setting)
    with (
        fleet(setting.scratch / "many") as stack,
        httpx.Client(base_url=stack.url, trust_env=False, timeout=30.0) as client,
    ):
        ways = {OURS: partial(_many, stack, client, seconds)}
        yield from contest(f"{WATCHED} lanes, {lanes.TOKENS_A_SECOND:g} tokens a second", COST, ways, setting)


def _one(stack: Stack, client: httpx.Client, file: Path, seconds: float) -> Figures:
    """Let one run show tokens while somebody reads."""
    body = {"kind": "probe", "spec": {"seconds": seconds}}
    run_id = client.post("/api/runs", json=body).raise_for_status().json()["id"]
    with lanes.seen(stack.url, f"runs/{run_id}") as seen:
        until_s = CLOCK.monotonic_s() + PATIENCE_S + seconds
        while client.get(f"/api/runs/{run_id}").raise_for_status().json()["status"] not in CLOSED:
            if CLOCK.monotonic_s() > until_s:
                raise TimeoutError(f"{run_id} does not end")
            pause(1.0)
        pause(SETTLE_S)
    shown = next(found for line in file.read_text().splitlines() if run_id in (found := json.loads(line)))
    return _late(seen.late_ms(shown))


def _late(late_ms: list[float]) -> dict[str, float]:
    came = [each for each in late_ms if each < float("inf")]
    return {
        LATE[0].name: percentile(came, 0.5),
        LATE[1].name: percentile(came, 0.95),
        LATE[2].name: len(late_ms) - len(came),
    }


def _many(stack: Stack, client: httpx.Client, seconds: float) -> Figures:
    """Let the lanes of a group show tokens while somebody reads; measure the control plane meanwhile."""
    claims = _claimed(stack, client)
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    server = psutil.Process(stack.pids()["control-plane"])
    with lanes.seen(stack.url, f"groups/{claims[0].spec['group']}") as seen:
        pause(SETTLE_S)
        rest = _cores(server, seconds)
        process = spawn.Process(target=lanes.show, args=(stack.url, claims, there))
        process.start()
        here.recv()
        pause(SETTLE_S)
        with _writes(stack) as written:
            begun_s = CLOCK.monotonic_s()
            used = _cores(server, seconds)
        here.send("end")
        shown = here.recv()
        process.join()
    client.post(f"/api/groups/{claims[0].spec['group']}/cancel").raise_for_status()
    late = _late(seen.late_ms(shown, since_s=begun_s))
    return {**late, COST[3].name: used - rest, COST[4].name: rest, COST[5].name: len(written)}


def _claimed(stack: Stack, client: httpx.Client) -> list[Claim]:
    """Submit a group and claim its runs, as many pods would."""
    name = f"shown-{next(NAMES)}"
    plan = {"kind": "matrix", "values": {"seconds": [*range(WATCHED)]}, "parallel": WATCHED}
    client.post("/api/groups", json={"id": name, "run": {"kind": "probe"}, "plan": plan}).raise_for_status()
    queue = MongoQueue(connect(stack.mongodb_url), ttl_s=LEASE_S)
    claims: list[Claim] = []
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while len(claims) < WATCHED:
        token = letters(SystemIds().token())
        claim = queue.take(WaitingClass("runs", "probe/cpu/any", 0), token=token, pod="bench/hand")
        if claim is not None:
            claims.append(Claim(**{**_fields(claim), "spec": {"group": name}}))
        elif CLOCK.monotonic_s() > until_s:
            raise TimeoutError(f"{len(claims)} of {WATCHED} runs can be claimed")
        else:
            pause(LOOK_S)
    queue.db.client.close()
    return claims


def _fields(claim: Claim) -> dict[str, Any]:
    return {each.name: getattr(claim, each.name) for each in fields(claim)}


@contextmanager
def _writes(stack: Stack) -> Iterator[list[str]]:
    """Note each write to a run, until the block ends."""
    found: list[str] = []
    end = threading.Event()
    with (
        MongoClient[dict[str, Any]](stack.mongodb_url) as client,
        client.get_default_database().runs.watch(max_await_time_ms=100) as stream,
    ):

        def follow() -> None:
            while not end.is_set():
                change = stream.try_next()
                if change is not None:
                    found.append(str(change["documentKey"]["_id"]))

        thread = threading.Thread(target=follow)
        thread.start()
        yield found
        end.set()
        thread.join()


def _cores(process: psutil.Process, seconds: float) -> float:
    """Return how many processors a process uses, as a mean over so long."""
    spent_s, begun_s = _spent_s(process), CLOCK.monotonic_s()
    pause(seconds)
    return (_spent_s(process) - spent_s) / (CLOCK.monotonic_s() - begun_s)


def _spent_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


BENCH: Final = Bench(
    "races", "how far apart four lanes on one machine start, and what they think of clocks", run
)
SHOWN: Final = Bench("live-text", "how soon a reader has a token, and what sixteen lanes of them cost", show)
