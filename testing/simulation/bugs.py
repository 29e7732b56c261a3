"""Known bugs, planted one at a time: a search that does not find them proves nothing.

Each is the product with one part exchanged; nothing in the product can be switched to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from control_plane.log.ingest import Candidate, Capacity, Ingestor, Refused, Request
from control_plane.log.projector import Projector, Stretch, Turn
from control_plane.model.groups.members import Members, counted, newest
from control_plane.model.groups.plan import Group, Submit, next_slots
from control_plane.model.groups.pruning import stop_of
from control_plane.model.groups.status import Action
from control_plane.model.projection import RESULTS, Write, fold
from control_plane.model.run import Run
from control_plane.runs.groups.advancer import Advancer
from control_plane.store.database import Document, answers
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.log.events import decode as decode_event
from control_plane.store.pods import Pods
from control_plane.store.queue.groups import Entry, Groups
from control_plane.store.queue.runs import Advance, Found, Runs
from control_plane.store.queue.runs import decode as decode_run
from events.codec import Decoded
from events.delivery.event_encoder import Row
from events.delivery.outbox import Attempt
from events.envelope import Event
from events.lifecycle import Status
from events.queue import journal
from events.queue.claims import CLAIM_ORDER, Claim, Orders, standing_of, taking
from events.queue.matching import Seeker, WaitingClass
from events.queue.settlement import End, settle_decision
from events.runtime.errors import Transient
from events.runtime.measured_clock import MeasuredClock
from events.testing import DroppingIngest
from events.text.attempt_id import AttemptId
from pod_worker.queue.claim_intent import Intent
from pod_worker.queue.mongo import MongoQueue
from pod_worker.queue.roster import PodOrders, PodReport
from testing.simulation.faults import STRIKES
from testing.simulation.ledger import WitnessedOutbox
from testing.simulation.product import Product
from testing.simulation.store.replica_set import Call, ReplicaSet
from testing.simulation.themes import KILLED, ROWS, SICKNESS


@contextmanager
def _outages() -> Iterator[None]:
    """Translate the driver's errors as the product does."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:  # whatever a store raises is an outage to a worker
        raise Transient("mongodb_unreachable", str(error)) from error


class UnfencedQueue(MongoQueue):
    """Settles whatever the run is by now: neither token nor attempt is asked for."""

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        with _outages():
            self._settle_unfenced(claim, how, last, jitter, root)

    def _settle_unfenced(self, claim: Claim, how: End, last: int, jitter: float, root: str | None) -> None:
        runs = self.db[claim.collection]
        while True:
            run = runs.find_one({"_id": claim.run_id})
            assert run is not None
            if run["settled"] is not None:
                return
            by = f"worker#a{claim.attempt}"
            decision = settle_decision(
                standing_of(run), claim.attempt, how, last, by=by, jitter=jitter, root=root
            )
            query = {"_id": claim.run_id, "revision": run["revision"]}
            if runs.update_one(query, journal.update(decision)).matched_count:
                return


class GreedyQueue(MongoQueue):
    """Takes the head of a class also where this pod has just failed it."""

    def take(self, wanted: WaitingClass, *, token: str, pod: str) -> Claim | None:
        with _outages():
            document = self.db[wanted.collection].find_one_and_update(
                {"status": Status.QUEUED.value, "classKey": wanted.class_key},
                taking(token, pod, self.ttl_s),
                sort=CLAIM_ORDER,
                return_document=True,
            )
        return None if document is None else self._claimed(wanted.collection, document, token)


class PinBlindQueue(MongoQueue):
    """Takes what is pinned to another pod."""

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        as_others = (replace(seeker.abilities, pod=name) for name in ("pod-1", "pod-2"))
        claims = (
            super(PinBlindQueue, self).claim(replace(seeker, abilities=each), token=token)
            for each in as_others
        )
        return next((claim for claim in claims if claim is not None), None)


class LabelBlindQueue(MongoQueue):
    """Believes that its pod stands in every rack."""

    def claim(self, seeker: Seeker, *, token: str, known: Sequence[WaitingClass] = ()) -> Claim | None:
        as_others = (replace(seeker.abilities, labels={"rack": name}) for name in ("r0", "r1"))
        claims = (
            super(LabelBlindQueue, self).claim(replace(seeker, abilities=each), token=token)
            for each in as_others
        )
        return next((claim for claim in claims if claim is not None), None)


