"""`podfleet verify` finds nothing wrong with a healthy fleet, and names what a hand has broken."""

from __future__ import annotations

import asyncio
import hashlib
import io
import math
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pytest
from bson import Binary, Code, ObjectId, encode
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from minio import Minio
from pymongo import MongoClient
from pymongo.database import Database

from control_plane.config import read_storage
from control_plane.files.blobs import open_blobs
from control_plane.store import database as store
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import REBUILD, UNREADABLE, Finding, Verifier
from events.catalog import RunLog
from events.envelope import Head, wire
from events.text.attempt_id import AttemptId
from podfleet.embedded.mongod import Mongod
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import Fleet, fleet_on
from tests.servers import S3Server, own_database

pytestmark = pytest.mark.xdist_group("verify")  # they share a fleet

Db = Database[dict[str, Any]]
Json = dict[str, Any]
# The command line, with a third of a second for a MongoDB to answer.
IMPATIENT: Final = (
    "-c",
    "import sys; from control_plane.store import database; database.SERVER_SELECTION_S = 0.3;"
    "from podfleet.main import main; sys.exit(main())",
)
LONG_AGO: Final = timedelta(hours=1)
ZERO: Final = "0" * 64
CHANGED: Final = (
    "runs", "attempts", "stages", "artifacts", "validations", "events", "dead_letters", "run_specs",
)  # fmt: skip


@dataclass
class Ward:
    """A fleet's database with runs of every kind; ids by what became of them."""

    db: Db
    url: str
    storage: Any
    runs: dict[str, str]
    cwd: Any

    def verify(self, *options: str, storage: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "", "MONGODB_URL": self.url}
        if storage:
            environment |= self.storage.environment
        return run_program([*PROGRAM, "verify", *options], env=environment, cwd=self.cwd)

    def run(self, name: str) -> Json:
        found = self.db.runs.find_one({"_id": self.runs[name]})
        assert found is not None
        return found

    def change(self, name: str, **fields: Any) -> None:
        """Set fields of a run by hand."""
        self.db.runs.update_one({"_id": self.runs[name]}, {"$set": fields})

    def event(self, name: str, **query: Any) -> Json:
        found = self.db.events.find_one({"runId": self.runs[name], **query})
        assert found is not None, query
        return found

    def decision(self, name: str, cause: str) -> Json:
        return self.event(name, **{"data.cause": cause})


@pytest.fixture(scope="module")
def ward(
    mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory, until: Any
) -> Iterator[Ward]:
    """A fleet at work, which no test changes."""
    home = tmp_path_factory.mktemp("ward")
    with own_database(mongod) as url, fleet_on(url, s3, home) as fleet, MongoClient[Json](url) as client:
        database = client.get_default_database()
        yield Ward(database, url, s3, at_work(fleet, database, until), home)


def at_work(fleet: Fleet, database: Db, until: Any) -> dict[str, str]:
    """Let runs complete, fail, be tried again, preempted, canceled and reviewed; one is still held."""
    specs: dict[str, Json] = {
        "completed": {"spec": {"seconds": 0.2, "events": 20}},
        "failed": {"spec": {"seconds": 0, "end": "exception"}},
        "retried": {"spec": {"seconds": 0, "end": "retryable"}, "max_attempts": 2},
        "reviewed": {"spec": {"seconds": 0, "review": "human"}},
    }
    runs = {name: fleet.submit(**body) for name, body in specs.items()}
    worker = fleet.start_worker("--max-runs", "6")
    for name in ("completed", "failed", "retried"):
        fleet.wait_for(runs[name], "COMPLETED", "FAILED")
    fleet.wait_for(runs["reviewed"], "AWAITING_HUMAN")
    assert fleet.client.post(f"/api/runs/{runs['reviewed']}/review", json={"verdict": "pass"}).is_success
    runs["canceled"] = fleet.submit(spec={"seconds": 600, "events": 6_000}, priority=-5)
    until(lambda: fleet.run(runs["canceled"])["lastEventSeq"] > 3)
    assert fleet.client.post(f"/api/runs/{runs['canceled']}/cancel").is_success
    fleet.wait_for(runs["canceled"], "CANCELED")
    assert worker.wait(60) == 0
    runs["preempted"] = fleet.submit(spec={"seconds": 600, "events": 6_000})
    second = fleet.start_worker(name="second")
    until(lambda: fleet.run(runs["preempted"])["lastEventSeq"] > 3)
    second.terminate()
    assert second.wait(60) == 0
    runs["held"] = fleet.submit(spec={"seconds": 7_200, "events": 1}, priority=9)
    fleet.start_worker(name="third")
    until(lambda: fleet.run(runs["held"])["lastEventSeq"] >= 2)
    until(lambda: database.runs.count_documents({"journal.n": {"$gte": 0}}) == 0)
    return runs


