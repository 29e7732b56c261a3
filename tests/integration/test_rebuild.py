"""A rebuild makes documents equal to their logs, beside whoever applies events, and whenever it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from bson import Binary, Code, ObjectId
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from control_plane.log.projector import Turn
from control_plane.model.projection import fold
from control_plane.runs.decisions import Review, review_decision
from control_plane.store.log.events import Arrival, storable
from control_plane.store.verify.collecting import HAND_MADE
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.queries import BESIDE, VerifyReads
from control_plane.store.verify.repairs import STANDING, Repairs
from control_plane.verify.rebuilder import Rebuilder, Rebuilt
from events import catalog as c
from events.codec import decode_ndjson
from events.kinds.declaring.fact import Fact
from events.lifecycle import Illegal
from events.queue.settlement import End
from events.runtime.clock import SystemIds
from events.runtime.errors import Transient
from events.text.attempt_id import AttemptId
from tests.fork_server import run_program
from tests.integration.command_line import within
from tests.integration.test_core import Core, in_core, line, whole_log
from tests.servers import connected

Json = dict[str, Any]
Db = Database[Json]
BY_HAND: Final = "changed by hand"
Happening = Callable[[], Awaitable[None]]


def nested(depth: int) -> Json:
    """Return a document in a document, and so on."""
    document: Json = {}
    for _ in range(depth):
        document = {"in": document}
    return document


REMOVED: Final = object()
POISONS: Final[list[Any]] = [
    None, -1, 2**63 - 1, math.nan, "../" * 5_000, Binary(b"\xff"), ObjectId(), [1, "x"], {"set": 1}, REMOVED,
    DatetimeMS(2**62), nested(150),
]  # fmt: skip
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


async def completed(core: Core) -> str:
    """Return a run that did everything, and whose journal is in the log."""
    run_id = await core.submit()
    claim = await core.claim(SystemIds().token())
    await core.send(*whole_log(run_id))
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


def decoded(lines: Sequence[bytes]) -> list[Any]:
    """Return the events of lines."""
    return [each.outcome for each in decode_ndjson(b"\n".join(lines))]


def arrival(core: Core) -> Arrival:
    return Arrival(SystemIds().ulid(), core.clock.now())


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


@pytest.mark.slow("fills a store for all of this file, and rebuilds every run of it")
def test_a_store_is_as_it_was_before_a_hand_spoiled_it_and_what_it_did_not_touch_is_the_same_bytes(
    copied: tuple[str, Db],
) -> None:
    url, db = copied
    before, known = raw(db), contents(db)
    touched = spoil(db, random.Random(19))
    assert {name for name, _ in touched} == {"runs", "attempts", *OF_EVENTS}

    async def scenario(core: Core) -> None:
        walked: list[str] = []
        async for collection, run_id in VerifyReads(core.db).in_order():
            walked.append(run_id)
            assert (await rebuilder(core).rebuild(collection, run_id)).left == []
        assert walked == sorted({*known["runs"], *known["ideation_requests"]})

    in_core(url, scenario)
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


def test_a_write_misses_a_document_that_is_not_the_one_that_was_read(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await completed(core)
        repairs, sets = Repairs(core.db), {"startedAt": None}
        (was,) = await core.db.stages.find({"runId": run_id}).to_list()
        for each in set(was) - {"_id"}:
            now = {**was, each: BY_HAND}
            await core.db.stages.replace_one({"_id": was["_id"]}, now)
            assert not await repairs.change("stages", was, sets, ["order"])
            assert not await repairs.remove("stages", was)
            assert not await repairs.insert("stages", {**was, "runId": now["runId"]})
            assert await core.db.stages.find({}).to_list() == [now]
        run = await core.run(run_id)
        for each in STANDING:
            now = {**run, each: BY_HAND}
            await core.db.runs.replace_one({"_id": run_id}, now)
            assert not await repairs.change("runs", run, sets, [])
            assert await core.run(run_id) == now
        leased = {**run, "lastHeartbeat": datetime(2026, 1, 1, tzinfo=UTC), "lease": None}
        await core.db.runs.replace_one({"_id": run_id}, leased)
        assert await repairs.change("runs", run, sets, [])
        assert await core.run(run_id) == {**leased, **sets}

    in_core(emptied_url, scenario)


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
        turn = Turn(found, 1, await core.projector.documents.attempt(AttemptId(run_id, 1)))
        coming = decoded(log[5:])
        late = fold(turn.view, coming, turn.cursor)
        field = "lastEventSeq" if spoiled in ("attempts", "runs") else "seq"
        if change is None and spoiled != "runs":
            await core.db[spoiled].delete_many(wanted)
        else:
            await core.db[spoiled].update_many(wanted, {"$set": {field: 1_000}})
        assert (await rebuilt(core, run_id)).left == []
        await core.events.append([storable(each, arrival(core)) for each in coming])
        await core.projector._write([(turn, late)])
        await core.projector.apply(AttemptId(run_id, 1))
        assert (await rebuilt(core, run_id)).left == []
        assert (await core.run(run_id))["status"] == "COMPLETED"
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def long_log(run_id: str, steps: int) -> list[bytes]:
    """Return a log with many stages, reports, files and an end."""
    facts: list[Fact] = [c.RunStarted()]
    for step in range(steps):
        stage, name = f"stage-{step % 5}", f"file-{step % 7}.bin"
        key = f"runs/{run_id}/a1/{step}/{name}"
        facts += [
            c.StageStarted(stage=stage, index=step % 5 + 1, total=5),
            c.StageProgress(stage=stage, progress=0.5, activity=f"step {step}"),
            c.StageMetric(stage=stage, name="loss", value=1.0 / (step + 1)),
            c.ArtifactRegistered(name=name, key=key, size=step, sha256="0" * 64),
            c.ValidationAutoCompleted(verdict="pass", summary=f"of step {step}"),
            c.StageCompleted(stage=stage, duration_s=1.5),
        ]
    facts.append(c.RunCompleted())
    return [line(run_id, number, fact) for number, fact in enumerate(facts, 1)]


SPOILT: Final = (
    ("stages", {"$set": {"progress": 0.01, "seq": 5_000}}),
    ("stages", {"$set": {"status": BY_HAND, "surplus": 1}}),
    ("stages", None),
    ("artifacts", {"$set": {"size": -1, "attempt": "x"}}),
    ("artifacts", None),
    ("validations", {"$set": {"verdict": BY_HAND, "seq": 5_000}}),
    ("attempts", {"$set": {"currentStage": BY_HAND}}),
    ("attempts", {"$set": {"lastEventSeq": 5_000}}),
    ("runs", {"$set": {"validation": {"verdict": BY_HAND}}}),
    ("runs", {"$set": {"currentStage": {"name": "none", "progress": 1.0, "activity": None}}}),
    ("runs", {"$set": {"lastEventSeq": 5_000}}),
)


async def load(core: Core, chance: random.Random, *, runs: int, steps: int) -> int:
    """Send the logs of runs, spoil documents and rebuild, all at once; return how much was mended."""
    ids = [await core.submit() for _ in range(runs)]
    claims = [await core.claim(f"token-{n}", f"pod/{n}") for n in range(runs)]
    busy, mended = runs, 0

    async def pod(run_id: str) -> None:
        nonlocal busy
        lines = long_log(run_id, steps)
        while lines:
            size = chance.randint(1, 12)
            with contextlib.suppress(Transient, *HAND_MADE):  # a spoiled document is in the way
                await core.send(*lines[:size])
            lines = lines[size:]
        busy -= 1

    async def hand() -> None:
        while busy:
            collection, change = chance.choice(SPOILT)
            wanted = {"_id" if collection == "runs" else "runId": chance.choice(ids)}
            if change is None:
                await core.db[collection].delete_many(wanted)
            else:
                await core.db[collection].update_one(wanted, change)

    async def operator() -> None:
        nonlocal mended
        while busy:
            for run_id in ids:
                mended += len((await rebuilt(core, run_id)).done)

    await asyncio.gather(*map(pod, ids), hand(), operator())
    for claim in claims:
        assert (await rebuilt(core, claim.run_id)).left == []
        await core.send(*long_log(claim.run_id, steps))  # what nobody took while it was spoiled
        assert (await rebuilt(core, claim.run_id)).left == []
        await core.settle(claim, End("completed"), 6 * steps + 2)
        assert (await core.run(claim.run_id))["status"] == "COMPLETED"
        await core.must_equal_its_log(claim.run_id)
    return mended


@pytest.mark.parametrize(
    ("seed", "runs", "steps"),
    [(1, 2, 12), *(pytest.param(n, 4, 60, marks=pytest.mark.long("more seeds")) for n in range(2, 12))],
)
def test_documents_equal_their_logs_after_rebuilds_under_load(
    emptied_url: str, seed: int, runs: int, steps: int
) -> None:
    mended = in_core(emptied_url, lambda core: load(core, random.Random(seed), runs=runs, steps=steps))
    assert mended > 0


def test_a_cursor_beyond_the_log_is_mended_and_the_end_that_waited_is_decided(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        log = whole_log(run_id)
        await core.send(*log[:4])
        await core.db.runs.update_one({"_id": run_id}, {"$set": {"lastEventSeq": 1_000}})
        await core.events.append([storable(each, arrival(core)) for each in decoded(log[4:])])
        result = await rebuilt(core, run_id)
        assert "events 7 to 7 of attempt 1 are applied" in result.done
        assert (await core.run(run_id))["status"] == "COMPLETED"
        await core.settle(claim, End("completed"), 7)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


@pytest.mark.parametrize("cursor", [2, 1_000])
def test_a_closed_record_is_rebuilt_up_to_its_seal(emptied_url: str, cursor: int) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit(review="human")
        claim = await core.claim()
        log = whole_log(run_id)
        await core.send(*log[:5])
        await core.settle(claim, End("completed"), 7)
        found = await core.runs.find(run_id)
        assert found is not None
        decision = review_decision(found.run, Review("pass", "", "me", incomplete=True), [], None)
        assert not isinstance(decision, Illegal)
        assert await core.runs.decide(found, decision) is not None
        await core.sweeper.run_once()
        # On its way when the verdict was given.
        await core.events.append([storable(each, arrival(core)) for each in decoded(log[5:])])
        whole = await stored(core, run_id)
        assert (await rebuilt(core, run_id)).done == []
        for collection in ("stages", "artifacts", "validations"):
            await core.db[collection].delete_many({"runId": run_id})
        await core.db.attempts.update_many({"runId": run_id}, {"$set": {"lastEventSeq": 7, "endSeq": 7}})
        await core.db.runs.update_one({"_id": run_id}, {"$set": {"lastEventSeq": cursor}})
        assert (await rebuilt(core, run_id)).left == []
        assert await stored(core, run_id) == whole

    in_core(emptied_url, scenario)


def filled_in(document: Json) -> Json:
    """Return a document without what is empty: to be missing is as good."""
    return {name: value for name, value in document.items() if value is not None}


def test_no_stored_value_ends_a_rebuild(emptied_url: str) -> None:
    """Each field once, by the poisons in turn: what events make is as it was, and the rest is told."""

    async def scenario(core: Core) -> None:
        run_id = await completed(core)
        whole = await stored(core, run_id)
        poisons = itertools.cycle(POISONS)
        for collection, documents in whole.items():
            name, of_run = ("runs", [documents]) if collection == "run" else (collection, documents[::4])
            for document in of_run:
                for each in sorted(set(document) - {"_id", "journal"}):
                    poison = next(poisons)
                    change = {"$unset": {each: ""}} if poison is REMOVED else {"$set": {each: poison}}
                    await core.db[name].update_one({"_id": document["_id"]}, change)
                    result = await rebuilt(core, run_id)
                    now = await core.db[name].find_one({"_id": document["_id"]})
                    if name in OF_EVENTS:
                        assert result.left == [], (name, each, poison)
                        assert filled_in(now) == filled_in(document), (name, each, poison)
                    await core.db[name].replace_one({"_id": document["_id"]}, document)
        assert await stored(core, run_id) == whole

    in_core(emptied_url, scenario)


def test_what_has_no_name_or_another_runs_name_is_removed_or_replaced(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await completed(core)
        whole = await stored(core, run_id)
        for identity in (ObjectId(), Binary(b"\xff"), {"an": "object"}, 5):
            await core.db.stages.insert_one({"_id": identity, "runId": run_id, "attempt": 1, "name": "s"})
        await core.db.artifacts.update_many({"runId": run_id}, {"$set": {"runId": "of another"}})
        assert (await rebuilt(core, run_id)).left == []
        assert await stored(core, run_id) == whole
        await core.db.stages.insert_one({"_id": Code("x"), "runId": run_id, "attempt": 1, "name": "s"})
        (told,) = (await rebuilt(core, run_id)).left
        assert "cannot be written" in told
        await core.db.stages.delete_many({"_id": Code("x")})
        await core.db.stages.update_many({}, {"$set": {"progress": Code("x")}})
        assert "cannot be written" in (await rebuilt(core, run_id)).left[0]

    in_core(emptied_url, scenario)


@dataclass(frozen=True)
class TornReads(VerifyReads):
    """Reads a run, lets something happen once, and reads what is beside the run after it."""

    happens: list[Happening] = field(default_factory=list)

    async def evidence(self, collection: str, run_id: str) -> Evidence | None:
        before = await super().evidence(collection, run_id)
        while self.happens:
            await self.happens.pop()()
        after = await super().evidence(collection, run_id)
        assert before is not None
        assert after is not None
        return replace(after, run=before.run, log=before.log)


def test_what_was_read_while_the_run_moved_removes_nothing(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit(review="human")
        claim = await core.claim()
        await core.send(*whole_log(run_id))
        await core.settle(claim, End("completed"), 7)
        await core.sweeper.run_once()
        verdicts: list[Json] = []

        async def judges() -> None:
            found = await core.runs.find(run_id)
            assert found is not None
            decision = review_decision(found.run, Review("pass", "", "me", incomplete=True), [], None)
            assert not isinstance(decision, Illegal)
            assert await core.runs.decide(found, decision) is not None
            await core.sweeper.run_once()
            verdicts.extend(await core.db.validations.find().to_list())

        torn = replace(rebuilder(core), reads=TornReads(core.db, [judges]))
        assert await torn.rebuild("runs", run_id) == Rebuilt()
        assert await core.db.validations.find().to_list() == verdicts != []

    in_core(emptied_url, scenario)


def test_what_happened_a_moment_ago_is_left_to_application_for_a_while(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        await core.events.append([storable(each, arrival(core)) for each in decoded(whole_log(run_id)[:4])])
        patient = replace(rebuilder(core), patience_s=60.0)
        turns = [patient.rebuild("runs", run_id), core.projector.apply(AttemptId(run_id, 1))]
        assert await asyncio.gather(*turns) == [Rebuilt(), 4]
        await core.db.stages.delete_many({})
        assert len((await replace(patient, patience_s=0.2).rebuild("runs", run_id)).done) == 1

    in_core(emptied_url, scenario)


@pytest.mark.parametrize("fault", [TypeError("spoiled"), Transient("contended", "it changes too fast")])
def test_an_application_that_fails_is_asked_again(emptied_url: str, fault: Exception) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        await core.events.append([storable(each, arrival(core)) for each in decoded(whole_log(run_id)[:4])])
        faults = [fault]

        class Failing:
            async def apply(self, attempt_id: AttemptId) -> int:
                if faults:
                    raise faults.pop()
                return await core.projector.apply(attempt_id)

        assert (await replace(rebuilder(core), application=Failing()).rebuild("runs", run_id)).left == []
        assert (await core.run(run_id))["lastEventSeq"] == 4

    in_core(emptied_url, scenario)


def test_a_log_that_has_lost_lines_keeps_its_documents(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await completed(core)
        await core.db.events.delete_one({"runId": run_id, "sequence": 5})
        whole = await stored(core, run_id)
        result = await rebuilt(core, run_id)
        assert (result.done, "its log is not whole" in result.left[0]) == ([], True)
        assert await stored(core, run_id) == whole

    in_core(emptied_url, scenario)


@dataclass(frozen=True)
class Shop:
    """A store with runs, and the command line on it."""

    url: str
    runs: list[str]

    def rebuild(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return within(self.url, "rebuild", *arguments, MONGODB_URL=self.url)


@pytest.fixture
def shop(emptied_url: str) -> Shop:
    async def scenario(core: Core) -> list[str]:
        runs = [await completed(core) for _ in range(3)]
        # Of what happened a moment ago the command says nothing for a while.
        await core.db.events.update_many({}, {"$set": {"receivedAt": datetime(2026, 1, 1, tzinfo=UTC)}})
        await core.db.stages.update_many({}, {"$set": {"progress": 0.1}})
        return sorted(runs)

    return Shop(emptied_url, in_core(emptied_url, scenario))


def test_the_command_says_what_it_does_to_which_runs(shop: Shop) -> None:
    first, second, third = shop.runs
    dry = shop.rebuild("--dry-run")
    assert (dry.returncode, dry.stdout.count("would rebuild  ")) == (1, 3)
    assert shop.rebuild("--kind", "experiment").stdout == ""
    done = shop.rebuild(second, "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["run"], said["result"]) == (0, second, "rebuilt")
    assert "progress from 0.1 to 1.0" in said["message"]
    behind = shop.rebuild("--kind", "probe", "--after", first)
    assert (behind.returncode, behind.stdout.split()[:2]) == (0, ["rebuilt", third])
    assert f"2 runs looked at, 1 rebuilt, 0 not as their logs tell; the last one was {third}" in behind.stderr
    assert shop.rebuild().stdout.split()[:2] == ["rebuilt", first]
    assert (shop.rebuild().returncode, shop.rebuild().stdout) == (0, "")


def test_the_command_tells_what_is_not_rebuilt(shop: Shop) -> None:
    with MongoClient[Json](shop.url) as client:
        client.get_default_database().runs.update_one(
            {"_id": shop.runs[0]}, {"$set": {"status": "FAILED", "error": "x" * 10_000}}
        )
    done = shop.rebuild(shop.runs[0])
    assert (done.returncode, max(map(len, done.stdout.splitlines())) < 3_000) == (1, True)
    assert f"left  {shop.runs[0]}  the run: status is 'FAILED', the log says 'COMPLETED'" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (
            ("--kind", "unheard"),
            2,
            "known kinds: benchmark, compute, experiment, ideation, image, job, probe",
        ),
        (("RUN", "--kind", "probe"), 2, "not both"),
        (("no-such-run",), 1, "there is no run no-such-run"),
    ],
)
def test_a_wish_that_cannot_be_is_told(
    shop: Shop, arguments: tuple[str, ...], status: int, words: str
) -> None:
    done = shop.rebuild(*arguments)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr


def test_an_interrupted_rebuild_says_how_to_go_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Rebuilder.rebuild

    async def until_the_second(self: Rebuilder, collection: str, run_id: str) -> Rebuilt:
        if run_id == shop.runs[1]:
            raise KeyboardInterrupt
        return await whole(self, collection, run_id)

    monkeypatch.setattr(Rebuilder, "rebuild", until_the_second)
    done = shop.rebuild("--kind", "probe")
    assert done.returncode == 130
    assert f"to go on: podfleet rebuild --kind probe --after {shop.runs[0]}\n" in done.stderr


def test_a_rebuild_that_is_killed_is_run_again(shop: Shop) -> None:
    """The process ends by SIGKILL behind its second write."""
    killed = (
        "-c",
        "import os, signal, sys; from control_plane.store.verify.repairs import Repairs as R; w = R.change\n"
        "async def change(self, *what):\n    done = await w(self, *what)\n    left.pop()\n"
        "    left or os.kill(os.getpid(), signal.SIGKILL)\n    return done\n"
        "left = [1, 2]; R.change = change; from podfleet.main import main; sys.exit(main())",
    )
    environment = {"PATH": "", "MONGODB_URL": shop.url}
    assert run_program([*killed, "rebuild"], env=environment, cwd=os.sep).returncode == -signal.SIGKILL
    again = shop.rebuild()
    assert (again.returncode, again.stdout.split()[:2]) == (0, ["rebuilt", shop.runs[2]])
    assert shop.rebuild().stdout == ""