class BlamingQueue(MongoQueue):
    """Settles every failure as the run's own."""

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        own = replace(how, code="BROKEN", retryable=True) if how.outcome == "failed" else how
        super().settle(claim, own, last, jitter=jitter, root=root)


class ForgivingBlame(MongoQueue):
    """Takes every program that was killed for one that never started."""

    def settle(self, claim: Claim, how: End, last: int, *, jitter: float, root: str | None = None) -> None:
        forgiven = replace(how, code="START_FAILED") if how.code == "KILLED" else how
        super().settle(claim, forgiven, last, jitter=jitter, root=root)


class RunwideOutbox(WitnessedOutbox):
    """Goes on with the sequence of the run's last attempt on this disk."""

    def open_attempt(self, attempt_id: AttemptId, **held: Any) -> Attempt:
        opened = super().open_attempt(attempt_id, **held)
        earlier = [
            max(sent) for name, sent in self.ledger.sent.items() if name.run_id == attempt_id.run_id and sent
        ]
        if opened.last == 0 and earlier:
            self._write(
                lambda db: db.execute(
                    "UPDATE attempts SET last = ? WHERE run_id = ? AND attempt = ?",
                    (max(earlier), *attempt_id),
                )
            )
        return opened


class ForgetfulIntent(Intent):
    """Does not know after an error which token it had claimed with."""

    def token(self) -> str | None:
        return None


class HastyRuns(Runs):
    """Takes a run from its owner because it saw an expired lease once; nothing is compared."""

    @answers()
    async def rescue(self, found: Found, decision: journal.Decision) -> Found | None:
        document = await self.db[found.collection].find_one_and_update(
            {"_id": found.run.id}, journal.update(decision), return_document=True
        )
        return None if document is None else Found(found.collection, decode_run(document))


class HalfwayRuns(Runs):
    """Changes what a run requires, and leaves it in its class."""

    async def decide(self, found: Found, decision: journal.Decision, **guard: Any) -> Found | None:
        sets = {name: value for name, value in decision.sets.items() if name != "classKey"}
        return await super().decide(found, replace(decision, sets=sets), **guard)


class CarelessRuns(Runs):
    """Commits an application without looking whether the run is still the one that was read."""

    @answers()
    async def advance(self, advances: Sequence[Advance]) -> bool:
        newest: list[Advance] = []
        for each in advances:
            document = await self.db[each.found.collection].find_one({"_id": each.found.run.id})
            assert document is not None
            newest.append(replace(each, found=Found(each.found.collection, decode_run(document))))
        return await super().advance(newest)


class UnsweptRuns(Runs):
    """Finds no journal that waits for the sweeper."""

    async def with_journal(self, collection: str) -> Sequence[Run]:
        return []


class HoleyEvents(Events):
    """Takes what follows a gap for what follows the cursor."""

    @answers()
    async def stretch(self, attempt_id: AttemptId, after: int) -> list[Event]:
        query = {"runId": attempt_id.run_id, "attempt": attempt_id.attempt, "sequence": {"$gt": after}}
        found = [decode_event(each) async for each in self.db.events.find(query).sort("sequence")]
        return [each for index, each in enumerate(found) if each.sequence == (found[0].sequence or 0) + index]


class LeapingProjector(Projector):
    """Moves the cursor over a gap."""

    async def follow(self, stretches: Sequence[Stretch]) -> list[int | None]:
        return [None] * len(stretches)

    async def apply(self, attempt_id: AttemptId) -> int:
        attempt = attempt_id.attempt
        found = await self.runs.find(attempt_id.run_id)
        if found is None or attempt != found.run.attempt:
            return await super().apply(attempt_id) if found is not None and attempt < found.run.attempt else 0
        stretch = await self.events.stretch(attempt_id, found.run.last_event_seq)
        if not stretch:
            return found.run.last_event_seq
        record = await self.documents.attempt(attempt_id)
        turn = Turn(found, attempt, record)
        folded = fold(turn.view, stretch, (stretch[0].sequence or 1) - 1)
        await self._write([(turn, folded)])
        return folded.seq