MOVING: Final = {"pods", "pod_telemetry", "byte_counts", "lease_watches", "live_texts"}


def snapshot(db: Db) -> dict[str, str]:
    """Return a digest of everything stored, by collection, but what heartbeats, renewals and looks move."""
    digests = {}
    for name in sorted(set(db.list_collection_names()) - MOVING):
        digest = hashlib.sha256()
        for document in db[name].find({"type": {"$ne": "ai.run.heartbeat"}}).sort("_id"):
            for moving in ("lease", "lastHeartbeat", "lastEventSeq", "currentStage"):
                document.pop(moving, None)
            digest.update(encode(document))
        digests[name] = digest.hexdigest()
    return digests


@dataclass(frozen=True)
class Touched:
    """A document before and after a change; None where there is none."""

    collection: str
    identity: Any
    before: Json | None
    now: Json | None

    @property
    def run_id(self) -> str:
        document = self.before or self.now or {}
        return str(document["_id" if self.collection in {"runs", "run_specs"} else "runId"])


@dataclass(frozen=True)
class Kept:
    """What is put back after each change: the documents, and the object that changes touch."""

    documents: dict[str, dict[Any, Json]]
    content: bytes

    @classmethod
    def of(cls, ward: Ward) -> Kept:
        with storage_of(ward).get_object(ward.storage.bucket, object_key(ward)) as answer:
            return cls({name: stored(ward, name) for name in CHANGED}, answer.read())

    def touched(self, ward: Ward) -> list[Touched]:
        """Return every document that is not as it was."""
        found: list[Touched] = []
        for name, before in self.documents.items():
            now = stored(ward, name)
            found += [
                Touched(name, each, before.get(each), now.get(each))
                for each in before | now
                if before.get(each) != now.get(each)
            ]
        return found

    def put_back(self, ward: Ward, touched: list[Touched]) -> None:
        for each in touched:
            ward.db[each.collection].delete_one({"_id": each.identity})
            if each.before is not None:
                ward.db[each.collection].insert_one(each.before)
        if not touched:  # then it was the object
            place = ward.storage.bucket, object_key(ward)
            storage_of(ward).put_object(*place, io.BytesIO(self.content), len(self.content))


def stored(ward: Ward, name: str) -> dict[Any, Json]:
    """Return the documents of a collection by their identities."""
    return {each["_id"]: each for each in ward.db[name].find()}


Mutation = Callable[[Ward], object]


def edit_event(name: str, query: Json, **fields: Any) -> Mutation:
    return lambda w: w.db.events.update_one({"_id": w.event(name, **query)["_id"]}, {"$set": fields})


def edit_decision(name: str, which: str, **fields: Any) -> Mutation:
    changes = {f"data.{field}": value for field, value in fields.items()}
    return lambda w: w.db.events.update_one({"_id": w.decision(name, which)["_id"]}, {"$set": changes})


def charge(name: str, app: int, infra: int, preempted: int) -> Mutation:
    return lambda w: w.change(name, failures={"app": app, "infra": infra, "preempted": preempted})


def edit_beside(collection: str, name: str, **fields: Any) -> Mutation:
    return lambda w: w.db[collection].update_one({"runId": w.runs[name]}, {"$set": fields})


