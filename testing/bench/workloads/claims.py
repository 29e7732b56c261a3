"""The claim path: how many runs claimers take from a deep queue, beside a bare loop on bare documents."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any, Final

from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection

from events.queue.abilities import Abilities
from events.queue.fair.shares import DEFAULT, FLEET
from events.queue.matching import Seeker
from events.queue.requirements import Requirements
from events.runtime.clock import SystemClock
from events.text.key_text import letters
from pod_worker.queue.mongo import MongoQueue, connect
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest, percentile
from testing.bench.load import backlog
from testing.bench.servers import mongod

Document = dict[str, Any]
Take = Callable[[], object]
Claimer = Callable[[str, int], Take]  # of an address and a number

CLAIMERS: Final = (8, 32)
DEPTHS: Final = (100_000, 1_000_000)
SECONDS: Final = 3.0
DRAINERS: Final = 8
PARTS: Final = 5  # of a drain, the first of which the last is compared with
CLOCK: Final = SystemClock()
SEEKER: Final = Seeker("bench", "experiment", Abilities(frozenset({backlog.KIND}), 0.0, None))
NOTHING: Final = Seeker("bench", "experiment", Abilities(frozenset({"nothing"}), 0.0, None))
BESIDE: Final = Goal(0.9, "random slots")
METRICS: Final = (
    Metric("claims", "/s", goals=(BESIDE,)),
    Metric("median", "ms", more_is_better=False),
    Metric("p99", "ms", more_is_better=False),
)
DRAIN: Final = (Metric("claims", "/s"), Metric("last fifth, of first", "x", goals=(Goal(0.9),)))
WITHOUT: Final = "without labels"
LABELS: Final = 200
LABELLED: Final = (Metric("claims", "/s", goals=(Goal(0.8, WITHOUT),)), *METRICS[1:])
ALONE: Final = "without projects"
PROJECTS: Final = 50
SHARED: Final = (Metric("claims", "/s", goals=(Goal(0.8, ALONE),)), *METRICS[1:])
EMPTY: Final = (Metric("median", "ms", more_is_better=False, goals=(Goal(1.0),)),)


def run(setting: Setting) -> Iterator[Row]:
    """Claim from queues of two depths with few and many claimers, then drain one."""
    seconds = 0.3 if setting.small else SECONDS
    for depth in (4_000, 8_000) if setting.small else DEPTHS:
        with mongod(setting.scratch / str(depth)) as server:
            url = server.url()
            asyncio.run(backlog.prepare(url))
            backlog.fill(url, depth)
            backlog.fill_bare(url, depth)
            for claimers in CLAIMERS:
                ways = {
                    name: partial(measured, url, claimer, claimers, seconds)
                    for name, claimer in CLAIMING.items()
                }
                yield from contest(f"{claimers} claimers, {depth:,} queued", METRICS, ways, setting)
            ways = {name: partial(_looked, url, claimer, seconds) for name, claimer in LOOKING.items()}
            yield from contest(f"nothing to take, {depth:,} queued", EMPTY, ways, setting)
    with mongod(setting.scratch / "drain") as server:
        url, depth = server.url(), min(DEPTHS) // (100 if setting.small else 1)
        asyncio.run(backlog.prepare(url))
        backlog.fill(url, depth)
        backlog.fill_bare(url, depth)
        ways = {name: partial(_drained, url, claimer) for name, claimer in CLAIMING.items()}
        yield from contest(
            f"draining {depth:,}, {DRAINERS} claimers", DRAIN, ways, replace(setting, rounds=1)
        )


def run_labelled(setting: Setting) -> Iterator[Row]:
    """Claim where 200 labels wait, of which the claimers have one, beside claims without labels."""
    seconds = 0.3 if setting.small else SECONDS
    depth = 8_000 if setting.small else min(DEPTHS)
    with mongod(setting.scratch / "labels") as labels, mongod(setting.scratch / "plain") as plain:
        for server, requires in ((labels, racked), (plain, lambda _: backlog.ANY)):
            asyncio.run(backlog.prepare(server.url()))
            backlog.fill(server.url(), depth, requires)
        for claimers in CLAIMERS:
            ways = {
                OURS: partial(measured, labels.url(), ours_in_a_rack, claimers, seconds),
                WITHOUT: partial(measured, plain.url(), ours, claimers, seconds),
            }
            yield from contest(f"{claimers} claimers, {LABELS} labels", LABELLED, ways, setting)


def run_shared(setting: Setting) -> Iterator[Row]:
    """Claim where 50 projects wait, of which each has used something, beside claims without projects."""
    seconds = 0.3 if setting.small else SECONDS
    depth = 8_000 if setting.small else min(DEPTHS)
    with mongod(setting.scratch / "shared") as shared, mongod(setting.scratch / "plain") as plain:
        for server, project in ((shared, one_of_many), (plain, lambda _: DEFAULT)):
            asyncio.run(backlog.prepare(server.url()))
            backlog.fill(server.url(), depth, project=project)
        told = [{"name": one_of_many(number), "used": float(number)} for number in range(PROJECTS)]
        with MongoClient[Document](shared.url()) as client:
            client.get_default_database().shares.insert_one({"_id": FLEET, "projects": told})
        for claimers in CLAIMERS:
            ways = {
                OURS: partial(measured, shared.url(), ours, claimers, seconds),
                ALONE: partial(measured, plain.url(), ours, claimers, seconds),
            }
            yield from contest(f"{claimers} claimers, {PROJECTS} projects", SHARED, ways, setting)


def one_of_many(number: int) -> str:
    """Return the project of a run."""
    return f"p{number % PROJECTS:02}"


def racked(number: int) -> Requirements:
    """Return what a run asks of a pod: every second one is for the rack of the claimers."""
    rack = number // 2 % LABELS if number % 2 else 0
    return Requirements(labels={"rack": f"r{rack:03}"})


def ours_in_a_rack(url: str, number: int) -> Take:
    """Claim as a worker does that has one of the labels."""
    able = replace(SEEKER.abilities, labels={"rack": "r000"}, pod=f"pod-{number}")
    seeker, queue = replace(SEEKER, abilities=able), MongoQueue(connect(url))
    return lambda: queue.claim(seeker, token=letters(backlog.IDS.token()))


def ours(url: str, number: int) -> Take:
    """Claim as a worker does."""
    queue = MongoQueue(connect(url))
    tokens = backlog.IDS
    return lambda: queue.claim(SEEKER, token=letters(tokens.token()))


def ours_in_vain(url: str, number: int) -> Take:
    """Look as a worker does that can serve nothing of what waits."""
    queue, token = MongoQueue(connect(url)), letters(backlog.IDS.token())
    return lambda: queue.claim(NOTHING, token=token)


def strict_in_vain(url: str, number: int) -> Take:
    """Seek what there is nothing of."""
    runs = _bare(url, "strict")
    order = [("priority", -1), ("queuedAt", 1)]
    return lambda: runs.find_one_and_update({"status": "NOTHING"}, _taken(number), sort=order)


def strict(url: str, number: int) -> Take:
    """Claim the oldest."""
    runs = _bare(url, "strict")
    return lambda: runs.find_one_and_update(
        {"status": "QUEUED"}, _taken(number), sort=[("priority", -1), ("queuedAt", 1)]
    )


def slots(url: str, number: int) -> Take:
    """Claim the oldest of a random slot, or of the next one that has any."""
    runs = _bare(url, "slots")
    draw = random.Random(number)

    def take() -> Document | None:
        first = draw.randrange(backlog.SLOTS)
        for step in range(backlog.SLOTS):
            found: Document | None = runs.find_one_and_update(
                {"status": "QUEUED", "slot": (first + step) % backlog.SLOTS},
                _taken(number),
                sort=[("priority", -1), ("queuedAt", 1)],
            )
            if found is not None:
                return found
        return None

    return take


CLAIMING: Final[dict[str, Claimer]] = {OURS: ours, "strict order": strict, "random slots": slots}
LOOKING: Final[dict[str, Claimer]] = {OURS: ours_in_vain, "strict order": strict_in_vain}


def _bare(url: str, name: str) -> Collection[Document]:
    client: MongoClient[Document] = MongoClient(url, maxPoolSize=1)
    return client.get_default_database().get_collection(name, write_concern=WriteConcern("majority", j=True))


def _taken(number: int) -> Document:
    now_s = CLOCK.monotonic_s()
    changes = {"status": "CLAIMED", "worker": number, "claimedAt": now_s, "leaseUntil": now_s + 60}
    return {"$set": changes, "$inc": {"attempt": 1}}


def measured(url: str, claimer: Claimer, claimers: int, seconds: float) -> Figures:
    """Let so many processes claim for so long."""
    taken_s = [took_s for _, took_s in _together(url, claimer, claimers, seconds)]
    return {
        "claims": len(taken_s) / seconds,
        "median": 1000 * percentile(taken_s, 0.5),
        "p99": 1000 * percentile(taken_s, 0.99),
    }


def _drained(url: str, claimer: Claimer) -> Figures:
    """Let processes claim until nothing is left."""
    ends_s = sorted(at_s for at_s, _ in _together(url, claimer, DRAINERS, math.inf))
    each = len(ends_s) // PARTS
    first_s, last_s = ends_s[each - 1], ends_s[-1] - ends_s[-each]
    return {"claims": len(ends_s) / ends_s[-1], "last fifth, of first": first_s / last_s}


def _looked(url: str, claimer: Claimer, seconds: float) -> Figures:
    """Let one process look for so long, and find nothing."""
    take = claimer(url, 0)
    taken_s: list[float] = []
    until_s = CLOCK.monotonic_s() + seconds
    while (begun_s := CLOCK.monotonic_s()) < until_s:
        assert take() is None, "there is something to take"
        taken_s.append(CLOCK.monotonic_s() - begun_s)
    return {"median": 1000 * percentile(taken_s, 0.5)}


def _together(url: str, claimer: Claimer, claimers: int, seconds: float) -> list[tuple[float, float]]:
    """Let so many processes claim; return when each claim came, after the beginning, and what it took."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(claimers)
    connections: list[Connection] = []
    processes = []
    for number in range(claimers):
        here, there = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_claim, args=(url, claimer, number, barrier, seconds, there))
        process.start()
        there.close()
        connections.append(here)
        processes.append(process)
    taken: list[tuple[float, float]] = []
    for each in connections:
        taken += each.recv()
    for process in processes:
        process.join()
    return taken


def _claim(
    url: str, claimer: Claimer, number: int, barrier: Barrier, seconds: float, there: Connection
) -> None:
    take = claimer(url, number)
    take()  # connects
    barrier.wait()
    taken: list[tuple[float, float]] = []
    first_s = CLOCK.monotonic_s()
    until_s = first_s + seconds
    while (begun_s := CLOCK.monotonic_s()) < until_s and take() is not None:
        ended_s = CLOCK.monotonic_s()
        taken.append((ended_s - first_s, ended_s - begun_s))
    there.send(taken)
    there.close()


BENCH: Final = Bench("claims", "claims from deep queues, beside bare PyMongo", run)
SHARED_BENCH: Final = Bench("projects", "claims among 50 projects, beside claims without", run_shared)
LABELLED_BENCH: Final = Bench("labels", "claims among 200 labels, beside claims without", run_labelled)
