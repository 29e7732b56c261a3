"""Where a race is run: a real database, workers led by hand, two replicas that can be held up.

Every actor keeps a journal and every worker an outbox with a ledger, as in a campaign, so that the
same checker reads what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from control_plane.log.ingest import Sender as Principal
from control_plane.runs.groups.service import WantedGroup
from control_plane.runs.submission import Submission
from control_plane.store import database, schema
from control_plane.store.log.documents import Documents
from control_plane.store.queue.runs import Runs
from events.catalog import RunCompleted
from events.codec import decode_ndjson
from events.delivery.event_encoder import Row, end_of
from events.delivery.outbox import Outbox
from events.delivery.sender import Declined, Ingest, Rejection, Sender, Taken, Telemetry
from events.kinds.declaring.fact import Fact
from events.lifecycle import FINAL
from events.queue.abilities import Abilities
from events.queue.claims import Claim
from events.queue.matching import Seeker
from events.runtime.clock import Clock, Ids, SystemClock, SystemIds
from events.runtime.errors import LeaseLost, Transient
from events.text.attempt_id import AttemptId
from events.text.key_text import letters, read_run_token
from pod_worker.queue.mongo import MongoQueue, connect
from pod_worker.queue.roster import source_of
from testing.chaos.bugs import Parts
from testing.chaos.checking.checker import check
from testing.chaos.checking.evidence import Violation
from testing.chaos.checking.gathering import gather
from testing.chaos.records import ledger
from testing.chaos.records.journal import Journal
from testing.chaos.records.recorder import RecordedQueue
from testing.chaos.system.plane import Patience, Plane, build

SHORT_S: Final = 0.4
LONG_S: Final = 60.0
FLUSH_S: Final = 5.0
REST_TURNS_MAX: Final = 25
TURN_S: Final = 0.1
WAIT_S: Final = 40.0
BATCH: Final = 500
BYTES: Final = 1 << 20
CLASSES: Final = ("runs",)
ABLE: Final = Abilities(frozenset({"probe"}), 0.0, None)


class Unhurried(SystemIds):
    """The system's ids, without the jitter that would make a race wait."""

    def fraction(self) -> float:
        return 0.0


@dataclass(slots=True)
class Gate:
    """Holds one actor up at a chosen call, until the race lets it go on."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        self.reached.set()
        await self.opened.wait()


class Crash(Exception):
    """The actor dies at a chosen call."""


@dataclass(slots=True)
class CrashOnce:
    """Ends the first call that comes by."""

    is_over: bool = False

    async def __call__(self) -> None:
        if not self.is_over:
            self.is_over = True
            raise Crash


class Interposed:
    """A part of the product in which something happens before one of its calls."""

    def __init__(self, part: object, call: str, before: Callable[[], Awaitable[None]]) -> None:
        self._part = part
        self._call = call
        self._before = before

    def __getattr__(self, name: str) -> Any:
        usual = getattr(self._part, name)
        if name != self._call:
            return usual

        async def delayed(*arguments: Any, **named: Any) -> Any:
            await self._before()
            return await usual(*arguments, **named)

        return delayed


@dataclass(frozen=True, slots=True)
class LocalIngest:
    """The control plane's ingest, asked by a thread of the worker without a network between them."""

    plane: Plane
    loop: asyncio.AbstractEventLoop

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        taking = hand_over(self.plane, lines, token)
        return asyncio.run_coroutine_threadsafe(taking, self.loop).result(timeout_s)


async def take(plane: Plane, rows: Sequence[Row]) -> Taken:
    """Hand events of one attempt to a replica; return its verdicts as a worker reads them."""
    return await hand_over(plane, [row.line for row in rows], rows[0].run_token)


async def hand_over(plane: Plane, lines: Sequence[bytes], token: str) -> Taken:
    """Hand lines to a replica, which believes the token."""
    owner = read_run_token(token)
    assert owner is not None
    sender = Principal("worker", may_decide=False, attempt=AttemptId(owner.run_id, owner.attempt))
    answer = await plane.ingestor.take(decode_ndjson(b"\n".join(lines)), sender)
    return Taken(tuple(Rejection(each.line, each.code, each.message, each.id) for each in answer.rejected))