def plant_letter(code: str, *, sequence: int = 1, message: str = "the pod's own words") -> Mutation:
    def plant(w: Ward) -> None:
        run_id = w.runs["completed"]
        line = wire(
            RunLog(message=message),
            Head(
                id="planted",
                source="//pod/1",
                attempt_id=AttemptId(run_id, 1),
                sequence=sequence,
                time="2026-11-21T10:00:00Z",
            ),
        )
        w.db.dead_letters.insert_one(
            {
                "_id": "01K0000000000000000000000Z", "at": w.run("completed")["createdAt"] + LONG_AGO,
                "code": code, "message": "planted", "line": line.decode(), "runId": run_id, "attempt": 1,
                "sequence": sequence, "principal": "pod",
            }
        )  # fmt: skip

    return plant


def second_claim(w: Ward) -> None:
    """Write history as if another pod had claimed the run beside its owner."""
    run = w.run("held")
    claim = w.decision("held", "claim")
    n = run["revision"] + 1
    data = {**claim["data"], "n": n, "from": "RUNNING", "seq": run["lastEventSeq"]}
    data |= {"attempt": 1, "set": {**claim["data"]["set"], "attempt": 2}}
    identity = f"{run['_id']}/r{n}"
    w.db.events.insert_one({**claim, "_id": identity, "ceId": identity, "revision": n, "data": data})
    w.change("held", revision=n)


def skip_revision(w: Ward) -> None:
    w.change("completed", revision=w.run("completed")["revision"] + 1)


def object_key(w: Ward) -> str:
    found = w.db.artifacts.find_one({"runId": w.runs["completed"]})
    assert found is not None
    return str(found["key"])


def alter_object(w: Ward) -> None:
    storage_of(w).fput_object(w.storage.bucket, object_key(w), __file__)


def remove_object(w: Ward) -> None:
    storage_of(w).remove_object(w.storage.bucket, object_key(w))


def storage_of(w: Ward) -> Minio:
    s3 = w.storage
    return Minio(
        s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, secure=False, region=s3.region
    )


def old_journal(w: Ward) -> None:
    run = w.run("completed")
    data = w.decision("completed", "claim")["data"]
    data = {**data, "at": data["at"] - LONG_AGO}
    w.db.events.delete_one({"_id": f"{run['_id']}/r{data['n']}"})
    w.change("completed", journal=[{name: data[name] for name in JOURNAL}])


JOURNAL: Final = ("n", "cause", "by", "at", "from", "to", "attempt", "seq", "set")

