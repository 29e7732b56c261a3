"""Replicas of the control plane: the real parts, on the double, in a process that can die anywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final, TypeVar, cast

from control_plane.access.key_ring import Unauthorized
from control_plane.access.run_tokens import RunTokens
from control_plane.log.byte_budgets import Budgets
from control_plane.log.catch_up import CatchUp
from control_plane.log.ingest import Answer, Ingestor
from control_plane.log.ingest import Sender as Principal
from control_plane.log.ingest_store import alone
from control_plane.log.journal_flush import JournalFlush
from control_plane.log.projector import Projector
from control_plane.log.unclaimed_lines import UnclaimedLines
from control_plane.log.unnumbered_events import UnnumberedEvents
from control_plane.reads.pod_rules import PodRules
from control_plane.reads.reading import Reading
from control_plane.runs.decisions import Decider
from control_plane.runs.groups.advancer import Advancer
from control_plane.runs.groups.service import GroupService
from control_plane.runs.pods.steering import PodSteering
from control_plane.runs.submission import Submitter
from control_plane.store.log.byte_counts import ByteCounts
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.queue.attempt_ends import AttemptEnds
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.pod_rules import RuleStore
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.reads import RunReads
from control_plane.upkeep.quarantiner import Quarantiner
from control_plane.upkeep.rescuer import Rescuer
from control_plane.upkeep.sweeper import Sweeper
from events.codec import Decoded, decode_ndjson
from events.delivery.sender import Declined, Rejection, Taken
from events.queue.rules import Rules
from events.runtime.clock import Ids
from events.runtime.errors import Barred, PodfleetError, Transient
from events.text.attempt_id import AttemptId
from testing.simulation.event_loop import driven
from testing.simulation.kernel import Kernel, Node, NodeClock
from testing.simulation.ledger import Ledger
from testing.simulation.product import Product
from testing.simulation.store.driver import async_database
from testing.simulation.store.replica_set import ReplicaSet

T = TypeVar("T")

TTL_S: Final = 12.0  # of a lease, in simulated histories: short, so that much happens in little time
RENEW_EVERY_S: Final = 2.0
SWEEP_EVERY_S: Final = 3.0
RESCUE_EVERY_S: Final = 2.0
CATCH_UP_EVERY_S: Final = 4.0
ADVANCE_EVERY_S: Final = 3.0
MEASURE_EVERY_S: Final = 5.0
QUARANTINE_EVERY_S: Final = 5.0
TIMED: Final = "clocks"  # the store's time is read with a watch; this one watches no queue
LOG_GRACE_S: Final = 20.0
REQUEST_S: Final = 30.0
EVENT_BYTES_MAX: Final = 200_000  # of an attempt: several times what a simulated child says


@dataclass(slots=True)
class Reply:
    """The answer to one request, when it comes."""

    arrived: Event = field(default_factory=Event)
    value: Any = None
    error: PodfleetError | None = None


@dataclass(slots=True)
class Parts:
    """One wired control plane."""

    ingestor: Ingestor
    run_tokens: RunTokens
    submitter: Submitter
    decider: Decider
    sweeper: Sweeper
    catch_up: CatchUp
    rescuer: Rescuer
    rules: RuleStore
    steering: PodSteering
    quarantiner: Quarantiner
    groups: GroupService
    advancer: Advancer
    measure: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Replica:
    """One process of the control plane."""

    kernel: Kernel
    node: Node
    servers: ReplicaSet
    ids: Ids
    ledger: Ledger
    product: Product
    watches_pods: bool = False  # a loop more, in histories that are about it
    parts: Parts | None = None
    pending: list[Reply] = field(default_factory=list)

    def boot(self) -> None:
        """Start the process."""
        self.node.is_up = True
        self.parts = parts = self._wire()
        for name, every_s, step in (
            ("sweeper", SWEEP_EVERY_S, parts.sweeper.run_once),
            ("catch-up", CATCH_UP_EVERY_S, parts.catch_up.run_once),
            ("rescuer", RESCUE_EVERY_S, parts.rescuer.run_once),
            ("advancer", ADVANCE_EVERY_S, parts.advancer.run_once),
            ("clock", MEASURE_EVERY_S, parts.measure),
            *([("quarantiner", QUARANTINE_EVERY_S, parts.quarantiner.run_once)] if self.watches_pods else ()),
        ):
            self.kernel.spawn(name, self.node, self._loop(every_s, step))

    def kill(self) -> None:
        """End the process at once; whoever waits for an answer sees the connection break."""
        self.kernel.kill(self.node)
        self.parts = None
        for reply in self.pending:
            reply.error = Transient("control_plane_unreachable", "the connection broke")
            reply.arrived.set()
        self.pending.clear()

    def ask(self, step: Callable[[Parts], Awaitable[T]]) -> Reply:
        """Hand a request over; it is worked on in a line of its own."""
        reply = Reply()
        self.pending.append(reply)

        def work() -> None:
            assert self.parts is not None
            try:
                reply.value = driven(step(self.parts))
            except PodfleetError as error:
                reply.error = error
            self.pending.remove(reply)
            reply.arrived.set()

        self.kernel.spawn("request", self.node, work)
        return reply

    def _loop(self, every_s: float, step: Callable[[], Awaitable[object]]) -> Callable[[], None]:
        def loop() -> None:
            self.kernel.wait(None, every_s * self.kernel.chance.random())
            while True:
                try:
                    driven(step())
                except Transient:
                    self.ledger.counts["steps put off"] += 1
                self.kernel.wait(None, every_s)

        return loop

    def _wire(self) -> Parts:
        db = async_database(self.servers, self.node.name)
        clock = self.product.clock(NodeClock(self.kernel, self.node))
        watches = LeaseWatches(db)

        async def measure() -> None:
            asked_s = clock.monotonic_s()
            _, now = await watches.read(TIMED)
            clock.note(now, asked_s=asked_s)

        runs: Runs = self.product.runs(db)
        events: Events = self.product.events(db)
        documents: Documents = self.product.documents(db)
        rules, roster = RuleStore(db), self.product.roster(db)
        journal_flush = JournalFlush(events, documents, clock, self.ids)
        projector: Projector = self.product.projector(runs, events, documents, journal_flush, clock, self.ids)
        unnumbered = UnnumberedEvents(runs, events, clock, self.ids)
        unclaimed = UnclaimedStore(db)
        budgets = Budgets(ByteCounts(db), clock, EVENT_BYTES_MAX)
        unclaimed_lines = UnclaimedLines(unclaimed, runs, events, documents, clock, self.ids)
        ingest_store = alone(runs, events, projector)
        groups: Groups = self.product.groups(db)
        submitter = Submitter(runs, Submissions(db), self.ids, RunReads(db), groups)
        decider = Decider(runs, documents, events, NoFiles(), self.ids, clock)
        return Parts(
            ingestor=self.product.ingestor(
                events, documents, unclaimed, unnumbered, ingest_store, budgets, clock, self.ids
            ),
            run_tokens=RunTokens(runs, clock),
            submitter=submitter,
            decider=decider,
            groups=GroupService(groups, submitter, clock, beside=at_once),
            advancer=self.product.advancer(groups, submitter, decider),
            sweeper=Sweeper(runs, journal_flush),
            catch_up=CatchUp(runs, events, unclaimed_lines, projector, log_grace_s=LOG_GRACE_S),
            measure=measure,
            rescuer=Rescuer(runs, watches, self.ids, TTL_S, gap_max_s=2 * RESCUE_EVERY_S),
            rules=rules,
            steering=PodSteering(
                roster,
                cast(PodRules, UncachedRules(rules)),
                cast(Reading, None),  # read for drains alone
            ),
            quarantiner=Quarantiner(rules, roster, AttemptEnds(db)),
        )


@dataclass(frozen=True, slots=True)
class UncachedRules:
    """The rules in force, read for each request: a history has few."""

    store: RuleStore

    async def in_force(self) -> Rules:
        """Return the rules in force."""
        return await self.store.in_force()

    def changed(self) -> None:
        """Forget what is kept: nothing is."""


async def at_once(step: Callable[[], None]) -> None:
    """Do on the spot what a server does beside its event loop: here nothing waits for it."""
    step()


class NoFiles:
    """What is wrong with the files of runs that keep none: here is no object storage."""

    async def unfit(self, run_id: str) -> list[str]:
        """Return nothing."""
        return []


@dataclass(frozen=True, slots=True)
class HttpOdds:
    """How probable each mishap of one request is."""

    lost: float = 0.0
    eaten: float = 0.0
    twice: float = 0.0
    ahead: float = 0.0
    busy: float = 0.0


@dataclass(slots=True)
class Balancer:
    """The way over HTTP to some replica that is up."""

    kernel: Kernel
    replicas: Sequence[Replica]
    ledger: Ledger
    odds: HttpOdds = field(default_factory=HttpOdds)
    is_away: bool = False

    def ask(self, step: Callable[[Parts], Awaitable[T]], *, timeout_s: float = REQUEST_S) -> T:
        """Return the answer. Raises `Transient` when none came, and what the control plane refuses."""
        self.kernel.note("request")
        self.kernel.wait(None, 0.02 * self.kernel.chance.random())
        up = [each for each in self.replicas if each.node.is_up]
        if self.is_away or not up:
            raise Transient("control_plane_unreachable", "nobody answers")
        if self._strikes(self.odds.lost, "http: request lost"):
            raise Transient("control_plane_unreachable", "the request was lost")
        if self._strikes(self.odds.busy, "http: 503"):
            raise Transient("control_plane_refuses", "busy", retry_after_s=1.0)
        reply = self.kernel.chance.choice(up).ask(step)
        if self._strikes(self.odds.twice, "http: delivered twice"):
            self.kernel.chance.choice(up).ask(step)
        if not self.kernel.wait(reply.arrived, timeout_s):
            raise Transient("control_plane_unreachable", "no answer in time")
        if self._strikes(self.odds.eaten, "http: answer lost"):
            raise Transient("control_plane_unreachable", "the answer was lost")
        if reply.error is not None:
            raise reply.error
        value: T = reply.value
        return value

    def run_ahead(self, step: Callable[[Parts], Awaitable[object]]) -> None:
        """Deliver something before its turn, at times; nobody waits for the answer."""
        up = [each for each in self.replicas if each.node.is_up]
        if up and not self.is_away and self._strikes(self.odds.ahead, "http: later half delivered first"):
            self.kernel.chance.choice(up).ask(step)
            self.kernel.wait(None, 0.05 * self.kernel.chance.random())

    def _strikes(self, odds: float, what: str) -> bool:
        if not odds or self.kernel.chance.random() >= odds:
            return False
        self.ledger.faults[what] += 1
        return True


@dataclass(frozen=True, slots=True)
class SimulatedIngest:
    """The sender's way to the control plane."""

    balancer: Balancer

    def post(self, lines: Sequence[bytes], *, token: str, timeout_s: float) -> Taken | Declined:
        """Hand events over, in order. Raises `Transient` when no verdict came."""
        decoded = decode_ndjson(b"\n".join(lines))
        later_half = decoded[len(decoded) // 2 :]
        self.balancer.run_ahead(lambda parts: self._take(parts, later_half, token))
        try:
            answer = self.balancer.ask(lambda parts: self._take(parts, decoded, token), timeout_s=timeout_s)
        except Unauthorized as error:
            raise Barred(error.code, error.message) from error
        return Taken(
            tuple(Rejection(each.line, each.code, each.message, each.id) for each in answer.rejected),
            _names(answer.fenced),
            _names(answer.canceling),
            _names(answer.steered),
        )

    async def _take(self, parts: Parts, lines: Sequence[Decoded], token: str) -> Answer:
        owner = await parts.run_tokens.read(token)
        name = f"{owner.run_id}/a{owner.attempt}"
        principal = Principal(name, may_decide=False, attempt=AttemptId(owner.run_id, owner.attempt))
        return await parts.ingestor.take(lines, principal)


def _names(texts: Sequence[str]) -> frozenset[AttemptId]:
    return frozenset(name for text in texts if (name := AttemptId.read(text)) is not None)