@dataclass(slots=True)
class Hand:
    """A worker that does what the race tells it to."""

    name: str
    scene: Scene
    mongo: MongoQueue
    queue: RecordedQueue
    journal: Journal
    outbox: Outbox
    claim: Claim | None = None

    async def look(self) -> None:
        """Look at the queue, and take nothing."""
        await asyncio.to_thread(self.mongo.waiting, CLASSES)

    async def take_run(self) -> bool:
        """Claim the head of the queue, by one token however often it takes; False where nothing waits."""
        token = letters(self.scene.ids.token())

        async def is_answered() -> bool:
            try:
                await asyncio.to_thread(self._take_run, token)
            except Transient:  # as long as nobody leads the set
                return False
            return True

        await self.scene.until(is_answered)
        return self.claim is not None

    def say(self, *facts: Fact) -> None:
        """Take into the outbox what the pipeline says."""
        claim = self._claimed()
        self.outbox.append(claim.attempt_id, list(facts))

    async def renew(self) -> None:
        """Renew the lease. Raises `LeaseLost`."""
        await asyncio.to_thread(self.queue.renew, self._claimed())

    def lengthen(self) -> None:
        """Ask for whole leases from now on."""
        self.mongo = replace(self.mongo, ttl_s=LONG_S)
        self.queue = RecordedQueue(self.mongo, self.journal, LONG_S)

    async def end(self, fact: Fact) -> None:
        """Take the end into the outbox, and settle. Raises `LeaseLost`."""
        self.finish(fact)
        await self.settle(fact)

    def finish(self, fact: Fact) -> None:
        """Take the end into the outbox: the child is gone."""
        claim = self._claimed()
        self.journal.note("child ended", run=claim.run_id, attempt=claim.attempt)
        self.outbox.append_end(claim.attempt_id, fact, end_of(fact))

    async def settle(self, fact: Fact) -> None:
        """Settle what has ended. Raises `LeaseLost`."""
        claim = self._claimed()
        last = next(
            each.attempt.last for each in self.outbox.unsettled() if each.attempt.run_id == claim.run_id
        )
        settling = self.queue.settle
        await asyncio.to_thread(lambda: settling(claim, end_of(fact), last, jitter=0.0))
        self.outbox.mark_settled(claim.attempt_id)

    def rows(self) -> list[Row]:
        """Return what waits to be sent, in order."""
        return self.outbox.batch(BATCH, BYTES)

    async def deliver(self, plane: Plane, ingest: Callable[[Ingest], Ingest] | None = None) -> None:
        """Send everything to a replica, by the product's own sender."""
        local: Ingest = LocalIngest(plane, asyncio.get_running_loop())
        clock, ids = self.scene.clock, self.scene.ids
        port = local if ingest is None else ingest(local)
        sender = Sender(self.outbox, Telemetry(clock=clock, ids=ids), port, clock, ids)
        await asyncio.to_thread(lambda: sender.flush(clock.monotonic_s() + FLUSH_S))

    def _take_run(self, token: str) -> None:
        """Find what the token took already, or take the head of the queue. Raises `Transient`."""
        seeker = Seeker(f"{self.name}/1", "experiment", ABLE)
        self.claim = claim = self.queue.recover(("runs",), token) or self.queue.claim(seeker, token=token)
        if claim is None:
            return
        self.outbox.open_attempt(
            claim.attempt_id,
            token=claim.token,
            source=source_of(seeker.pod, claim),
            collection=claim.collection,
        )
        self.journal.note("child started", run=claim.run_id, attempt=claim.attempt)

    def _claimed(self) -> Claim:
        assert self.claim is not None, "take a run first"
        return self.claim