# Each by what a stranger would do, and the name that must be among the findings.
BROKEN: Final[list[tuple[str, Mutation, str]]] = [
    ("a final status set by hand", lambda w: w.change("completed", status="FAILED"), "final-status-changed"),
    ("an ended run queued again", lambda w: w.change("failed", status="QUEUED"), "final-status-changed"),
    ("a status set by hand", lambda w: w.change("preempted", status="DELAYED"), "status-unexplained"),
    (
        "a decision led elsewhere",
        edit_decision("failed", "end: failed", to="COMPLETED"),
        "final-status-changed",
    ),
    ("a decision that no row allows", edit_decision("completed", "claim", to="COMPLETED"), "status-path"),
    ("a decision from elsewhere", edit_decision("canceled", "cancel", **{"from": "QUEUED"}), "status-path"),
    ("a cause that is none", edit_decision("completed", "claim", cause="magic"), "status-path"),
    ("an actor of another term", edit_decision("completed", "end: completed", by="pod/1#a7"), "actor-term"),
    ("two claims at once", second_claim, "two-owners"),
    ("a revision skipped", skip_revision, "revision-gap"),
    (
        "a decision deleted",
        lambda w: w.db.events.delete_one({"_id": w.decision("retried", "promote")["_id"]}),
        "revision-gap",
    ),
    (
        "an event deleted in the middle",
        lambda w: w.db.events.delete_one({"_id": w.event("completed", sequence=4)["_id"]}),
        "sequence-gap",
    ),
    (
        "the last event deleted",
        lambda w: w.db.events.delete_one(
            {"_id": w.event("completed", sequence=w.run("completed")["lastEventSeq"])["_id"]}
        ),
        "sequence-gap",
    ),
    ("a cursor raised", lambda w: w.change("completed", lastEventSeq=1_000), "sequence-gap"),
    (
        "an event's data edited",
        edit_event("completed", {"type": "ai.run.log"}, **{"data.message": "x"}),
        "event-tampered",
    ),
    ("an event's data emptied", edit_event("completed", {"type": "ai.run.log"}, data={}), "event-tampered"),
    (
        "an event behind the end",
        edit_event("completed", {"sequence": 3}, sequence=4_000),
        "event-after-end",
    ),
    ("a journal that nobody swept", old_journal, "journal-stuck"),
    (
        "a lease on a run that has ended",
        lambda w: w.db.runs.update_one({"_id": w.runs["completed"]}, {"$currentDate": {"lease.until": True}}),
        "lease-leaked",
    ),
    ("a held run without a lease", lambda w: w.change("held", lease=None), "lease-leaked"),
    ("a preemption charged to the application", charge("preempted", 1, 0, 0), "wrong-budget"),
    ("a failure forgiven", charge("retried", 0, 0, 0), "wrong-budget"),
    ("a field of nobody", lambda w: w.change("completed", color="blue"), "field-without-writer"),
    ("a field of nobody beside it", edit_beside("stages", "completed", color="blue"), "field-without-writer"),
    ("a foreign artifact", edit_beside("artifacts", "completed", key="runs/x/a1"), "artifact-foreign"),
    ("an object removed", remove_object, "artifact-missing"),
    ("an object overwritten", alter_object, "artifact-altered"),
    ("another hash registered", edit_beside("artifacts", "completed", sha256=ZERO), "artifact-altered"),
    ("a refusal for nothing", plant_letter("bad_json"), "wrong-refusal"),
    ("a conflict with nothing", plant_letter("conflict", sequence=9_999), "wrong-refusal"),
    ("a run that was unknown and is not", plant_letter("unknown_run"), "wrong-refusal"),
    (
        "one token for two runs",
        lambda w: w.change("preempted", lease=w.run("completed")["lease"]),
        "duplicate-token",
    ),
    (
        "one worker for two runs",
        lambda w: w.change("canceled", status="RUNNING", claimedBy=w.run("held")["claimedBy"]),
        "two-runs-one-pod",
    ),
    (
        "a field removed",
        lambda w: w.db.runs.update_one({"_id": w.runs["completed"]}, {"$unset": {"failures": ""}}),
        "unreadable",
    ),
    ("a field of another type", lambda w: w.change("completed", revision="3"), "unreadable"),
    ("a specification lost", lambda w: w.db.run_specs.delete_one({"_id": w.runs["held"]}), "spec-missing"),
    ("a run lost", lambda w: w.db.runs.delete_one({"_id": w.runs["completed"]}), "orphan-document"),
]  # fmt: skip

# These are seen between runs, by an audit of all.
SPANNING: Final = {"duplicate-token", "two-runs-one-pod", "spec-missing", "orphan-document"}