class CarelessGroups(Groups):
    """Decides on further slots without looking whether the group is still the one that was read."""

    @answers()
    async def reserve(
        self, group: Document, count: int, members: Members, pending: Document | None = None
    ) -> Document | None:
        return await self.db.groups.find_one_and_update(
            {"_id": group["_id"]}, {"$inc": {"next": count}}, return_document=True
        )


class DoublyCountingGroups(Groups):
    """Counts a member that was run again, and its retry."""

    @answers()
    async def members(self, group_id: str, first: int) -> Members:
        found = self.db.runs.find({"groupId": group_id, "slot": {"$gte": first}}, {"status": 1})
        return counted(Counter(run["status"] for run in await found.to_list()))


class HastyAdvancer(Advancer):
    """Submits slots before they are decided."""

    async def _decide(self, stored: Document, group: Group) -> Document | None:
        members = await self.groups.members(group.id, group.first)
        match next_slots(group, members):
            case Submit(count):
                ahead = {**stored, "next": stored["next"] + count}
                await self._fill(ahead, replace(group, next=ahead["next"]))
        return await super()._decide(stored, group)


class DoublingDocuments(Documents):
    """Keeps each row that an attempt says, also where it says the row anew."""

    async def write(self, writes: Sequence[Write]) -> None:
        await super().write(
            [
                replace(each, id=f"{each.id}/{each.seq}") if each.collection == RESULTS else each
                for each in writes
            ]
        )


class TwiceCountedPods(Pods):
    """Counts every pod twice where it is asked which there are."""

    async def live(self, since: datetime) -> list[Document]:
        found = await super().live(since)
        return [*found, *({**each, "_id": f"twin-of-{each['_id']}", "telemetry": {}} for each in found)]


class ForgetfulRaces(Groups):
    """Decides on a start without looking whether somebody else did."""

    async def decide(
        self, group: Document, entry: Entry, sets: Mapping[str, Any], guard: Mapping[str, Any] | None = None
    ) -> Document | None:
        if entry.action is Action.START:
            found = await self.find(group["_id"])
            group = group if found is None else {**group, "revision": found["revision"]}
        return await super().decide(group, entry, sets, guard)


class ImpatientQueue(MongoQueue):
    """Takes the moment at which a lane asks for that of its start."""

    def renew(self, claim: Claim) -> Orders:
        orders = super().renew(claim)
        return replace(orders, start_at=orders.start_at or orders.now) if claim.barrier else orders


class HarshGroups(Groups):
    """Counts a pruned member as one that failed."""

    @answers()
    async def members(self, group_id: str, first: int) -> Members:
        found = await super().members(group_id, first)
        runs = await self.db.runs.find({"groupId": group_id, "slot": {"$gte": first}}).to_list()
        slots = newest(runs).values()
        pruned = sum(run["status"] == Status.CANCELED and stop_of(run) is not None for run in slots)
        return replace(found, failed=found.failed + pruned, canceled=found.canceled - pruned)


class RepeatingAdvancer(Advancer):
    """Runs a pruned member again."""

    async def _decide(self, stored: Document, group: Group) -> Document | None:
        async with answers():
            found = self.groups.db.runs.find({"groupId": group.id, "slot": {"$gte": group.first}})
            runs = newest(await found.to_list())
        for run in runs.values():
            if run["status"] == Status.CANCELED and stop_of(run):
                await self.submitter.retry(run["_id"], by="advancer")
        return await super()._decide(stored, group)


class ForgettingOutbox(WitnessedOutbox):
    """Lets go of what it hands to the sender, before there is a verdict."""

    def batch(self, events_max: int, bytes_max: int, without: Collection[AttemptId] = ()) -> list[Row]:
        rows = super().batch(events_max, bytes_max, without)
        self.confirm(rows)
        return rows


