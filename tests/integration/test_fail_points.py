"""What a driver sees when MongoDB fails in the middle, by the server's own fail points.

Each act of the fleet is tried under each fault, and then again as its caller would: whatever
became of the first try, it takes effect exactly once, and the log tells it exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from pymongo import MongoClient

from control_plane.config import read_settings
from control_plane.log.ingest import Sender
from control_plane.model.lease_watch import Watch
from control_plane.runs.submission import Submission
from control_plane.server.deps import Deps, wire
from control_plane.store import database as store
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep.rescuer import Rescuer
from control_plane.verify.verifier import Verifier
from events import catalog as c
from events.codec import decode_ndjson
from events.envelope import Head
from events.envelope import wire as line_of
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.queue.matching import WaitingClass
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import Transient
from events.text.attempt_id import AttemptId
from pod_worker.queue.mongo import MongoQueue, connect
from podfleet.embedded.mongod import Mongod

CONTROL_PLANE: Final = "podfleet-control-plane"
WORKER: Final = "podfleet-worker"
STORAGE: Final = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
TRIES_MAX: Final = 5
AGE: Final = timedelta(hours=1)
TOKEN: Final = "token-of-the-claim"

Json = dict[str, Any]


@dataclass
class Scene:
    """Both sides of the fleet on one database, and one run."""

    deps: Deps
    queue: MongoQueue
    run_id: str = ""
    claim: Claim | None = None

    async def run(self) -> Json:
        found = await self.deps.db.runs.find_one({"_id": self.run_id})
        assert found is not None
        return found

    async def submit(self, key: str | None = None) -> None:
        wanted = Submission(kind="probe", spec={}, by="test", idempotency_key=key)
        self.run_id = (await self.deps.submitter.submit(wanted)).run_id

    async def submit_for_the_past(self) -> None:
        wanted = Submission(kind="probe", spec={}, by="test", not_before=SystemClock().now() - AGE)
        self.run_id = (await self.deps.submitter.submit(wanted)).run_id

    async def sweep(self) -> None:
        await self.deps.sweeper.run_once()

    async def seize(self) -> None:
        """Claim without a look at what may have been claimed before."""
        wanted = WaitingClass("runs", "probe/cpu/any", 0)
        await asyncio.to_thread(lambda: self.queue.take(wanted, token=TOKEN, pod="p/1"))

    async def take(self) -> None:
        """Claim as a worker does: what may have been claimed before is looked for first."""

        def claim() -> Claim | None:
            known = self.queue.recover(["runs"], TOKEN)
            return known or self.queue.take(WaitingClass("runs", "probe/cpu/any", 0), token=TOKEN, pod="p/1")

        self.claim = await asyncio.to_thread(claim)
        assert self.claim is not None

    async def renew(self) -> None:
        assert self.claim is not None
        await asyncio.to_thread(self.queue.renew, self.claim)

    async def settle(self) -> None:
        assert self.claim is not None
        claim = self.claim
        how = End("failed", "TIMEOUT", "too slow", None, retryable=True)
        await asyncio.to_thread(lambda: self.queue.settle(claim, how, 0, jitter=0.5))

    async def send(self) -> None:
        facts: list[Fact] = [c.RunStarted(), c.StageStarted(stage="s"), c.RunCompleted(summary="done")]
        attempt_id, time = AttemptId(self.run_id, 1), "2026-11-21T10:00:00Z"
        lines = [
            line_of(
                fact,
                Head(id=f"e{number}", source="//pod/1", attempt_id=attempt_id, sequence=number, time=time),
            )
            for number, fact in enumerate(facts, 1)
        ]
        sender = Sender("pod", may_decide=False, attempt=attempt_id)
        answer = await self.deps.ingestor.take(decode_ndjson(b"\n".join(lines)), sender)
        assert (answer.accepted + answer.duplicates, answer.rejected) == (3, [])
        stored = await self.deps.db.events.count_documents({"runId": self.run_id, "sequence": {"$gte": 1}})
        assert stored == 3, "an answer says what is durable"

    async def cancel(self) -> None:
        await self.deps.decider.cancel(self.run_id, by="user:test")

    async def rescue(self) -> None:
        rescuer = Rescuer(self.deps.runs, Unwritten(self.deps.db), SystemIds(), ttl_s=0.0)
        await rescuer.run_once()


class Unwritten(LeaseWatches):
    """A watch that is not kept: the write that a fault strikes is the decision."""

    async def read(self, queue: str) -> tuple[Watch | None, datetime]:
        """Return the first look."""
        return None, SystemClock().now()

    async def keep(self, queue: str, before: Watch | None, watch: Watch) -> bool:
        """Be the only replica."""
        return True


@dataclass(frozen=True)
class Act:
    """Something that a part of the fleet does: what must be before it, and what it leaves in the run.

    Its write to `collection` is the one that is struck; `again` is how its caller does it next time.
    """

    app: str
    does: Callable[[Scene], Awaitable[None]]
    before: tuple[Callable[[Scene], Awaitable[None]], ...]
    leaves: Callable[[Json], object]
    causes: tuple[str, ...]
    again: Callable[[Scene], Awaitable[None]] | None = None
    collection: str = "runs"


async def let_expire(scene: Scene) -> None:
    await scene.deps.db.runs.update_one(
        {"_id": scene.run_id}, [{"$set": {"lease.until": {"$subtract": ["$$NOW", 1000]}}}]
    )


def held_by(*status: object) -> Callable[[Json], bool]:
    """Say that a run ends with this status, attempt, and charged failures (application, infrastructure)."""
    return lambda run: (
        run["status"], run["attempt"], run["failures"]["app"], run["failures"]["infra"],
    ) == status  # fmt: skip


BEGUN: Final = ("submit", "claim")
CLAIMED: Final = (Scene.submit, Scene.take)
ACTS: Final[Mapping[str, Act]] = {
    "put a specification": Act(
        CONTROL_PLANE, lambda scene: scene.submit("key"), (), held_by("QUEUED", 0, 0, 0), ("submit",),
        collection="run_specs",
    ),
    "submit": Act(
        CONTROL_PLANE, lambda scene: scene.submit("key"), (), held_by("QUEUED", 0, 0, 0), ("submit",)
    ),
    "claim": Act(WORKER, Scene.seize, (Scene.submit,), held_by("SCHEDULED", 1, 0, 0), BEGUN, Scene.take),
    "find a claim again": Act(WORKER, Scene.take, CLAIMED, held_by("SCHEDULED", 1, 0, 0), BEGUN),
    "promote": Act(
        CONTROL_PLANE, Scene.sweep, (Scene.submit_for_the_past,), held_by("QUEUED", 0, 0, 0),
        ("submit", "promote"),
    ),
    "renew": Act(WORKER, Scene.renew, CLAIMED, lambda run: run["lease"]["renewals"] >= 1, BEGUN),
    "settle": Act(
        WORKER, Scene.settle, CLAIMED, held_by("DELAYED", 1, 1, 0), (*BEGUN, "end: failed")
    ),
    "store events": Act(
        CONTROL_PLANE, Scene.send, CLAIMED, held_by("COMPLETED", 1, 0, 0), (*BEGUN, "end: completed"),
        collection="events",
    ),
    "ingest": Act(
        CONTROL_PLANE, Scene.send, CLAIMED, held_by("COMPLETED", 1, 0, 0), (*BEGUN, "end: completed")
    ),
    "cancel": Act(
        CONTROL_PLANE, Scene.cancel, CLAIMED, held_by("CANCELING", 1, 0, 0), (*BEGUN, "cancel")
    ),
    "rescue": Act(
        CONTROL_PLANE, Scene.rescue, (*CLAIMED, let_expire), held_by("QUEUED", 1, 0, 1),
        (*BEGUN, "rescue"),
    ),
}  # fmt: skip

COMMANDS: Final = ["findAndModify", "update", "insert"]
FAULTS: Final[Mapping[str, tuple[tuple[str, Any, Json], ...]]] = {
    "the connection is cut twice before the write": (
        ("failCommand", {"times": 2}, {"failCommands": COMMANDS, "closeConnection": True}),
    ),
    "the answer is lost, and so is the answer to the driver's own retry": (
        ("onPrimaryTransactionalWrite", {"times": 1}, {"closeConnection": True}),
        ("failCommand", {"skip": 1}, {"failCommands": COMMANDS, "closeConnection": True}),
    ),
    "the primary says twice that it is none": (
        ("failCommand", {"times": 2}, {"failCommands": COMMANDS, "errorCode": 10107}),
    ),
    "the primary steps down after the write": (
        ("failCommand", {"times": 2}, {
            "failCommands": COMMANDS,
            "writeConcernError": {"code": 91, "errmsg": "shutting down"},
            "errorLabels": ["RetryableWriteError"],
        }),
    ),
    "the majority was not reached in time": (
        ("failCommand", {"times": 1}, {
            "failCommands": COMMANDS, "writeConcernError": {"code": 64, "errmsg": "waiting timed out"},
        }),
    ),
    "the majority cannot be reached": (
        ("failCommand", {"times": 1}, {
            "failCommands": COMMANDS, "writeConcernError": {"code": 100, "errmsg": "not enough members"},
        }),
    ),
}  # fmt: skip


@contextmanager
def fault(
    admin: MongoClient[Json], app: str, namespace: str, points: tuple[tuple[str, Any, Json], ...]
) -> Iterator[None]:
    """Switch fail points on for one program's writes to a collection, and off; each must have struck."""
    before: list[int] = []
    for name, mode, data in points:
        where = {"appName": app, "namespace": namespace} if name == "failCommand" else {}
        answer = admin.admin.command("configureFailPoint", name, mode=mode, data={**data, **where})
        before.append(answer["count"])
    after: list[int] = []
    try:
        yield
    finally:
        after += [admin.admin.command("configureFailPoint", name, mode="off")["count"] for name, *_ in points]
    assert all(now > then for now, then in zip(after, before, strict=True)), "a fault that never struck"