# What only the replay tells.
REBUILT: Final[list[tuple[str, Mutation]]] = [
    ("a cursor lowered", lambda w: w.change("completed", lastEventSeq=2)),
    ("the end moved", lambda w: w.change("completed", finishedAt=w.run("completed")["createdAt"])),
    ("an error edited", lambda w: w.change("failed", error=None)),
    ("an end planted", lambda w: w.change("held", finishedAt=w.run("held")["createdAt"])),
    ("a priority edited", lambda w: w.change("completed", priority=50)),
    ("a class edited", lambda w: w.change("completed", classKey="probe/80/any")),
    ("a deadline edited", lambda w: w.change("completed", queueDeadline=None)),
    ("a pod edited", lambda w: w.change("completed", claimedBy="somebody/else")),
    ("a settle edited", lambda w: w.change("completed", settled=None)),
    ("a stage edited", lambda w: w.change("completed", currentStage=None)),
    ("a start edited", lambda w: w.change("completed", startedAt=None)),
    ("a verdict of a person edited", lambda w: w.change("reviewed", humanVerdict=None)),
    ("a cancel forgotten", lambda w: w.change("canceled", cancelRequested=None)),
    ("a log opened", lambda w: w.change("completed", logOpen=True)),
    ("a log marked", lambda w: w.change("completed", logIncomplete={"from": 1, "to": 2})),
    ("a log closed", lambda w: w.change("held", logOpen=False)),
    ("an attempt's outcome edited", edit_beside("attempts", "completed", outcome="failed")),
    ("an attempt's pod edited", edit_beside("attempts", "completed", pod="somebody/else")),
    ("an attempt's error edited", edit_beside("attempts", "failed", error=None)),
    ("an attempt's end edited", edit_beside("attempts", "completed", endedAt=None)),
    ("a stage's progress edited", edit_beside("stages", "completed", progress=0.5)),
    ("a stage's position edited", edit_beside("stages", "completed", seq=1)),
    ("a stage deleted", lambda w: w.db.stages.delete_one({"runId": w.runs["completed"]})),
    ("an artifact's size edited", edit_beside("artifacts", "completed", size=1)),
    ("an artifact deleted", lambda w: w.db.artifacts.delete_one({"runId": w.runs["completed"]})),
    ("a verdict edited", edit_beside("validations", "reviewed", verdict="fail")),
    ("a verdict planted", lambda w: w.db.validations.insert_one(
        {"_id": f"{w.runs['completed']}/a1/auto", "runId": w.runs["completed"], "attempt": 1, "by": "auto",
         "verdict": "pass", "summary": "", "scores": {}, "at": None, "seq": 1})),
    ("an attempt planted", lambda w: w.db.attempts.insert_one(
        {"_id": f"{w.runs['completed']}/a2", "runId": w.runs["completed"], "attempt": 2})),
]  # fmt: skip


@pytest.mark.slow("whoever is first fills a fleet for all")
def test_a_healthy_fleet_at_work_has_no_finding_and_is_not_touched(ward: Ward) -> None:
    before = snapshot(ward.db)
    for options in ((), ("--rebuild",), ("--rebuild", "--run", ward.runs["completed"])):
        done = ward.verify(*options)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
        assert re.search(r"0 findings in [1-9]\d* runs", done.stderr), done.stderr
    told = ward.verify("--rebuild", storage=False)
    assert (told.returncode, "MINIO_ENDPOINT" in told.stderr) == (0, True), told.stderr
    assert snapshot(ward.db) == before


@pytest.fixture(scope="module")
def frozen(ward: Ward, mongod: Mongod) -> Iterator[Ward]:
    """A copy of the ward that no program touches, an hour old."""
    name = f"{ward.db.name}_frozen"
    copy = ward.db.client[name]
    for collection in (*CHANGED, "ideation_requests", "hypotheses", "pods"):
        documents = list(ward.db[collection].find())
        if documents:
            copy[collection].insert_many(documents)
    copy.events.update_many({}, [{"$set": {"receivedAt": {"$subtract": ["$receivedAt", 3_600_000]}}}])
    yield replace(ward, db=copy, url=mongod.url(name))
    ward.db.client.drop_database(name)


Look = Callable[..., list[Finding]]


@pytest.fixture(scope="module")
def look(frozen: Ward) -> Iterator[Look]:
    """Audits of the copy, with the bytes of every artifact: of all, or `only` of one run."""
    with asyncio.Runner() as runner:

        async def opened() -> Any:
            return store.connect(frozen.url)

        client = runner.run(opened())
        reads = VerifyReads(store.database(client, frozen.url))
        auditor = Verifier(reads, open_blobs(read_storage(frozen.storage.environment)))

        async def found(*, rebuilds: bool, only: str | None = None) -> list[Finding]:
            return [finding async for finding in auditor.audit(rebuilds=rebuilds, only=only)]

        yield lambda **how: runner.run(found(**how))
        runner.run(client.close())


def named(look: Look, kept: Kept, ward: Ward, mutate: Mutation, invariant: str) -> list[Finding]:
    """Return what an audit of the one run finds that is changed, or of all where several must be seen."""
    mutate(ward)
    touched = kept.touched(ward)
    runs = {each.run_id for each in touched}
    assert len(runs) == bool(touched), "a change is of one run, or of the object of one"
    only = None if invariant in SPANNING or not runs else runs.pop()
    found = look(rebuilds=invariant == REBUILD, only=only)
    kept.put_back(ward, touched)
    return found