class CredulousIngestor(Ingestor):
    """Takes the numbers of an attempt that nobody has claimed from anybody who may write for it."""

    def _unclaimed(
        self, line: Decoded, event: Event, request: Request, capacity: Capacity
    ) -> Candidate | Refused:
        kept = super()._unclaimed(line, event, request, capacity)
        return kept if isinstance(kept, Refused) else kept._replace(is_unclaimed=False)


class ForgivingQueue(MongoQueue):
    """Reads the orders in the line of the worker alone, which a restart makes anew."""

    def report(self, report: PodReport) -> PodOrders:
        return PodOrders(super().report(report).drain)


class OneNodeSet(ReplicaSet):
    """Acknowledges a write before a majority has it."""

    def _wait_for_majority(self, call: Call) -> None:
        if len(self._uncommitted) > UNCOMMITTED_MAX:
            self._replicate(self._committed_count + 1)


class OwnClock(MeasuredClock):
    """Goes by the machine's own clock, whatever is measured."""

    def now(self) -> datetime:
        return self.machine.now()


UNCOMMITTED_MAX: Final = 3  # so many acknowledged writes one step-down may take back


@dataclass(frozen=True, slots=True)
class Bug:
    """A broken product, and the misfortunes in which a search for it looks."""

    product: Product
    strikes: Sequence[str] = tuple(STRIKES)
    themes: Sequence[str] = ()


_ABSENCES: Final = ("pod: struck as it settles", "pod: killed")
_NOTHING: Final = ("pod: clock jumps",)
_GROUPS: Final = ("user: group",)
_RETURNS: Final = ("pod: back as it is rescued", "replica: sluggish")

BUGS: Final[Mapping[str, Bug]] = {
    "no-fence": Bug(Product(queue=UnfencedQueue), _ABSENCES),
    "sequence-per-run": Bug(Product(outbox=RunwideOutbox)),
    "read-then-write-rescue": Bug(Product(runs=HastyRuns), _RETURNS),
    "no-claim-token": Bug(Product(intent=ForgetfulIntent)),
    "class-stays-behind": Bug(Product(runs=HalfwayRuns)),
    "no-compare-on-apply": Bug(Product(runs=CarelessRuns)),
    "apply-over-a-gap": Bug(Product(events=HoleyEvents, projector=LeapingProjector)),
    "journal-never-swept": Bug(Product(runs=UnsweptRuns)),
    "mark-before-apply": Bug(Product(outbox=ForgettingOutbox)),
    "drop-on-error": Bug(Product(ingest=DroppingIngest)),
    "numbers-from-anybody": Bug(Product(ingestor=CredulousIngestor)),
    "claims-what-it-failed": Bug(Product(queue=GreedyQueue)),
    "pins-are-for-all": Bug(Product(queue=PinBlindQueue)),
    "labels-are-for-all": Bug(Product(queue=LabelBlindQueue)),
    "blames-the-run": Bug(Product(queue=BlamingQueue)),
    "forgives-the-killed": Bug(Product(queue=ForgivingBlame), _NOTHING, (KILLED,)),
    "orders-die-with-the-worker": Bug(Product(queue=ForgivingQueue), ("user: cordon",)),
    "slots-without-compare": Bug(Product(groups=CarelessGroups), _GROUPS),
    "retries-count-twice": Bug(Product(groups=DoublyCountingGroups), _GROUPS),
    "pruned-is-failed": Bug(Product(groups=HarshGroups), _GROUPS),
    "pruned-runs-again": Bug(Product(advancer=RepeatingAdvancer), _GROUPS),
    "submits-before-it-decides": Bug(Product(advancer=HastyAdvancer), _GROUPS),
    "start-without-compare": Bug(Product(groups=ForgetfulRaces), (*_GROUPS, "replica: sluggish")),
    "starts-before-the-others": Bug(Product(queue=ImpatientQueue), _GROUPS),
    "own-clock": Bug(Product(clock=OwnClock), ("pod: clock jumps",)),
    "rows-double": Bug(Product(documents=DoublingDocuments), _NOTHING, (ROWS,)),
    "quarantines-everybody": Bug(Product(roster=TwiceCountedPods), _NOTHING, (SICKNESS,)),
    "one-node-is-enough": Bug(Product(servers=OneNodeSet), ("store: step-down",)),
}
