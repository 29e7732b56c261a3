"""Events over HTTP, durable and applied, beside bare `insert_many` of the very same documents, and MLflow."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any, Final

import bson
from pymongo import MongoClient, WriteConcern

from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.log.events import Arrival, storable
from events.codec import decode_ndjson
from events.envelope import Event
from podfleet.embedded.mongod import Mongod
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
from testing.bench.load.senders import CLOCK, IDS, Senders, claimed, lines, senders
from testing.bench.peers.environments import mlflow
from testing.bench.peers.mlflow_batches import log_batches
from testing.bench.servers import control_planes, mongod

LARGE: Final = 500
SMALL: Final = 50
BARE_CONNECTIONS: Final = 4
PODS: Final = 32
SECONDS: Final = 2.5
EVENTS_PER_S_MAX: Final = 60_000  # more are not made ready
REPLICAS: Final = (1, 2)
INSERT_MANY: Final = "insert_many"
MLFLOW: Final = {size: f"MLflow ({size} a batch)" for size in (LARGE, 1_000)}  # the latter is its limit
P99: Final = Metric("p99", "ms", more_is_better=False)
MEDIAN: Final = Metric("median", "ms", more_is_better=False)


def run(setting: Setting) -> Iterator[Row]:
    """Send large bodies, then small ones of many pods, and the large ones again."""
    seconds = 0.3 if setting.small else SECONDS
    with mongod(setting.scratch / "ingest") as server, mlflow(setting) as tracking:

        def peer(size: int, url: str) -> Figures:
            return _figures(*log_batches(url, size, BARE_CONNECTIONS, seconds))

        ways = {
            OURS: partial(_large, server, seconds),
            INSERT_MANY: partial(bare, server, LARGE, seconds),
            **{name: way(tracking, partial(peer, size)) for size, name in MLFLOW.items()},
        }
        beside = (Goal(0.6, INSERT_MANY), *(Goal(5.0, name) for name in MLFLOW.values()))
        large = (
            Metric("events", "/s", goals=beside), MEDIAN, P99,
            Metric("the same again", "/s"),
            Metric("again, of first", "x", goals=(Goal(1.0),)),
        )  # fmt: skip
        yield from contest(f"{LARGE} events a request, 4 connections", large, ways, setting)
        ways = {
            OURS: partial(_small, server, seconds),
            INSERT_MANY: partial(bare, server, SMALL, seconds),
        }
        small = (
            Metric("events", "/s", goals=(Goal(0.5, INSERT_MANY),)), MEDIAN, P99,
            Metric("p99 at half load", "ms", more_is_better=False, goals=(Goal(50.0),)),
        )  # fmt: skip
        yield from contest(f"{SMALL} events a request, {PODS} pods", small, ways, setting)


def run_scaling(setting: Setting) -> Iterator[Row]:
    """Send to one control plane, then to more of them on the same MongoDB."""
    seconds = 0.3 if setting.small else SECONDS
    with mongod(setting.scratch / "scaling") as server:
        for size, pods in ((LARGE, 8), (SMALL, PODS)):
            ways = {
                OURS if count > 1 else "one process": partial(_throughput, server, size, pods, seconds, count)
                for count in REPLICAS
            }
            goal = Goal(0.8 * REPLICAS[-1], "one process")
            name = f"{REPLICAS[-1]} processes, {size} events a request, {pods} pods"
            yield from contest(name, (Metric("events", "/s", goals=(goal,)),), ways, setting)


def _large(server: Mongod, seconds: float) -> Figures:
    with _attacked(server, LARGE, BARE_CONNECTIONS, seconds) as sending:
        first = sending.send(seconds)
        again = sending.send(seconds, again=True)
        results = _figures(first.events, first.seconds, first.taken_s)
        again_per_s = again.events / again.seconds
        return {**results, "the same again": again_per_s, "again, of first": again_per_s / results["events"]}


def _small(server: Mongod, seconds: float) -> Figures:
    with _attacked(server, SMALL, PODS, 1.5 * seconds) as sending:
        results = sending.send(seconds)
        figures = _figures(results.events, results.seconds, results.taken_s)
        half = sending.send(seconds, per_s=figures["events"] / SMALL / 2)
        return {**figures, "p99 at half load": 1000 * percentile(half.taken_s, 0.99)}


def _throughput(server: Mongod, size: int, pods: int, seconds: float, count: int) -> Figures:
    with _attacked(server, size, pods, seconds, count) as sending:
        results = sending.send(seconds)
        return _figures(results.events, results.seconds, results.taken_s)


@contextmanager
def _attacked(server: Mongod, size: int, pods: int, seconds: float, count: int = 1) -> Iterator[Senders]:
    """Give control planes on a fresh database, with pods that have enough to tell for so long."""
    with fresh(server) as url, control_planes(url, count) as urls:
        runs = claimed(urls[0], url, pods)
        requests = 2 + int(EVENTS_PER_S_MAX * seconds / size / pods)
        with senders(urls, runs, size=size, requests=requests) as sending:
            yield sending


@contextmanager
def fresh(server: Mongod) -> Iterator[str]:
    """Give the address of a database that nobody has used, and drop it in the end."""
    name = f"bench_{IDS.ulid().lower()}"
    yield server.url(name)
    with MongoClient[dict[str, Any]](server.url(name)) as client:
        client.drop_database(name)


def bare(server: Mongod, size: int, seconds: float) -> Figures:
    """Insert the documents as they come out of the log, from as many processes as there are connections."""
    spawn = multiprocessing.get_context("spawn")
    with fresh(server) as url:
        asyncio.run(_migrate(url))
        barrier = spawn.Barrier(BARE_CONNECTIONS)
        pipes, processes = [], []
        for _ in range(BARE_CONNECTIONS):
            here, there = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_insert, args=(url, size, seconds, barrier, there))
            process.start()
            there.close()
            pipes.append(here)
            processes.append(process)
        results: list[tuple[float, list[float]]] = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
    taken_s = [each for _, taken in results for each in taken]
    return _figures(size * len(taken_s), max(longest for longest, _ in results), taken_s)


async def _migrate(url: str) -> None:
    client = store.connect(url)
    await schema.migrate(store.database(client, url))
    await client.close()


def _insert(url: str, size: int, seconds: float, barrier: Barrier, there: Connection) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(url, maxPoolSize=1)
    events = client.get_default_database().get_collection(
        "events", write_concern=WriteConcern("majority", j=True)
    )
    events.find_one()
    run_id = IDS.ulid()
    batches = 2 + int(EVENTS_PER_S_MAX * seconds / size / BARE_CONNECTIONS)
    documents = [_documents(lines(run_id, 1 + size * turn, size)) for turn in range(batches)]
    barrier.wait()
    begun_s = CLOCK.monotonic_s()
    taken_s: list[float] = []
    for batch in documents:
        asked_s = CLOCK.monotonic_s()
        if asked_s > begun_s + seconds:
            break
        events.insert_many(batch, ordered=False)
        taken_s.append(CLOCK.monotonic_s() - asked_s)
    there.send((CLOCK.monotonic_s() - begun_s, taken_s))
    there.close()


def _documents(said: list[bytes]) -> list[dict[str, Any]]:
    arrival = Arrival(IDS.ulid(), CLOCK.now())
    decoded = (each.outcome for each in decode_ndjson(b"\n".join(said)))
    return [bson.decode(storable(event, arrival).raw) for event in decoded if isinstance(event, Event)]


def _figures(events: int, seconds: float, taken_s: list[float]) -> Figures:
    return {
        "events": events / seconds,
        "median": 1000 * percentile(taken_s, 0.5),
        "p99": 1000 * percentile(taken_s, 0.99),
    }


BENCH: Final = Bench("ingest", "events over HTTP, beside bare PyMongo and MLflow", run)
SCALING: Final = Bench("scaling", "events to several control planes on one MongoDB", run_scaling)