@pytest.mark.slow("whoever is first fills a fleet for all")
def test_whatever_a_hand_breaks_has_a_name(frozen: Ward, look: Look) -> None:
    kept = Kept.of(frozen)
    assert look(rebuilds=True) == []
    unnamed: list[str] = []
    for what, mutate, invariant in BROKEN:
        found = named(look, kept, frozen, mutate, invariant)
        if invariant not in {each.invariant for each in found}:
            unnamed.append(f"{what}: {invariant} is not among {found}")
    assert unnamed == []
    assert look(rebuilds=True) == [], "everything was put back"


@pytest.mark.slow("whoever is first fills a fleet for all")
def test_a_replay_misses_no_field(frozen: Ward, look: Look) -> None:
    kept = Kept.of(frozen)
    missed: list[str] = []
    for what, mutate in REBUILT:
        found = named(look, kept, frozen, mutate, REBUILD)
        if REBUILD not in {each.invariant for each in found}:
            missed.append(f"{what}: {found}")
    assert missed == []


def nested(depth: int) -> Json:
    document: Json = {}
    for _ in range(depth):
        document = {"in": document}
    return document


REMOVED: Final = object()
POISONS: Final[list[Any]] = [
    None, -1, 2**63 - 1, math.nan, "../" * 50_000, nested(95), Binary(b"\xff"), ObjectId(), Code("x"),
    [1, "x"], {"set": 1}, DatetimeMS(2**62), REMOVED,
]  # fmt: skip
BESIDE_RUN: Final = ("attempts", "stages", "artifacts", "validations", "events", "dead_letters")


def breakages(ward: Ward) -> list[tuple[str, Json, str]]:
    """Return each field of a document of each kind that belongs to a run, decisions inside too."""
    run = ward.run("reviewed")
    of_run = {"runId": run["_id"]}
    kinds: list[tuple[str, Json]] = [(name, of_run) for name in BESIDE_RUN if name != "events"]
    kinds += [("events", {**of_run, "data.cause": cause}) for cause in ("submit", "claim", "review")]
    kinds += [("events", {**of_run, "type": type_}) for type_ in ("ai.run.started", "ai.run.log")]
    found = [("runs", run, field) for field in run if field != "_id"]
    for collection, query in kinds:
        document = ward.db[collection].find_one(query)
        assert document is not None, (collection, query)
        fields = [field for field in document if field not in ("_id", "runId")]
        if collection == "events" and "revision" in document:
            fields += [f"data.{field}" for field in document["data"] if field != "set"]
            fields += [f"data.set.{field}" for field in document["data"]["set"]]
        found += [(collection, document, field) for field in fields]
    return found


@pytest.mark.slow("whoever is first fills a fleet for all")
def test_no_document_ends_an_audit(frozen: Ward, look: Look) -> None:
    """Each field once, by the poisons in turn: the audit names the documents that it cannot read."""
    plant_letter("conflict")(frozen)
    letter = frozen.db.dead_letters.find_one()
    assert letter is not None
    frozen.db.dead_letters.update_one({"_id": letter["_id"]}, {"$set": {"runId": frozen.runs["reviewed"]}})
    nameless: list[str] = []
    for number, (collection, document, field) in enumerate(breakages(frozen)):
        poison = POISONS[number % len(POISONS)]
        change = {"$unset": {field: ""}} if poison is REMOVED else {"$set": {field: poison}}
        frozen.db[collection].update_one({"_id": document["_id"]}, change)
        found = look(rebuilds=True, only=frozen.runs["reviewed"])
        for each in found:
            is_named = collection in each.message and str(document["_id"]) in each.message
            if each.invariant == UNREADABLE and not is_named:
                nameless.append(f"{collection} {field} {poison!r:.50}: {each.message}")
        frozen.db[collection].replace_one({"_id": document["_id"]}, document)
    frozen.db.dead_letters.delete_many({})
    assert nameless == []
    assert look(rebuilds=True) == [], "everything was put back"


