"""Pods: the real worker on a disk of its own, that is preempted, stopped, paused and killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final, cast

from events.delivery.sender import Pace, Sender, Telemetry
from events.kinds.declaring.queues import collections
from events.queue.claims import Claim, Orders
from events.queue.matching import Seeker, WaitingClass
from events.queue.roster import REPORT_EVERY_S
from events.queue.rules import pod_name
from events.queue.settlement import End
from events.runtime.clock import Ids, instant
from events.runtime.errors import LeaseLost, Transient
from events.runtime.loops import run_every
from events.runtime.measured_clock import DRIFT
from events.text.attempt_id import AttemptId
from events.text.key_text import digest
from pod_worker.attempt.attempt import Ports
from pod_worker.attempt.lease import judge
from pod_worker.attempt.secret_values import Secrets
from pod_worker.machine.gauges import Capabilities, Gauges
from pod_worker.machine.gauges import Telemetry as Readings
from pod_worker.program import FLUSH_S, LEAVE_S, RETRY_S
from pod_worker.queue.mongo import MongoQueue
from pod_worker.queue.roster import Roster
from pod_worker.queue.wakeups import Polls
from pod_worker.worker import Pod as Identity
from pod_worker.worker import Worker
from testing.simulation.actors.child import SimulatedChild
from testing.simulation.actors.replicas import RENEW_EVERY_S, TTL_S, Balancer, SimulatedIngest
from testing.simulation.actors.uploads import SimulatedCheckpoints, SimulatedUploads
from testing.simulation.invariants import labels_of
from testing.simulation.kernel import Kernel, Node, NodeClock, TurnLock
from testing.simulation.ledger import Ledger, Truth, WitnessedOutbox, undelivered
from testing.simulation.product import Product
from testing.simulation.store.driver import sync_database
from testing.simulation.store.replica_set import ReplicaSet

TICK_S: Final = 0.002  # what whole milliseconds cost
IDENTITY: Final[dict[str, Any]] = {
    "isolation": "strict",
    "pipeline_user": "the worker's user",
    "mode": "experiment",
    "region": None,
    "version": "simulated",
}


@dataclass(frozen=True, slots=True)
class FaultGauges:
    """A pod without anything to measure but the faults of its hardware."""

    faults: Callable[[], tuple[str, ...]]

    def capabilities(self) -> Capabilities:
        return Capabilities(cpus=1, memory_mib=1.0)

    def sample(self) -> Readings:
        return Readings(cpu_util=None, memory_mib=1.0, gpu_faults=self.faults())


@dataclass(frozen=True, slots=True)
class WitnessedQueue:
    """The real queue; the ledger learns which claims are in doubt, and that none is left behind."""

    queue: MongoQueue
    servers: ReplicaSet
    ledger: Ledger
    disk: str
    kernel: Kernel
    ambushes: list[Callable[[], None]]
    cordon: int | None = None  # which was in force when the worker was started
    quarantine: datetime | None = None  # and since when it was in one

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        """Claim; whatever is still in doubt must not be held by now."""
        doubts = self.ledger.doubts.setdefault(self.disk, set())
        for earlier in sorted(doubts):
            if any(self._is_held(name, earlier) for name in collections(seeker.mode)):
                self.ledger.blame(f"{seeker.pod} claims again, and leaves a claim that it never learnt of")
        doubts.clear()
        doubts.add(token)
        claim = self.queue.claim(seeker, token=token, known=known)
        name = pod_name(seeker.pod)
        if claim is not None and self.cordon is not None and self.ledger.cordons.get(name) == self.cordon:
            self.ledger.blame(f"{seeker.pod} claims although it was started while {name} was cordoned")
        held = self.quarantine
        if claim is not None and held is not None and self.ledger.quarantined.get(name) == held:
            self.ledger.blame(f"{seeker.pod} claims although {name} was in quarantine when it was started")
        if claim is None:
            doubts.discard(token)
        return claim

    def recover(self, collections: Sequence[str], token: str) -> Claim | None:
        """Find a claim again."""
        claim = self.queue.recover(collections, token)
        if claim is None:
            self.ledger.doubts.setdefault(self.disk, set()).discard(token)
        return claim

    def renew(self, claim: Claim) -> Orders:
        """Extend the lease."""
        return self.queue.renew(claim)

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        """End the attempt; whatever lay in wait for that moment strikes first."""
        if self.ambushes:
            node = self.kernel.current.node
            node.doom, node.fate = 1, self.ambushes.pop()
            self.kernel.note("settles")
        try:
            self.queue.settle(claim, how, last, jitter=jitter, root=root)
        except LeaseLost:
            self.ledger.doubts.setdefault(self.disk, set()).discard(claim.token)
            raise
        self.ledger.doubts.setdefault(self.disk, set()).discard(claim.token)

    def _is_held(self, collection: str, token: str) -> bool:
        hashed = digest(token)
        return any(
            record.document["lease"] is not None
            and record.document["lease"]["tokenHash"] == hashed
            and record.document["lease"]["until"] is not None
            for record in self.servers.collection(collection).newest({})
        )


@dataclass(slots=True, eq=False)
class Incarnation:
    """One start of a worker's program, with all that dies with it."""

    outbox: WitnessedOutbox
    worker: Worker
    clock: NodeClock
    stop: Event = field(default_factory=Event)
    is_up: bool = True
    asked_s: float = float("-inf")  # when it last asked for the store's time, and had an answer
    trip_s: float = 0.0


