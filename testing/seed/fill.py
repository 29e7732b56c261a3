"""Writes a plan into a database: only inserts, chunk by chunk, each marked when it is whole.

Law: an id is drawn from the plan, so a chunk that was cut off is inserted again, and what is there
already stays as it is, whoever made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC
from typing import Any, Final

from pymongo import MongoClient, WriteConcern
from pymongo.database import Database
from pymongo.errors import BulkWriteError

from control_plane.store.log.events import DUPLICATE_KEY
from events.runtime.errors import ConfigError
from testing.seed.chunks import Told, hypotheses, pods, told
from testing.seed.life import merged
from testing.seed.plan import Plan

Db = Database[dict[str, Any]]
MARKS: Final = "seed_marks"  # what was filled: no part of the product reads it
TOGETHER: Final = 100  # runs whose documents go in one insert


@dataclass(frozen=True, slots=True)
class Written:
    """What a chunk added to the store."""

    runs: int
    events: int
    documents: int


def begin(db: Db, plan: Plan) -> Plan:
    """Note what is to be filled; return the plan to go on with, the earlier one where it was cut off.

    Raises `ConfigError` where this seed has filled the database with something else.
    """
    wanted = asdict(plan)
    db[MARKS].update_one({"_id": f"{plan.seed}"}, {"$setOnInsert": wanted}, upsert=True)
    kept = kept_plan(db, plan.seed)
    if replace(kept, until=plan.until) != plan:
        was = f"--runs {kept.runs} --events {kept.events} --long-log {kept.long_log}"
        message = f"seed {plan.seed} began to fill this database with {was}: repeat that, or take another"
        raise ConfigError([f"{message} --seed to add to it"])
    return kept


def kept_plan(db: Db, seed: int = 1) -> Plan:
    """Return the plan by which a database was filled."""
    kept = db[MARKS].find_one({"_id": f"{seed}"})
    if kept is None:
        raise ConfigError([f"nothing was filled into {db.name} with seed {seed}"])
    kept.pop("_id")
    return Plan(**{**kept, "until": kept["until"].replace(tzinfo=UTC)})


def missing(db: Db, plan: Plan) -> list[int]:
    """Return the chunks that are not in the database yet."""
    names = {each["_id"] for each in db[MARKS].find({"seed": plan.seed, "chunk": {"$exists": True}})}
    return [chunk for chunk in range(plan.chunks) if _mark(plan, chunk) not in names]


def fill(url: str, plan: Plan, chunks: Sequence[int], processes: int) -> Iterator[Written]:
    """Write the chunks and then the pods; yield what each chunk added."""
    with ProcessPoolExecutor(processes, initializer=_connect, initargs=(url,)) as pool:
        yield from pool.map(_write, [plan] * len(chunks), chunks)
    with MongoClient[dict[str, Any]](url) as client:
        _insert(client.get_default_database("podfleet"), "pods", pods(plan))


_CONNECTED: dict[str, Db] = {}  # one of each process


def _connect(url: str) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(url, tz_aware=True, w=1, journal=False)
    _CONNECTED["db"] = client.get_default_database("podfleet")


def _write(plan: Plan, chunk: int) -> Written:
    db = _CONNECTED["db"]
    runs = events = documents = 0
    _insert(db, "hypotheses", hypotheses(plan, chunk))
    batch: list[Told] = []
    for each in told(plan, chunk):
        batch.append(each)
        runs, events = runs + (each.collection == "runs"), events + each.events
        if len(batch) == TOGETHER:
            documents += _insert_all(db, batch)
            batch = []
    documents += _insert_all(db, batch)
    marks = db.get_collection(MARKS, write_concern=WriteConcern("majority", j=True))
    mark = {"seed": plan.seed, "chunk": chunk, "runs": runs, "events": events}
    marks.update_one({"_id": _mark(plan, chunk)}, {"$set": mark}, upsert=True)
    return Written(runs, events, documents)


def _insert_all(db: Db, batch: Sequence[Told]) -> int:
    found = merged(each.documents for each in batch)
    # the run last: whoever sees it finds what belongs to it
    order = sorted(found, key=lambda name: (name in ("runs", "ideation_requests"), name))
    for collection in order:
        _insert(db, collection, found[collection])
    return sum(map(len, found.values()))


def _insert(db: Db, collection: str, documents: Sequence[Any]) -> None:
    if not documents:
        return
    try:
        db[collection].insert_many(documents, ordered=False)
    except BulkWriteError as error:
        other = [each for each in (error.details or {})["writeErrors"] if each["code"] != DUPLICATE_KEY]
        if other:
            raise


def _mark(plan: Plan, chunk: int) -> str:
    return f"{plan.seed}/{chunk:06d}"