@pytest.mark.slow("whoever is first fills a fleet for all")
def test_what_cannot_be_read_hides_nothing_else(frozen: Ward, look: Look) -> None:
    kept = Kept.of(frozen)
    db, run_id = frozen.db, frozen.runs["completed"]
    own = {"runId": run_id}
    artifact = db.artifacts.find_one(own)
    assert artifact is not None
    strange: dict[str, Any] = {"_id": ObjectId(), "runId": run_id, "attempt": 1}
    db.artifacts.update_one({"_id": artifact["_id"]}, {"$set": {"key": f"runs/{run_id}/a1/../../x/a1/y"}})
    db.stages.update_one(own, {"$set": {"_id_": math.nan, "attempt": "1"}})
    db.events.update_one({**own, "sequence": 2}, {"$set": {"receivedAt": "soon"}})
    db.runs.update_one({"_id": frozen.runs["retried"]}, {"$set": {"journal": nested(90)}})
    db.attempts.insert_one(strange)
    db.stages.insert_one({"_id": "of-no-text", "runId": 7, "attempt": 1})
    db.runs.insert_one({"_id": 5})
    line = db.events.find_one({**own, "sequence": {"$gt": 2}}, sort=[("sequence", -1)])
    assert line is not None
    ahead = {"_id": "no-json", "sequence": line["sequence"] + 9, "data": {"each": [math.inf]}}
    db.events.insert_one({**line, **ahead})
    db.events.insert_one({**line, "_id": Code("js"), "sequence": line["sequence"] + 10})
    frozen.change("failed", status="COMPLETED")
    found = look(rebuilds=True)
    db.events.delete_one({"_id": Code("js")})
    touched = kept.touched(frozen)
    kept.put_back(frozen, touched)
    unreadable = [f"{each.run_id}: {each.message}" for each in found if each.invariant == UNREADABLE]
    for words in (
        f"artifacts {artifact['_id']}: no object can have its key",
        "stages ", "events ", f"runs {frozen.runs['retried']}: ", f"attempts {strange['_id']!r}: ",
        "stages of-no-text: runId is 7", "runs 5: _id is 5", "no-json: data hold inf",
        "events b'js': ",
    ):  # fmt: skip
        assert any(words in each for each in unreadable), (words, unreadable)
    assert ("final-status-changed", frozen.runs["failed"]) in {
        (each.invariant, each.run_id) for each in found
    }
    assert look(rebuilds=True) == [], "everything was put back"


@pytest.mark.slow("whoever is first fills a fleet for all")
def test_an_id_that_is_no_text_is_named_and_ends_no_walk(
    frozen: Ward, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control_plane.store.verify.queries.PAGE", 1)
    monkeypatch.setattr("control_plane.store.verify.queries.SCANNED_MAX", 1)
    planted = [
        (name, RawBSONDocument(encode({"_id": f"{end}ZZZ", **more}).replace(b"ZZZ", b"\xff\xfe\xfd")))
        for name, more in (("runs", {}), ("stages", {"runId": "ZZZ", "attempt": 1, "name": "s"}))
        for end in "ab"
    ]
    for name, document in planted:
        frozen.db[name].insert_one(document)
    found = look(rebuilds=True)
    for name, document in planted:
        only_id: Any = RawBSONDocument(encode({"_id": "xZZZ"}).replace(b"xZZZ", document.raw[13:17]))
        assert frozen.db[name].delete_one(only_id).deleted_count == 1
    messages = [each.message for each in found]
    assert messages.count("runs: its id is no text") == 2
    assert messages.count("stages tell of a run that does not exist") == 1
    assert look(rebuilds=True) == [], "everything was put back"


@pytest.mark.parametrize(
    ("environment", "status", "word"),
    [
        ({}, 2, "MONGODB_URL"),
        ({"MONGODB_URL": "nonsense"}, 2, "MONGODB_URL"),
        (
            {"MONGODB_URL": "mongodb://127.0.0.1:1/x?replicaSet=rs0"},
            3,
            "MongoDB",
        ),
    ],
)
def test_a_database_that_cannot_be_read_is_told(
    tmp_path: Any, environment: dict[str, str], status: int, word: str
) -> None:
    environment = {"PATH": os.defpath, **environment}
    done = run_program([*IMPATIENT, "verify"], env=environment, cwd=tmp_path)
    assert (done.returncode, word in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr
