"""A model of claim, renew, rescue, cancel, release and settle: any order, several workers, clocks that jump.

The same machine runs on the store double, often, and on a real mongod, a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from control_plane.log.journal_flush import JournalFlush
from control_plane.model.lease_watch import Watch
from control_plane.runs.decisions import Decider
from control_plane.runs.submission import Submission, Submitter
from control_plane.store import database as store
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.reads import RunReads
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep.rescuer import Rescuer
from control_plane.upkeep.sweeper import Sweeper
from control_plane.verify.verifier import Verifier
from events.lifecycle import FINAL, TRANSITIONS, Cause, Failures, Status
from events.queue.claims import Claim
from events.queue.settlement import End
from events.runtime.clock import instant
from events.runtime.errors import Conflict, LeaseLost
from events.testing import EPOCH, ManualClock, SeededIds
from events.text.key_text import digest
from pod_worker.attempt.lease import Lease, grant, judge, lose
from pod_worker.queue.mongo import MongoQueue, connect
from testing.simulation.actors.replicas import NoFiles
from testing.simulation.bugs import UnfencedQueue
from testing.simulation.event_loop import driven
from testing.simulation.store.driver import async_database, sync_database
from testing.simulation.store.replica_set import ReplicaSet
from tests.servers import empty

TTL_S: Final = 60.0
TICK_S: Final = 5.0
WORKERS: Final = ("w1", "w2", "w3")
ENDS: Final = {
    "completed": End("completed"),
    "failed": End("failed", "BROKEN", "it broke"),
    "retryable": End("failed", "BROKEN", "it broke", retryable=True),
    "preempted": End("preempted"),
    "canceled": End("canceled", message="told to stop by somebody outside"),
}
AT_REST: Final = FINAL | {Status.AWAITING_HUMAN}


@dataclass
class Backend:
    """Where the fleet's state is; the store's clock moves only where it can be told to."""

    sync_db: Any
    async_db: Any
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    watches: Callable[[ManualClock], LeaseWatches]
    lease_s: float
    pass_time: Callable[[float], None]
    close: Callable[[], None]


def on_the_double() -> Backend:
    """A fresh double, whose clock the machine moves."""
    passed = [0.0]

    def now() -> datetime:
        return EPOCH + timedelta(seconds=passed[0])

    def pass_time(seconds: float) -> None:
        passed[0] += seconds

    servers = ReplicaSet(now)
    db = async_database(servers, "replica")
    return Backend(
        sync_database(servers, "pods"),
        db,
        driven,
        lambda _: LeaseWatches(db),
        TTL_S,
        pass_time,
        lambda: None,
    )


def on_a_server(url: str) -> Backend:
    """An emptied database of a real server. Its clock cannot be moved, so every lease is over at once there.

    What keeps an owner is then the patience of the rescuer alone, whose looks are at moments of the model.
    """
    loop = asyncio.new_event_loop()
    empty(url)
    client = store.connect(url)
    db = store.database(client, url)
    pods = connect(url)

    def close() -> None:
        loop.run_until_complete(client.close())
        loop.close()
        pods.client.close()

    return Backend(
        pods,
        db,
        loop.run_until_complete,
        lambda clock: WatchesByTheModel(db, clock),
        0.0,
        lambda _: None,
        close,
    )


@dataclass(frozen=True, slots=True)
class WatchesByTheModel(LeaseWatches):
    """Watches whose moments are those of the model's clock."""

    clock: ManualClock

    async def read(self, queue: str) -> tuple[Watch | None, datetime]:
        """Return the watch of a queue, and the moment."""
        before, _ = await LeaseWatches.read(self, queue)
        return before, self.clock.now()


@dataclass
class Worker:
    """What one pod believes."""

    name: str
    claim: Claim | None = None
    lease: Lease | None = None
    claims: int = 0

    def trusts(self, clock: ManualClock) -> bool:
        return self.lease is not None and judge(self.lease, at=instant(clock)) == "trusted"


@dataclass
class Charged:
    """How often each budget of a run should have been charged."""

    app: int = 0
    infra: int = 0
    preempted: int = 0


def some_are_busy(fleet: Fleet) -> bool:
    """Say whether a worker believes that it has a run."""
    return any(worker.claim is not None for worker in fleet.workers)


def some_are_free(fleet: Fleet) -> bool:
    """Say whether a worker could claim, if something waits."""
    return bool(fleet.charged) and any(worker.claim is None for worker in fleet.workers)


class Fleet(RuleBasedStateMachine):
    """Several workers and two replicas on one store."""

    backend: ClassVar[Callable[[], Backend]]
    queues: ClassVar[type[MongoQueue]] = MongoQueue
    patience_s: ClassVar[float] = TTL_S

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).backend()
        self.clock = ManualClock()
        ids = SeededIds()
        db = self.store.async_db
        self.runs = Runs(db)
        events, documents = Events(db), Documents(db)
        self.queue = self.queues(self.store.sync_db, ttl_s=self.store.lease_s)
        self.submitter = Submitter(self.runs, Submissions(db), ids, RunReads(db), Groups(db))
        self.decider = Decider(self.runs, documents, events, NoFiles(), ids, self.clock)
        self.sweeper = Sweeper(self.runs, JournalFlush(events, documents, self.clock, ids))
        self.rescuers = [
            Rescuer(self.runs, self.store.watches(self.clock), SeededIds(number), self.patience_s)
            for number in (1, 2)
        ]
        self.workers = [Worker(name) for name in WORKERS]
        self.charged: dict[str, Charged] = {}
        self.seen: dict[str, tuple[int, str]] = {}

    @rule(attempts=st.integers(1, 2), priority=st.integers(-1, 1), review=st.sampled_from(["none", "human"]))
    @precondition(lambda self: len(self.charged) < 4)
    def submit(self, attempts: int, priority: int, review: str) -> None:
        spec = {"review": review}
        wanted = Submission(kind="probe", spec=spec, by="model", max_attempts=attempts, priority=priority)
        self.charged[self.store.run(self.submitter.submit(wanted)).run_id] = Charged()

    @rule(answered=st.booleans())
    @precondition(some_are_free)
    def claim(self, answered: bool) -> None:
        worker = next(each for each in self.workers if each.claim is None)
        waiting = self.queue.waiting(("runs",))
        if not waiting:
            return
        worker.claims += 1
        token, asked = f"{worker.name}-{worker.claims}", instant(self.clock)
        claim = self.queue.take(waiting[0], token=token, pod=worker.name)
        if not answered:  # the answer was lost: found again by its token
            assert claim == self.queue.recover(("runs",), token)
        assert claim is not None
        worker.claim, worker.lease = claim, grant(requested_at=asked, ttl_s=TTL_S)

    @rule(number=st.integers(0, 2))
    @precondition(some_are_busy)
    def renew(self, number: int) -> None:
        worker = self._busy(number)
        assert worker.claim is not None
        assert worker.lease is not None
        asked = instant(self.clock)
        try:
            self.queue.renew(worker.claim)
        except LeaseLost:
            worker.lease = lose(worker.lease)
        else:
            worker.lease = grant(requested_at=asked, ttl_s=TTL_S)

    @rule(number=st.integers(0, 2), end=st.sampled_from(sorted(ENDS)), times=st.integers(1, 2))
    @precondition(some_are_busy)
    def settle(self, number: int, end: str, times: int) -> None:
        """Settle, also long after the lease, and again where the answer was lost; only the store knows."""
        worker = self._busy(number)
        assert worker.claim is not None
        before = self._run(worker.claim.run_id)
        try:
            for _ in range(times):
                self.queue.settle(worker.claim, ENDS[end], 0, jitter=0.0)
        except LeaseLost:
            owner = (before["attempt"], (before["lease"] or {}).get("tokenHash"))
            assert owner != (worker.claim.attempt, digest(worker.claim.token))
            assert self._run(worker.claim.run_id) == before, "a worker without its lease changed the run"
        else:
            assert before["attempt"] == worker.claim.attempt
            if before["status"] != Status.CANCELING:
                charged = self.charged[worker.claim.run_id]
                charged.app += end in ("failed", "retryable")
                charged.preempted += end in ("preempted", "canceled")
        worker.claim = worker.lease = None

    @rule(number=st.integers(0, 2))
    @precondition(some_are_busy)
    def die(self, number: int) -> None:
        """Forget everything, and tell nobody."""
        worker = self._busy(number)
        worker.claim = worker.lease = None

    @rule(seconds=st.sampled_from([1.0, 9.0, 30.0, 61.0]), watched=st.booleans())
    def let_time_pass(self, seconds: float, watched: bool) -> None:
        """Let time pass; without a watch the replicas have a pause of their own."""
        while seconds > 0:
            step_s = min(seconds, TICK_S)
            self.clock.advance(step_s)
            self.store.pass_time(step_s)
            seconds -= step_s
            if watched:
                for number in (0, 1):
                    self.rescue(number)

    @rule()
    @precondition(lambda self: some_are_busy(self) and some_are_free(self))
    def fall_silent_until_another_claims(self) -> None:
        """Let the busy ones sleep until a run of theirs waits again; they do not know it when they wake."""
        self.let_time_pass(2 * TTL_S + 3 * TICK_S, watched=True)
        self.let_time_pass(30.0, watched=True)
        self._bring_forward()
        self.sweep()
        self.claim(answered=True)

    @rule(number=st.integers(0, 1))
    def rescue(self, number: int) -> None:
        trusted = {
            worker.claim.run_id for worker in self.workers if worker.claim and worker.trusts(self.clock)
        }
        before = {run_id: self._run(run_id) for run_id in self.charged}
        self.store.run(self.rescuers[number].run_once())
        for run_id, old in before.items():
            new = self._run(run_id)
            if new["revision"] == old["revision"]:
                continue
            assert run_id not in trusted, "a run was taken from an owner who trusted its lease"
            self.charged[run_id].infra += old["status"] != Status.CANCELING

    @rule(seconds=st.sampled_from([-120.0, -30.0, 30.0, 600.0]))
    def move_the_clock_of_the_store(self, seconds: float) -> None:
        self.store.pass_time(seconds)

    @rule()
    def sweep(self) -> None:
        self.store.run(self.sweeper.run_once())

    @rule(number=st.integers(0, 3))
    def cancel(self, number: int) -> None:
        if number >= len(self.charged):
            return
        run_id = sorted(self.charged)[number]
        was = self._run(run_id)["status"]
        try:
            run = self.store.run(self.decider.cancel(run_id, by="model"))
        except Conflict:
            assert was in FINAL - {Status.CANCELED}
        else:
            assert run.status in (Status.CANCELING, Status.CANCELED)

    @invariant()
    def nobody_shares_a_run(self) -> None:
        owned = [worker.claim.run_id for worker in self.workers if worker.claim and worker.trusts(self.clock)]
        assert len(owned) == len(set(owned))

    @invariant()
    def statuses_follow_the_table_and_budgets_their_causes(self) -> None:
        for run_id, charged in self.charged.items():
            run = self._run(run_id)
            revision, status = self.seen.get(run_id, (0, ""))
            assert revision == 0 or status not in FINAL or run["status"] == status
            for entry in run["journal"]:
                if entry["n"] > max(revision, 1):
                    assert entry["to"] in TRANSITIONS[Cause(entry["cause"])][Status(entry["from"])]
            assert Failures(**run["failures"]) == Failures(charged.app, charged.infra, charged.preempted)
            self.seen[run_id] = (run["revision"], run["status"])

    def teardown(self) -> None:
        """Nothing is lost: whatever became of the workers, fresh ones bring every run to its end."""
        try:
            self._finish()
        finally:
            self.store.close()

    def _finish(self) -> None:
        for worker in self.workers:
            worker.claim = worker.lease = None
        self.store.pass_time(600.0)
        for _ in range(30):
            if all(self._run(run_id)["status"] in AT_REST for run_id in self.charged):
                break
            self.let_time_pass(61.0, watched=True)
            self._bring_forward()
            self.sweep()
            self.claim(answered=True)
            if some_are_busy(self):
                self.settle(0, "completed", times=1)
        self.sweep()
        assert {self._run(run_id)["status"] for run_id in self.charged} <= AT_REST
        auditor = Verifier(VerifyReads(self.store.async_db))
        for run_id in self.charged:
            assert [
                each for each in self.store.run(auditor.examine("runs", run_id)) if not each.is_note
            ] == []

    def _busy(self, number: int) -> Worker:
        busy = [worker for worker in self.workers if worker.claim is not None]
        return busy[number % len(busy)]

    def _bring_forward(self) -> None:
        """Where the store's clock cannot be moved, a delay is over when the model says so."""
        if not self.store.lease_s:
            self.store.sync_db.runs.update_many(
                {"notBefore": {"$type": "date"}}, {"$set": {"notBefore": EPOCH}}
            )

    def _run(self, run_id: str) -> dict[str, Any]:
        document = self.store.sync_db.runs.find_one({"_id": run_id})
        assert document is not None, "a submitted run is gone"
        found: dict[str, Any] = document
        return found


def _play(backend: Callable[[], Backend], **options: Any) -> None:
    _play_machine(type("Sound", (Fleet,), {"backend": staticmethod(backend)}), **options)


def _play_machine(machine: type[Fleet], **options: Any) -> None:
    wanted = settings(
        stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), **options
    )
    run_state_machine_as_test(machine, settings=wanted)


@pytest.mark.parametrize(
    "examples", [50, pytest.param(300, marks=pytest.mark.long("`make test` plays fifty examples"))]
)
@pytest.mark.slow("histories of forty steps")
def test_no_order_of_events_gives_a_run_two_owners_or_loses_it(examples: int) -> None:
    _play(on_the_double, max_examples=examples)


def test_the_same_holds_on_a_real_server(migrated_url: str) -> None:
    _play(lambda: on_a_server(migrated_url), max_examples=8)


class Impatient(Fleet):
    """Its replicas believe the store's clock at once."""

    backend = staticmethod(on_the_double)
    patience_s = 0.0


class Unfenced(Fleet):
    """Its workers settle whatever the run is by now."""

    backend = staticmethod(on_the_double)
    queues = UnfencedQueue


@pytest.mark.parametrize("machine", [Impatient, Unfenced])
def test_the_model_sees_a_fleet_without_patience_or_fence(machine: type[Fleet]) -> None:
    # The first failure is enough: nobody reads it, so nothing makes it small.
    with pytest.raises(AssertionError):
        _play_machine(machine, max_examples=300, phases=[Phase.generate], report_multiple_bugs=False)
