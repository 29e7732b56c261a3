"""A rebuild makes documents equal to their logs, beside whoever applies events, and whenever it is killed."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from control_plane.store.verify.queries import BESIDE, VerifyReads
from control_plane.store.verify.repairs import Repairs
from control_plane.verify.rebuilder import Rebuilder, Rebuilt
from control_plane.verify.verifier import Verifier
from events.queue.settlement import End
from podfleet.embedded.mongod import Mongod
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.test_core import Core, whole_log
from tests.servers import own_database

Json = dict[str, Any]
Db = Database[Json]
BY_HAND: Final = "changed by hand"
OF_EVENTS: Final = ("stages", "artifacts", "validations", "ideas")


@dataclass(frozen=True)
class Interrupted:
    """Writes as the product does, and lets `before` happen in front of each; it may raise."""

    repairs: Repairs
    before: Callable[[], Awaitable[None]]

    async def insert(self, *what: Any) -> bool:
        await self.before()
        return await self.repairs.insert(*what)

    async def change(self, *what: Any) -> bool:
        await self.before()
        return await self.repairs.change(*what)

    async def remove(self, *what: Any) -> bool:
        await self.before()
        return await self.repairs.remove(*what)


def rebuilder(core: Core, before: Callable[[], Awaitable[None]] | None = None) -> Rebuilder:
    repairs: Any = Repairs(core.db) if before is None else Interrupted(Repairs(core.db), before)
    return Rebuilder(VerifyReads(core.db), repairs, core.projector)


async def rebuilt(core: Core, run_id: str) -> Rebuilt:
    return await rebuilder(core).rebuild("runs", run_id)


async def findings(core: Core, run_id: str) -> list[str]:
    return [each.message for each in await Verifier(VerifyReads(core.db)).examine("runs", run_id)]


async def completed(core: Core, *, settled: bool = True) -> str:
    """Return a run that did everything, and whose journal is in the log."""
    run_id = await core.submit()
    claim = await core.claim()
    await core.send(*whole_log(run_id))
    if settled:
        await core.settle(claim, End("completed"), 7)
    await core.sweeper.run_once()
    return run_id


async def stored(core: Core, run_id: str) -> Json:
    """Return the run and everything beside it."""
    found: Json = {"run": await core.run(run_id)}
    for name in (*BESIDE, "events"):
        found[name] = await core.db[name].find({"runId": run_id}).sort("_id").to_list()
    return found


def raw(db: Db) -> dict[str, dict[Any, bytes]]:
    """Return every document of a database, byte for byte."""
    options = db.codec_options.with_options(document_class=RawBSONDocument)
    return {
        name: {str(each["_id"]): each.raw for each in db.get_collection(name, options).find()}
        for name in sorted(db.list_collection_names())
    }


def command(url: str, *arguments: str, cwd: Any = os.sep) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", "MONGODB_URL": url}
    return run_program([*PROGRAM, *arguments], env=environment, cwd=cwd)


@pytest.fixture
def copied(filled: tuple[str, Db], mongod: Mongod) -> Iterator[tuple[str, Db]]:
    """A copy of the filled store, for a test that changes it."""
    _, original = filled
    with own_database(mongod) as url, MongoClient[Json](url) as client:
        db = client.get_default_database()
        options = original.codec_options.with_options(document_class=RawBSONDocument)
        for name in original.list_collection_names():
            documents = list(original.get_collection(name, options).find())
            for index in original[name].list_indexes():
                keep = {k: v for k, v in index.items() if k not in ("v", "key", "ns")}
                db[name].create_index(list(index["key"].items()), **keep)
            if documents:
                db.get_collection(name, options).insert_many(documents)
        yield url, db


def test_a_store_of_this_release_is_left_byte_for_byte(copied: tuple[str, Db]) -> None:
    url, db = copied
    before = raw(db)
    done = command(url, "rebuild")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert " 0 rebuilt, 0 not as their logs tell" in done.stderr
    assert raw(db) == before


def spoil(db: Db, chance: random.Random) -> set[tuple[str, str]]:
    """Spoil documents of every collection that events make; return which."""
    touched: set[tuple[str, str]] = set()
    for name in OF_EVENTS:
        documents = list(db[name].find().sort("_id"))
        for number, document in enumerate(chance.sample(documents, min(len(documents), 24))):
            identity = {"_id": document["_id"]}
            fields = [each for each in document if each not in ("_id", "runId")]
            match number % 4:
                case 0:
                    db[name].delete_one(identity)
                case 1:
                    db[name].update_one(identity, {"$set": {chance.choice(fields): BY_HAND}})
                case 2:
                    db[name].update_one(identity, {"$set": {"seq": 10_000, "surplus": 1}})
                case _:
                    db[name].insert_one({**document, "_id": f"{document['_id']}/surplus"})
                    touched.add((name, f"{document['_id']}/surplus"))
            touched.add((name, document["_id"]))
    owned = ("currentStage", "startedAt", "validation", "error", "endSeq", "lastEventSeq")
    query = {"outcome": {"$ne": None}, "lastEventSeq": {"$gt": 3}}
    for attempt, fields in zip(db.attempts.find(query).sort("_id"), itertools.cycle(owned)):
        changed = 1 if fields in ("endSeq", "lastEventSeq") else BY_HAND
        db.attempts.update_one({"_id": attempt["_id"]}, {"$set": {fields: changed}})
        touched.add(("attempts", attempt["_id"]))
        if len(touched) % 60 == 0:
            break
    ended = db.runs.find({"finishedAt": {"$ne": None}, "lastEventSeq": {"$gt": 3}}).sort("_id").limit(40)
    for run, name in zip(ended, itertools.cycle(("lastEventSeq", "currentStage", "startedAt", "validation"))):
        value = chance.choice((1, 10_000)) if name == "lastEventSeq" else BY_HAND
        db.runs.update_one({"_id": run["_id"]}, {"$set": {name: value}})
        touched.add(("runs", run["_id"]))
    return touched


def test_what_a_hand_spoiled_in_every_collection_is_as_it_was_and_the_rest_untouched(
    copied: tuple[str, Db],
) -> None:
    url, db = copied
    before, known = (
        raw(db),
        {name: {e["_id"]: e for e in db[name].find()} for name in db.list_collection_names()},
    )
    touched = spoil(db, random.Random(19))
    spoiled = raw(db)
    assert command(url, "verify", "--rebuild").returncode == 1
    told = command(url, "rebuild", "--dry-run")
    assert (told.returncode, raw(db) == spoiled) == (1, True), told.stderr
    done = command(url, "rebuild")
    assert (done.returncode, "left" in done.stdout) == (0, False), done.stdout + done.stderr
    assert command(url, "verify", "--rebuild").returncode == 0
    after = raw(db)
    unlike = {
        (name, identity)
        for name, documents in before.items()
        for identity in documents.keys() | after[name].keys()
        if documents.get(identity) != after[name].get(identity)
    }
    assert unlike <= touched
    now = {name: {e["_id"]: e for e in db[name].find()} for name in known}
    assert now == known
    assert command(url, "rebuild").stdout == ""