@dataclass(slots=True)
class Scene:
    """One race's own database and folder; `parts` are the product's, or hold one bug."""

    url: str
    home: Path
    parts: Parts
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=Unhurried)
    # begins now, since MongoDB removes documents that expire at a time long past
    hands: list[Hand] = field(default_factory=list)
    _client: Any = None

    async def __aenter__(self) -> Scene:
        self.home.mkdir(parents=True)
        self._client = database.connect(self.url)
        await schema.migrate(self.db)
        await self.parts.schema(self.db)
        return self

    async def __aexit__(self, *_: object) -> None:
        for hand in self.hands:
            hand.outbox.close()
            hand.mongo.db.client.close()
            hand.journal.close()
        await self._client.close()

    @property
    def db(self) -> database.Database:
        return database.database(self._client, self.url)

    def replica(self, *, before: tuple[str, str, Callable[[], Awaitable[None]]] | None = None) -> Plane:
        """Return a control plane; `before`: of this part (runs, documents), before this call, this."""
        waits = Patience(ttl_s=SHORT_S, gap_max_s=LONG_S, log_grace_s=LONG_S)
        runs: Runs = self.parts.runs(self._shared())
        documents = Documents(self._shared())
        if before is not None and before[0] == "runs":
            runs = cast(Runs, Interposed(runs, *before[1:]))
        elif before is not None:
            documents = cast(Documents, Interposed(documents, *before[1:]))
        return build(self.db, self.parts, waits, self.clock, self.ids, runs=runs, documents=documents)

    def hand(self, name: str, *, ttl_s: float = LONG_S) -> Hand:
        """Return a worker whose leases last `ttl_s`."""
        folder = self.home / name
        journal = Journal.open(folder / "journal", name, self.clock)
        journal.note("begun", rate=1.0)
        ledger.install(folder / "data" / "outbox.db", self.clock, self.ids)
        outbox = Outbox(folder / "data" / "outbox.db", clock=self.clock, ids=self.ids)
        db = connect(self.url)
        if self.parts.write_concern is not None:
            db = db.with_options(write_concern=self.parts.write_concern)
        mongo = self.parts.queue(db, ttl_s)
        hand = Hand(name, self, mongo, RecordedQueue(mongo, journal, ttl_s), journal, outbox)
        self.hands.append(hand)
        return hand

    async def submit(self, plane: Plane) -> str:
        """Queue a run."""
        submitted = await plane.submitter.submit(Submission(kind="probe", spec={}, by="race"))
        return submitted.run_id

    async def make_group(self, plane: Plane) -> None:
        """Make a group of one slot, and submit it."""
        run = {"kind": "probe", "spec": {}}
        plan = {"kind": "matrix", "rows": [{"events": 1}], "parallel": 1}
        await plane.groups.create(WantedGroup(id="sweep", run=run, plan=plan, by="race"))
        await plane.advancer.run_once()

    async def worker_with_run(self, plane: Plane) -> Hand:
        """Return a worker that has claimed a new run."""
        await self.submit(plane)
        worker = self.hand("worker")
        assert await worker.take_run()
        return worker

    async def rescue(self, plane: Plane) -> None:
        """Let a replica find the leases over, wait a whole one, and take back what nobody renews."""
        await self.until(lambda: self._is_expired(plane))
        await plane.rescuer.run_once()
        await asyncio.sleep(SHORT_S)
        await plane.rescuer.run_once()

    async def promote(self, plane: Plane) -> None:
        """Wait until what is delayed is in the queue."""
        await self.until(lambda: self._nothing_delayed(plane))

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition."""
        deadline_s = self.clock.monotonic_s() + WAIT_S
        while not await condition():
            assert self.clock.monotonic_s() < deadline_s, "the race stands still"
            await asyncio.sleep(TURN_S / 2)

    async def rest(self) -> None:
        """Let honest hands finish what is left: deliver, sweep, serve; bounded, for bugs leave much."""
        plane = self.replica()
        closer = self.hand("closer")
        for _ in range(REST_TURNS_MAX):
            for hand in self.hands:
                await hand.deliver(plane)
            await plane.sweeper.run_once()
            await plane.catch_up.run_once()
            if await closer.take_run():
                with suppress(LeaseLost):  # a bug may have taken it away again
                    await closer.end(RunCompleted())
            elif not await self._is_moving(plane):
                return
            await asyncio.sleep(TURN_S)

    async def violations(self) -> list[Violation]:
        """Check what the race left behind."""
        journals = [self.home / hand.name / "journal" for hand in self.hands]
        outboxes = [(self.home / hand.name / "data" / "outbox.db", False) for hand in self.hands]
        return await asyncio.to_thread(lambda: check(gather(self.url, journals, outboxes)))

    def _shared(self) -> database.Database:
        if self.parts.write_concern is None:
            return self.db
        return self.db.client.get_database(self.db.name, write_concern=self.parts.write_concern)

    async def _is_expired(self, plane: Plane) -> bool:
        held = await self.db.runs.count_documents({"lease.until": {"$type": "date"}})
        return held == len(await plane.runs.leases_over("runs"))

    async def _nothing_delayed(self, plane: Plane) -> bool:
        await plane.sweeper.run_once()
        return await self.db.runs.count_documents({"status": "DELAYED"}) == 0

    async def _is_moving(self, plane: Plane) -> bool:
        """Say whether time alone would change anything."""
        waiting = any(hand.rows() for hand in self.hands)
        final = [status.value for status in FINAL]
        restless = {"$or": [{"status": {"$nin": final}}, {"logOpen": True}]}
        return waiting or await self.db.runs.count_documents(restless) > 0
