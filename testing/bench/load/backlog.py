"""Queues as deep as a bench wants them: runs as a submission makes them, and the bare documents beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from pymongo import MongoClient
from pymongo.collection import Collection

from control_plane.runs.submission import Submission, check, run_fields
from control_plane.store import database, schema
from events.queue import journal
from events.queue.fair.shares import DEFAULT
from events.queue.requirements import Requirements, class_key
from events.runtime.clock import SystemIds

Document = dict[str, Any]

KIND: Final = "probe"
SPEC: Final = {"seconds": 0, "events": 1}
SLOTS: Final = 64
PAD: Final = "x" * 400  # about what a run's other fields weigh
BATCH: Final = 5_000
IDS: Final = SystemIds()
ANY: Final = Requirements()


async def prepare(url: str) -> None:
    """Make the collections and indexes of a control plane."""
    async with database.connect(url) as client:
        await schema.migrate(database.database(client, url))


def fill(
    url: str,
    count: int,
    requires: Callable[[int], Requirements] = lambda _: ANY,
    project: Callable[[int], str] = lambda _: DEFAULT,
) -> list[str]:
    """Queue `count` runs, a millisecond apart, with their specifications; return their ids.

    They are of one class, unless `requires` says of each by its number what it asks of a pod, or `project`
    whose it is.
    """
    with MongoClient[Document](url, tz_aware=True) as client:
        db = client.get_default_database()
        first = IDS.ulid()
        fields = run_fields(check(Submission(kind=KIND, spec=SPEC, by="bench")))
        db.runs.update_one({"_id": first}, journal.creation(fields, by="bench"), upsert=True)
        pattern = db.runs.find_one({"_id": first})
        assert pattern is not None, "an upsert leaves a document"
        names = [first, *(IDS.ulid() for _ in range(count - 1))]
        _insert(db.run_specs, ({"_id": name, "kind": KIND, "spec": SPEC, "requires": {}} for name in names))
        runs = (
            _run(pattern, name, number, class_key(KIND, requires(number), project(number)))
            for number, name in enumerate(names[1:], start=1)
        )
        _insert(db.runs, runs)
    return names


def fill_bare(url: str, count: int) -> None:
    """Queue `count` small documents twice: with an index in strict order, and with one that slots lead."""
    with MongoClient[Document](url) as client:
        db = client.get_default_database()
        for name, keys in (("strict", ["status"]), ("slots", ["status", "slot"])):
            db[name].create_index([*((key, 1) for key in keys), ("priority", -1), ("queuedAt", 1)])
            _insert(db[name], (_bare(number) for number in range(count)))


def _run(pattern: Document, name: str, number: int, class_key: str) -> Document:
    queued_at: datetime = pattern["queuedAt"] + timedelta(milliseconds=number)
    return {**pattern, "_id": name, "queuedAt": queued_at, "classKey": class_key}


def _bare(number: int) -> Document:
    return {
        "_id": f"run-{number:08}",
        "status": "QUEUED",
        "priority": 0,
        "queuedAt": number,
        "attempt": 0,
        "slot": hash(str(number)) % SLOTS,
        "pad": PAD,
    }


def _insert(collection: Collection[Document], documents: Iterator[Document]) -> None:
    while batch := list(islice(documents, BATCH)):
        collection.insert_many(batch, ordered=False)
