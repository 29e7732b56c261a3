"""`python -m testing.seed --runs 1000000 --events 10000000`: fills the store that MONGODB_URL names.

What it makes is what a fleet would have left: runs of both kinds in every status, hypotheses with their
ideas, attempts, stages, artifacts, validations, pods, and the whole log, numbered, hashed and in order of
arrival. Decisions and projections are made by the product's own functions, so `podfleet verify --rebuild`
finds nothing wrong. Times reach half a year back, dense towards the end; names and texts hold HTML, text from
right to left, very long words. One run has 50,000 lines of log (`--long-log`).

The same arguments make the same documents, `--until` among them (default: now; asked again, the same as
before). What was cut off goes on where it was; a store that is full already is told so; a document that is
there, whoever made it, is never touched. Where the store has no indexes yet they are built at the end.

Thinner than a real fleet: the runs of a sweep (ten, in a small store two) have one history, to the
millisecond; a few events an experiment where `--events` allows no more, and no nodes of a search; no
heartbeats, dead letters, idempotency keys or checkpoints; labels and parents are simple. The objects of
artifacts are in no storage: verify without MINIO_*. The fleet stands still: a minute later its pods are gone,
its held runs have leases of ten years, and what waits may wait for a year, so that a control plane on the
store leaves them as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from control_plane.store import database, schema
from events.runtime.clock import SystemClock
from events.runtime.errors import PodfleetError
from testing.seed.fill import begin, fill, missing
from testing.seed.plan import Plan

EXIT_FAILED: Final = 1
EXIT_WRONG_USE: Final = 2
TELL_EVERY_S: Final = 5.0


def main() -> int:
    """Run the command line; return 0 when the store is filled."""
    arguments = _parser().parse_args()
    if not arguments.url:
        print("name the store: --url, or MONGODB_URL", file=sys.stderr)
        return EXIT_WRONG_USE
    now = SystemClock().now()
    until = arguments.until or now.replace(microsecond=0)
    if arguments.runs < 1 or arguments.events < 0 or until > now:
        print("--runs is at least 1, --events at least 0, --until not ahead", file=sys.stderr)
        return EXIT_WRONG_USE
    plan = Plan(arguments.seed, arguments.runs, arguments.events, until, arguments.long_log)
    try:
        _fill(arguments.url, plan, arguments.processes)
    except PodfleetError as error:
        print(error.message, file=sys.stderr)
        return EXIT_WRONG_USE
    except PyMongoError as error:
        print(f"MongoDB: {error}; run it again to go on", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="testing.seed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=10_000, help="about as many, beside the long log")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=_moment, help="the fleet's last moment, RFC 3339 (default: now)")
    parser.add_argument("--long-log", type=int, default=50_000, help="lines of the one long log")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--url", default=os.environ.get("MONGODB_URL"))
    return parser


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).replace(microsecond=0)


def _fill(url: str, wanted: Plan, processes: int) -> None:
    clock = SystemClock()
    with MongoClient[dict[str, Any]](url, tz_aware=True) as client:
        db = client.get_default_database("podfleet")
        plan = begin(db, wanted)
        chunks = missing(db, plan)
    if not chunks:
        print(f"seed {plan.seed} has filled this database already, as it was on {plan.until:%Y-%m-%d %H:%M}")
        return
    if len(chunks) < plan.chunks:
        print(f"going on: {plan.chunks - len(chunks)} of {plan.chunks} chunks are there already")
    begun_s = told_s = clock.monotonic_s()
    runs = events = documents = 0
    for written in fill(url, plan, chunks, processes):
        runs, events = runs + written.runs, events + written.events
        documents += written.documents
        now_s = clock.monotonic_s()
        if now_s - told_s > TELL_EVERY_S:
            told_s = now_s
            print(f"{runs:,} runs, {events:,} events, {documents / (now_s - begun_s):,.0f} documents/s")
    took_s = clock.monotonic_s() - begun_s
    print(f"{runs:,} runs, {events:,} events in {took_s:.0f} s: {documents / took_s:,.0f} documents/s")
    begun_s = clock.monotonic_s()
    asyncio.run(_migrate(url))
    print(f"indexes are there after {clock.monotonic_s() - begun_s:.0f} s more")


async def _migrate(url: str) -> None:
    client = database.connect(url)
    try:
        await schema.migrate(database.database(client, url))
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