@asynccontextmanager
async def fleet(url: str) -> AsyncIterator[Scene]:
    url += "&heartbeatFrequencyMS=100"  # so soon a driver looks again at a server that said it was going
    client = store.connect(url)
    worker = connect(url)
    db = store.database(client, url)
    values = {"MONGODB_URL": url, **dict.fromkeys(STORAGE, "127.0.0.1:1")}
    settings = read_settings(values, host="127.0.0.1", port=8700)
    try:
        deps = wire(settings, db, SystemClock(), SystemIds())
        yield Scene(deps, MongoQueue(worker))
        await deps.close()
    finally:
        worker.client.close()
        await client.close()


async def insist(act: Callable[[], Awaitable[None]]) -> int:
    """Do it again until it works, as every caller in the fleet does; return how often it failed."""
    for failures in range(TRIES_MAX):
        try:
            await act()
        except Transient:
            continue
        return failures
    raise AssertionError("it never worked")


@pytest.fixture(autouse=True)
def _short_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a driver look at a server as often as `fleet` asks for; its own least is half a second."""
    monkeypatch.setattr("pymongo.common.MIN_HEARTBEAT_INTERVAL", 0.1)


LOST_ANSWER: Final = next(name for name, points in FAULTS.items() if len(points) == 2)
# The product treats what these raise as it does a cut connection, and a majority that was late.
ALIKE: Final = {"the primary says twice that it is none", "the majority cannot be reached"}
FULLY_TRIED: Final = {"submit", "claim", "store events"}
ALIKE_MARK: Final = pytest.mark.long("a cut connection, and a majority that is late, strike the same act")
CASES: Final = [
    pytest.param(act, name, marks=[ALIKE_MARK] if name in ALIKE and act not in FULLY_TRIED else [])
    for act in ACTS
    for name in FAULTS
    # The fail point for a lost answer takes the first write: a submission's is the specification's, and
    # that of events their own.
    if (act, name) not in {("submit", LOST_ANSWER), ("ingest", LOST_ANSWER)}
]


@pytest.mark.parametrize(("act", "name"), CASES)
async def test_what_is_tried_again_takes_effect_once(
    mongod: Mongod, emptied_url: str, monkeypatch: pytest.MonkeyPatch, act: str, name: str
) -> None:
    # Within it the driver tries again by itself; where every answer is lost it does so until the end.
    monkeypatch.setattr("pod_worker.queue.mongo.CALL_S", 2.0 if name == LOST_ANSWER else 60.0)
    wanted = ACTS[act]
    async with fleet(emptied_url) as scene:
        for step in wanted.before:
            await step(scene)
        with MongoClient[Json](mongod.url("admin")) as admin:
            struck = f"{scene.deps.db.name}.{wanted.collection}"
            with fault(admin, wanted.app, struck, FAULTS[name]), suppress(Transient):
                await wanted.does(scene)  # after a failure nobody knows whether it happened
            await insist(lambda: (wanted.again or wanted.does)(scene))
        run = await scene.run()
        assert wanted.leaves(run), run
        assert await scene.deps.db.runs.count_documents({}) == 1
        await scene.deps.sweeper.run_once()
        decisions = scene.deps.db.events.find({"runId": scene.run_id, "revision": {"$gte": 1}}).sort(
            "revision"
        )
        told, known = [each["data"]["cause"] async for each in decisions], len(wanted.causes)
        assert told[:known] == list(wanted.causes)
        assert set(told[known:]) <= {"promote"}, "what waits for its next attempt may be due by now"
        assert await Verifier(VerifyReads(scene.deps.db)).examine("runs", scene.run_id) == []


@pytest.mark.parametrize("code", [64, 91, 100])
async def test_nothing_is_acknowledged_that_no_majority_has(
    mongod: Mongod, emptied_url: str, code: int
) -> None:
    refusal = {"failCommands": ["insert"], "writeConcernError": {"code": code, "errmsg": "no majority"}}
    async with fleet(emptied_url) as scene:
        await scene.submit()
        await scene.take()
        with MongoClient[Json](mongod.url("admin")) as admin:
            events = f"{scene.deps.db.name}.events"
            with fault(admin, CONTROL_PLANE, events, (("failCommand", "alwaysOn", refusal),)):
                with pytest.raises(Transient):
                    await scene.send()
                assert (await scene.run())["lastEventSeq"] == 0, "nothing is applied that may be rolled back"
            await scene.send()
        assert (await scene.run())["lastEventSeq"] == 3