@dataclass(slots=True, eq=False)
class Owning:
    """A child at work, as the search for two live owners sees it."""

    pod: str
    child: SimulatedChild
    incarnation: Incarnation

    @property
    def run_id(self) -> str:
        return self.child.run_id

    @property
    def attempt(self) -> int:
        return self.child.attempt

    def is_over(self) -> bool:
        return self.child.is_over() or not self.incarnation.is_up

    def is_live(self) -> bool:
        """Say whether the child runs and its parent trusts the lease."""
        heartbeat = self.incarnation.worker.heard_from.get(AttemptId(self.run_id, self.attempt))
        if heartbeat is None or self.is_over() or not self.child.is_running():
            return False
        return judge(heartbeat.pulse.lease, at=instant(self.incarnation.clock)) == "trusted"


@dataclass(slots=True, eq=False)
class Pod:
    """One rented machine."""

    kernel: Kernel
    node: Node
    child_node: Node
    store_clock: Node
    servers: ReplicaSet
    balancer: Balancer
    ids: Ids
    ledger: Ledger
    product: Product
    home: Path
    themes: Collection[str] = ()
    is_sick: bool = False
    faults: tuple[str, ...] = ()  # of its hardware
    now: Incarnation | None = None
    disks: int = 1
    ambushes: list[Callable[[], None]] = field(default_factory=list)

    @property
    def disk(self) -> str:
        """The name of the disk that the pod has now."""
        return f"{self.node.name}-{self.disks}"

    def boot(self) -> None:
        """Start the worker's program on the disk that is there."""
        folder = self.home / self.disk
        folder.mkdir(exist_ok=True)
        self.node.is_up = self.child_node.is_up = True
        clock = NodeClock(self.kernel, self.node)
        stores = self.product.clock(clock)
        outbox = self.product.outbox(folder / "outbox.db", clock=stores, ids=self.ids)
        outbox.ledger, outbox.disk, outbox.truth = self.ledger, self.disk, self._truth
        mongo = self.product.queue(sync_database(self.servers, self.node.name), ttl_s=TTL_S, clock=clock)
        cordon = self.ledger.cordons.get(self.node.name)
        held = self.ledger.quarantined.get(self.node.name)
        queue = WitnessedQueue(
            mongo, self.servers, self.ledger, self.disk, self.kernel, self.ambushes, cordon, held
        )
        spool = Telemetry(clock=stores, ids=self.ids)
        ingest = self.product.ingest(SimulatedIngest(self.balancer))
        pace = Pace(lock=cast(Lock, TurnLock(self.kernel)))
        sender = Sender(outbox, spool, ingest, clock, self.ids, pace)
        identity = Identity(
            id=f"{self.node.name}/{self.ids.token()[:6]}",
            mode="experiment",
            region=None,
            gpu_gib=0.0,
            labels=labels_of(self.node.name),
            renew_every_s=RENEW_EVERY_S,
        )
        named = {**IDENTITY, "id": identity.id, "pod": self.node.name, "labels": identity.labels}
        named["started_at"] = stores.now()
        roster = Roster(mongo, cast(Gauges, FaultGauges(lambda: self.faults)), spool, named, stores)
        stop = Event()
        uploads = SimulatedUploads(self.kernel, self.node, clock, outbox, self.ledger)
        ports = Ports(
            queue=queue,
            outbox=outbox,
            uploads=uploads,
            checkpoints=SimulatedCheckpoints(self.kernel, self.balancer),
            secrets=cast(Secrets, None),  # no simulated run names one
            clock=clock,
            ids=self.ids,
            threads=self._start,
            work=folder / "work",
            stop=stop,
            stores=stores,
        )
        intent = self.product.intent(folder / "claim.token")
        worker = Worker(identity, queue, ports, intent, roster, self._spawn, Polls(clock))
        self.now = Incarnation(outbox, worker, clock, stop)
        quiet = Event()
        self._start("worker", lambda: self._work(worker, sender, roster, quiet))
        self._start("leave", self._leave_in_time)
        self._start("sender", lambda: sender.run(quiet, worker.heed))
        report = partial(self._report, roster)
        self._start("roster", lambda: run_every(REPORT_EVERY_S, report, stop=quiet, clock=clock))

    def kill(self) -> None:
        """End the program and its child as `kill -9` does."""
        if self.now is None:
            return
        self.kernel.kill(self.node)
        self.kernel.kill(self.child_node)
        self.now.outbox.close()
        self.now.is_up = False  # the next start is no life of this one's child
        self.now = None

    def lose_disk(self) -> None:
        """Give the pod an empty disk; what only the old one held is gone."""
        assert self.now is None
        outbox = WitnessedOutbox(
            self.home / self.disk / "outbox.db", clock=NodeClock(self.kernel, self.node), ids=self.ids
        )
        self.ledger.cut_short |= undelivered(outbox)
        outbox.close()
        shutil.rmtree(self.home / self.disk)
        self.ledger.doubts.pop(self.disk, None)
        self.disks += 1

    def is_busy(self) -> bool:
        """Say whether the pod works for an attempt."""
        return self.now is not None and bool(self.now.worker.heard_from)

    def pending(self) -> int:
        """Return how many events wait to be delivered."""
        return 0 if self.now is None else self.now.outbox.pending()

    def _work(self, worker: Worker, sender: Sender, roster: Roster, quiet: Event) -> None:
        """Do what the program does around its worker."""
        self._measure(roster)
        worker.run()
        quiet.set()
        sender.flush(sender.clock.monotonic_s() + FLUSH_S)
        try:
            roster.run_once()
        except Transient:
            self.ledger.counts["goodbyes unsaid"] += 1
        self.kernel.tell(self.node.name, "leaves")
        self.kill()

    def _report(self, roster: Roster) -> None:
        """Report, which measures the store's clock."""
        assert self.now is not None
        incarnation, asked_s = self.now, self.kernel.now_s
        roster.run_once()
        incarnation.asked_s, incarnation.trip_s = asked_s, self.kernel.now_s - asked_s

    def _measure(self, roster: Roster) -> None:
        """Measure the store's clock before anything else, as the program does when it checks the store."""
        assert self.now is not None
        while not self.now.stop.is_set():
            try:
                return self._report(roster)
            except Transient:
                self.kernel.wait(self.now.stop, RETRY_S)

    def _truth(self) -> Truth:
        """Return the store's moment, and how wrong the pod may be about it: a round trip, if all is calm."""
        assert self.now is not None
        shaken_s = max(self.node.shaken_s, self.store_clock.shaken_s)
        age_s = self.kernel.now_s - self.now.asked_s
        allowed_s = self.now.trip_s + DRIFT * age_s + TICK_S if self.now.asked_s > shaken_s else float("inf")
        return Truth(self.servers.now(), allowed_s)

    def _leave_in_time(self) -> None:
        assert self.now is not None
        self.kernel.wait(self.now.stop, float("inf"))
        self.kernel.wait(None, LEAVE_S)
        self.kernel.tell(self.node.name, "is cut short")
        self.kill()

    def _start(self, name: str, work: Callable[[], object]) -> None:
        self.kernel.spawn(name, self.node, work)

    def _spawn(self) -> SimulatedChild:
        assert self.now is not None
        incarnation = self.now
        child = SimulatedChild(
            self.kernel,
            self.child_node,
            incarnation.clock,
            self.ledger,
            lambda begun: self.ledger.own(Owning(self.node.name, begun, incarnation)),
            lambda begun: self.ledger.start(AttemptId(begun.run_id, begun.attempt), self._truth()),
            lambda: self.is_sick,
            self.themes,
        )
        return child.spawn()
