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
from pymongo.database import Database

from control_plane.log.projector import Turn
from control_plane.model.projection import fold
from control_plane.store.log.events import Arrival, storable
from control_plane.store.verify.queries import BESIDE, VerifyReads
from control_plane.store.verify.repairs import Repairs
from control_plane.verify.rebuilder import Rebuilder, Rebuilt
from control_plane.verify.verifier import Verifier
from events.codec import decode_ndjson
from events.queue.settlement import End
from events.runtime.clock import SystemIds
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.test_core import Core, in_core, whole_log
from tests.servers import connected

Json = dict[str, Any]
Db = Database[Json]
BY_HAND: Final = "changed by hand"
Happening = Callable[[], Awaitable[None]]
OF_EVENTS: Final = ("stages", "artifacts", "validations", "ideas")


class KilledError(Exception):
    """The process ends here."""


@dataclass(frozen=True)
class Interrupted:
    """Writes as the product does, and lets something happen before and after each write; it may raise."""

    repairs: Repairs
    before: Happening
    after: Happening

    def __getattr__(self, name: str) -> Any:
        async def write(*what: Any) -> bool:
            await self.before()
            is_written: bool = await getattr(self.repairs, name)(*what)
            await self.after()
            return is_written

        return write


async def nothing() -> None:
    """Happen in front of, and behind, the writes of an undisturbed rebuild."""


def rebuilder(core: Core, *, before: Happening = nothing, after: Happening = nothing) -> Rebuilder:
    repairs: Any = Interrupted(Repairs(core.db), before, after)
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


def raw(db: Db) -> dict[tuple[str, str], bytes]:
    """Return every document of a database, byte for byte."""
    options = db.codec_options.with_options(document_class=RawBSONDocument)
    return {
        (name, str(each["_id"])): each.raw
        for name in db.list_collection_names()
        for each in db.get_collection(name, options).find()
    }


def command(url: str, *arguments: str, cwd: Any = os.sep) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", "MONGODB_URL": url}
    return run_program([*PROGRAM, *arguments], env=environment, cwd=cwd)


@pytest.fixture
def copied(filled: tuple[str, Db], emptied_url: str) -> tuple[str, Db]:
    """A copy of the filled store, for a test that changes it."""
    _, original = filled
    db: Db = connected(emptied_url)  # type: ignore[assignment]
    options = original.codec_options.with_options(document_class=RawBSONDocument)
    for name in original.list_collection_names():
        if documents := list(original.get_collection(name, options).find()):
            db.get_collection(name, options).insert_many(documents)
    return emptied_url, db


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


def test_a_store_is_as_it_was_before_a_hand_spoiled_it_and_what_it_did_not_touch_is_the_same_bytes(
    copied: tuple[str, Db],
) -> None:
    url, db = copied
    before, known = raw(db), contents(db)
    touched = spoil(db, random.Random(19))
    assert {name for name, _ in touched} == {"runs", "attempts", *OF_EVENTS}

    async def scenario(core: Core) -> list[str]:
        left: list[str] = []
        async for collection, run_id in VerifyReads(core.db).in_order():
            left += (await rebuilder(core).rebuild(collection, run_id)).left
        return left

    assert in_core(url, scenario) == []
    assert contents(db) == known
    after = raw(db)
    assert {each for each in before if before[each] != after[each]} <= touched


def contents(db: Db) -> dict[str, dict[Any, Json]]:
    """Return every document of a database."""
    return {name: {each["_id"]: each for each in db[name].find()} for name in db.list_collection_names()}


def test_each_write_may_be_the_last_before_a_kill(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await completed(core)
        whole = await stored(core, run_id)
        for writes, is_done in itertools.product(range(6), (False, True)):
            await core.db.stages.delete_many({"runId": run_id})
            await core.db.artifacts.update_many({"runId": run_id}, {"$set": {"size": 1, "seq": 99}})
            await core.db.validations.insert_one({"_id": f"{run_id}/a1/auto", "runId": run_id, "attempt": 1})
            await core.db.attempts.update_many({"runId": run_id}, {"$set": {"error": BY_HAND, "endSeq": 1}})
            await core.db.runs.update_one({"_id": run_id}, {"$set": {"lastEventSeq": 2, "startedAt": None}})
            left = itertools.count(writes, -1)

            async def dies(left: Iterator[int] = left) -> None:
                if next(left) == 0:
                    raise KilledError

            killed = rebuilder(core, after=dies) if is_done else rebuilder(core, before=dies)
            try:
                await killed.rebuild("runs", run_id)
            except KilledError:
                assert writes < 5
            assert (await rebuilt(core, run_id)).left == []
            assert await stored(core, run_id) == whole

    in_core(emptied_url, scenario)


SPOILS: Final[dict[str, Json]] = {
    "stages": {"progress": 0.1}, "artifacts": {"size": 1}, "attempts": {"validation": BY_HAND},
}  # fmt: skip


@pytest.mark.parametrize("known", [0, 1, 3, 5])
@pytest.mark.parametrize("order", ["before", "after"])
def test_an_application_meanwhile_is_never_set_back(emptied_url: str, known: int, order: str) -> None:
    """The pod's next events are applied just before, or after, each of the writes of a rebuild."""

    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        log = whole_log(run_id)
        await core.send(*log[:known])
        await core.sweeper.run_once()
        for collection, fields in SPOILS.items():
            await core.db[collection].update_many({"runId": run_id}, {"$set": fields})
        await core.db.runs.update_one({"_id": run_id}, {"$set": {"startedAt": None}})
        coming = iter(log[known:])
        reached = known

        async def goes_on() -> None:
            nonlocal reached
            if said := next(coming, b""):
                await core.send(said)
                reached += 1
                assert (await core.run(run_id))["lastEventSeq"] == reached

        assert (await rebuilder(core, **{order: goes_on}).rebuild("runs", run_id)).left == []
        await core.send(*coming)
        assert (await rebuilt(core, run_id)).left == []
        assert (await core.run(run_id))["status"] == "COMPLETED"
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


@pytest.mark.parametrize("spoiled", ["stages", "artifacts", "attempts", "runs"])
@pytest.mark.parametrize("change", [{"$set": {"seq": 1_000, "lastEventSeq": 1_000}}, None])
def test_an_application_that_began_before_a_rebuild_and_ends_behind_it(
    emptied_url: str, spoiled: str, change: Json | None
) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        log = whole_log(run_id)
        await core.send(*log[:5])
        await core.sweeper.run_once()
        wanted = {"_id" if spoiled == "runs" else "runId": run_id}
        found = await core.runs.find(run_id)
        assert found is not None
        turn = Turn(found, 1, await core.projector.documents.attempt(run_id, 1))
        stored = [each.outcome for each in decode_ndjson(b"\n".join(log[5:]))]
        late = fold(turn.view, stored, turn.cursor)  # type: ignore[arg-type]
        field = "lastEventSeq" if spoiled in ("attempts", "runs") else "seq"
        if change is None and spoiled != "runs":
            await core.db[spoiled].delete_many(wanted)
        else:
            await core.db[spoiled].update_many(wanted, {"$set": {field: 1_000}})
        assert (await rebuilt(core, run_id)).left == []
        arrival = Arrival(SystemIds().ulid(), core.clock.now())
        await core.events.append([storable(each, arrival) for each in stored])  # type: ignore[arg-type]
        await core.projector._write([(turn, late)])
        await core.projector.apply(run_id, 1)
        assert (await rebuilt(core, run_id)).left == []
        assert (await core.run(run_id))["status"] == "COMPLETED"
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)
