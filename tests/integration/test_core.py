"""The core on a real MongoDB: claim, events, settle, rescue, replay."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import pytest
from bson.datetime_ms import DatetimeMS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_plane.concurrency.cache import Cache
from control_plane.concurrency.rate_limit import RateLimit, RateLimited
from control_plane.live.notifier import Notifier
from control_plane.log.byte_budgets import Budgets
from control_plane.log.catch_up import CatchUp
from control_plane.log.ingest import Answer, Ingestor, Sender
from control_plane.log.ingest_store import together
from control_plane.log.journal_flush import JournalFlush
from control_plane.log.projector import Projector
from control_plane.log.unclaimed_lines import UnclaimedLines
from control_plane.log.unnumbered_events import UnnumberedEvents
from control_plane.model.cancellation import cancel_decision
from control_plane.model.lease_watch import look
from control_plane.model.run import HeldLease
from control_plane.reads.pod_rules import PodRules
from control_plane.runs.claiming import Claimer
from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.log.byte_counts import ByteCounts
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Arrival, Events, storable
from control_plane.store.log.unclaimed_lines import UnclaimedStore
from control_plane.store.queue.claims import Claims
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.pod_rules import RuleStore
from control_plane.store.queue.runs import Runs
from control_plane.store.verify.queries import VerifyReads
from control_plane.upkeep.rescuer import Rescuer
from control_plane.upkeep.sweeper import Sweeper
from control_plane.verify.verifier import Verifier
from events import catalog as c
from events.codec import decode_ndjson
from events.envelope import Head, wire
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.queue.journal import creation
from events.queue.matching import WaitingClass
from events.queue.roster import REPORT_EVERY_S
from events.queue.settlement import End
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import LeaseLost
from events.testing import ManualClock
from events.text.attempt_id import AttemptId
from pod_worker.queue.mongo import MongoQueue, connect
from tests.servers import empty

T = TypeVar("T")


class Trusted(Sender):
    """A pod that holds whatever it speaks for."""

    def holds(self, *_: Any) -> bool:
        return True


ADMIN = Sender("test", may_decide=True)
POD = Trusted("pod", may_decide=False)
CLASS = "probe/cpu/any"


@dataclass
class Core:
    """Both sides of the fleet on one database."""

    url: str
    db: store.Database
    runs: Runs
    events: Events
    projector: Projector
    ingestor: Ingestor
    sweeper: Sweeper
    catch_up: CatchUp
    rescuer: Rescuer
    clock: ManualClock
    queue: MongoQueue

    async def submit(self, **overrides: Any) -> str:
        run_id = SystemIds().ulid()
        await self.db.runs.update_one({"_id": run_id}, creation(new_run(**overrides), by="test"), upsert=True)
        return run_id

    async def claim(self, token: str = "token-1", pod: str = "pod/1") -> Claim:
        wanted = WaitingClass("runs", CLASS, 0)
        claim = await asyncio.to_thread(self.queue.take, wanted, token=token, pod=pod)
        assert claim is not None
        return claim

    async def settle(self, claim: Claim, how: End, last: int) -> None:
        await asyncio.to_thread(lambda: self.queue.settle(claim, how, last, jitter=0.0))

    async def send(self, *lines: bytes, sender: Sender = POD) -> Answer:
        return await self.ingestor.take(decode_ndjson(b"\n".join(lines)), sender)

    async def run(self, run_id: str) -> dict[str, Any]:
        document = await self.db.runs.find_one({"_id": run_id})
        assert document is not None
        return document

    async def must_equal_its_log(self, run_id: str, *, notes: int = 0) -> None:
        await self.sweeper.run_once()
        assert (await self.run(run_id))["journal"] == []
        found = await Verifier(VerifyReads(self.db)).examine("runs", run_id)
        assert [each for each in found if not each.is_note] == []
        assert len(found) == notes


def new_run(**overrides: Any) -> dict[str, Any]:
    now = SystemClock().now()
    return {
        "kind": "probe", "status": "QUEUED", "classKey": CLASS, "priority": 0, "queuedAt": now,
        "notBefore": None,
        "maxAttempts": 3, "review": "none", "labels": {}, "title": "probe", "hypothesisId": None,
        "parentRunId": None, "queueDeadline": now + timedelta(days=7), "queueLimitS": 604_800,
        **overrides,
    }  # fmt: skip


def line(run_id: str, sequence: int | None, fact: Fact, *, attempt: int = 1, name: str = "") -> bytes:
    identity = name or f"{attempt}-{sequence}-{type(fact).__name__}"
    return wire(
        fact,
        Head(
            id=identity,
            source=f"//pod/{run_id}",
            attempt_id=AttemptId(run_id, attempt),
            sequence=sequence,
            time="2026-11-21T10:00:00.000Z",
        ),
    )


def whole_log(run_id: str, attempt: int = 1) -> list[bytes]:
    facts: list[Fact] = [
        c.RunStarted(),
        c.StageStarted(stage="probe", index=1, total=1),
        c.StageProgress(stage="probe", progress=0.5, activity="half way"),
        c.StageMetric(stage="probe", name="loss", value=0.25),
        c.ArtifactRegistered(
            name="probe.bin", key=f"runs/{run_id}/a{attempt}/0123/probe.bin", size=3, sha256="0" * 64
        ),
        c.StageCompleted(stage="probe", duration_s=1.5),
        c.RunCompleted(summary="done"),
    ]
    return [line(run_id, number, fact, attempt=attempt) for number, fact in enumerate(facts, 1)]


def in_core(url: str, scenario: Callable[[Core], Awaitable[T]]) -> T:
    """Run a scenario on a fresh set of connections."""

    async def go() -> T:
        async with _core(url) as core:
            return await scenario(core)

    return asyncio.run(go())


@asynccontextmanager
async def _core(url: str) -> AsyncIterator[Core]:
    client = store.connect(url)
    db = store.database(client, url)
    await schema.migrate(db)
    await schema.verify(db)
    clock, ids = ManualClock(SystemClock().now()), SystemIds()
    runs, events, documents = Runs(db), Events(db), Documents(db)
    journal_flush = JournalFlush(events, documents, clock, ids)
    projector = Projector(runs, events, documents, journal_flush, clock, ids)
    unnumbered = UnnumberedEvents(runs, events, clock, ids)
    unclaimed = UnclaimedStore(db)
    unclaimed_lines = UnclaimedLines(unclaimed, runs, events, documents, clock, ids)
    ingest_store = together(runs, events, projector)
    budgets = Budgets(ByteCounts(db), clock)
    queue_db = connect(url)
    core = Core(
        url=url,
        db=db,
        runs=runs,
        events=events,
        projector=projector,
        ingestor=Ingestor(events, documents, unclaimed, unnumbered, ingest_store, budgets, clock, ids),
        sweeper=Sweeper(runs, journal_flush),
        catch_up=CatchUp(runs, events, unclaimed_lines, projector),
        rescuer=Rescuer(runs, LeaseWatches(db), ids, ttl_s=0.2, gap_max_s=100.0),
        clock=clock,
        queue=MongoQueue(queue_db, ttl_s=0.2),
    )
    try:
        yield core
    finally:
        queue_db.client.close()
        await client.close()


def test_a_run_goes_from_submit_to_completed_and_equals_its_log(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        assert (claim.run_id, claim.attempt) == (run_id, 1)
        log = whole_log(run_id)
        first = await core.send(*log[:3])
        assert (first.accepted, first.acked_through) == (3, {f"{run_id}/1": 3})
        assert (await core.run(run_id))["status"] == "RUNNING"
        assert (await core.run(run_id))["currentStage"]["activity"] == "half way"
        await core.send(*log[3:])
        await core.settle(claim, End("completed"), 7)
        run = await core.run(run_id)
        assert (run["status"], run["logOpen"], run["lastEventSeq"]) == ("COMPLETED", False, 7)
        assert run["settled"]["last"] == 7
        assert run["finishedAt"] is not None
        assert (await core.db.artifacts.find_one({"runId": run_id}))["sha256"] == "0" * 64
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_settle_before_its_log_is_the_end_and_the_log_arrives_later(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        await core.settle(claim, End("completed"), 7)
        await core.settle(claim, End("completed"), 7)
        run = await core.run(run_id)
        assert (run["status"], run["logOpen"], run["revision"]) == ("COMPLETED", True, 3)
        await core.send(*whole_log(run_id))
        run = await core.run(run_id)
        assert (run["status"], run["logOpen"], run["lastEventSeq"]) == ("COMPLETED", False, 7)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_an_attempt_over_its_budget_of_bytes_is_refused_with_words_and_its_log_stays_whole(
    emptied_url: str,
) -> None:
    async def scenario(core: Core) -> None:
        budgets = [Budgets(ByteCounts(core.db), core.clock, 50_000) for _ in range(2)]  # of two replicas
        replicas = [replace(core.ingestor, budgets=each) for each in budgets]
        run_id = await core.submit()
        claim = await core.claim()

        async def send(replica: int, *lines: bytes) -> Answer:
            return await replicas[replica].take(decode_ndjson(b"\n".join(lines)), POD)

        first = [line(run_id, 1, c.RunStarted()), line(run_id, 2, c.RunLog(message="x" * 30_000))]
        for _ in range(3):  # what is repeated is charged once
            assert (await send(0, *first)).rejected == []
        assert await budgets[0].run_once() == 1
        (count,) = await core.db.byte_counts.find({}).to_list()
        assert 30_000 < count["events"] < 32_000
        assert await budgets[0].run_once() == 0
        assert (await send(1, line(run_id, 3, c.RunLog(message="y" * 30_000)))).rejected == []
        answer = await send(1, *first, line(run_id, 4, c.RunLog(message="z")))
        assert (answer.duplicates, [each.code for each in answer.rejected]) == (2, ["over_budget"])
        assert "PODFLEET_EVENT_BYTES_MAX" in answer.rejected[0].message
        await budgets[1].run_once()
        core.clock.advance(10)  # the other replica hears of it
        answer = await send(0, line(run_id, 4, c.RunLog(message="z")))
        assert [each.code for each in answer.rejected] == ["over_budget"]
        notice = c.EventRefused(refused_type="ai.run.log", code="over_budget", message="it is full")
        answer = await send(0, line(run_id, 4, notice), line(run_id, 5, c.RunCompleted()))
        assert (answer.rejected, answer.accepted) == ([], 2)
        await core.settle(claim, End("completed"), 5)
        run = await core.run(run_id)
        assert (run["status"], run["logOpen"], run["lastEventSeq"]) == ("COMPLETED", False, 5)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_letter_about_a_line_that_contradicts_a_heartbeat_goes_with_it(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        beat = line(run_id, None, c.RunHeartbeat(), name="same")
        await core.send(beat)
        core.clock.advance(10 * 86_400)
        answer = await core.send(line(run_id, None, c.RunLog(message="another"), name="same"))
        assert [each.code for each in answer.rejected] == ["conflict"]
        kept = await core.db.events.find_one({"ceId": "same"})
        letter = await core.db.dead_letters.find_one({})
        assert kept is not None
        assert letter is not None
        assert letter["expiresAt"] == kept["expiresAt"]  # else an audit finds that nothing contradicts it
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_key_over_its_budget_of_bytes_loses_nothing_and_waits(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        ingestor = replace(
            core.ingestor, budgets=Budgets(ByteCounts(core.db), core.clock, key_bytes_max=50_000)
        )
        run_id = await core.submit()
        await core.claim()
        # As if it had been claimed with a key over HTTP: its run token stands for that.
        await core.db.runs.update_one({"_id": run_id}, {"$set": {"tokens.0.keyId": "k"}})
        pod = Sender(f"{run_id}/a1", may_decide=False, attempt=AttemptId(run_id, 1))
        lines = [line(run_id, number, c.RunLog(message="x" * 30_000)) for number in (1, 2, 3)]
        for each in lines[:2]:
            assert (await ingestor.take(decode_ndjson(each), pod)).rejected == []
        for sender in (pod, Sender("key", may_decide=True, key_id="k")):
            with pytest.raises(RateLimited):
                await ingestor.take(decode_ndjson(lines[2]), sender)
        assert await core.db.dead_letters.count_documents({}) == 0
        core.clock.advance(3_600)
        assert (await ingestor.take(decode_ndjson(lines[2]), pod)).acked_through == {f"{run_id}/1": 3}

    in_core(emptied_url, scenario)


class GivingUp(Runs):
    """Gives logs up just before it commits an application."""

    async def advance(self, advances: Any) -> bool:
        run_ids = [each.found.run.id for each in advances]
        while not await self.close_stale_logs("runs", run_ids, 0.0):
            await asyncio.sleep(0)  # the store's clock has to move on by a millisecond
        return await super().advance(advances)


def test_a_log_that_is_given_up_while_a_part_of_it_is_applied_is_marked_for_the_rest(
    emptied_url: str,
) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.settle(await core.claim(), End("completed"), 7)
        runs = GivingUp(core.db)
        ingest_store = together(runs, core.events, replace(core.projector, runs=runs))
        late = replace(core.ingestor, store=ingest_store)
        await late.take(decode_ndjson(b"\n".join(whole_log(run_id)[:3])), POD)
        run = await core.run(run_id)
        assert (run["lastEventSeq"], run["logIncomplete"]) == (3, {"from": 4, "to": 7})

    in_core(emptied_url, scenario)


def test_a_retryable_failure_is_charged_once_whoever_tells_it_first(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        failed = c.RunFailed(code="TIMEOUT", message="$too {slow}", retryable=True)
        await core.send(line(run_id, 1, c.RunStarted()), line(run_id, 2, failed))
        run = await core.run(run_id)
        assert (run["status"], run["failures"]["app"]) == ("DELAYED", 1)
        await core.settle(claim, End("failed", "TIMEOUT", "$too {slow}", None, retryable=True), 2)
        run = await core.run(run_id)
        assert (run["status"], run["failures"]["app"], run["logOpen"]) == ("DELAYED", 1, False)
        assert run["error"]["message"] == "$too {slow}"
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_late_events_of_an_older_attempt_complete_their_own_record_only(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        first = await core.claim("one")
        log = whole_log(run_id)
        await core.send(*log[:2])
        await core.settle(first, End("preempted"), 7)
        second = await core.claim("two", "pod/2")
        assert second.attempt == 2
        answer = await core.send(*log[2:])
        assert answer.fenced == [f"{run_id}/1"]
        run = await core.run(run_id)
        assert (run["status"], run["lastEventSeq"], run["attempt"]) == ("SCHEDULED", 0, 2)
        record = await core.db.attempts.find_one({"_id": f"{run_id}/a1"})
        assert (record["lastEventSeq"], record["outcome"], record["pod"]) == (7, "preempted", "pod/1")
        with pytest.raises(LeaseLost):
            await core.settle(first, End("completed"), 7)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_dead_owner_is_rescued_and_a_renewing_one_is_not(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        await asyncio.sleep(0.3)  # the store's own clock has to pass the lease
        assert await core.rescuer.run_once() == 0  # it was found over
        await asyncio.to_thread(core.queue.renew, claim)
        await asyncio.sleep(0.3)
        assert await core.rescuer.run_once() == 0  # a renewal was seen: its end is another one
        await asyncio.sleep(0.3)
        assert await core.rescuer.run_once() == 1
        run = await core.run(run_id)
        assert (run["status"], run["failures"]["infra"], run["lease"]) == ("QUEUED", 1, None)
        with pytest.raises(LeaseLost):
            await asyncio.to_thread(core.queue.renew, claim)
        answer = await core.send(line(run_id, 1, c.RunStarted()))
        assert answer.fenced == [f"{run_id}/1"]
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_of_two_replicas_that_look_at_once_one_keeps_the_watch(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        watches = LeaseWatches(core.db)
        for _ in range(2):  # the first look ever, and the next one
            before, now = await watches.read("runs")
            watch = look(before, [HeldLease("r", 1, 3)], now=now, gap_max_s=100.0)
            assert await watches.keep("runs", before, watch)
            assert not await watches.keep("runs", before, watch)
            assert (await watches.read("runs"))[0] == watch

    in_core(emptied_url, scenario)


def test_a_moment_that_no_calendar_has_holds_up_no_other_run(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        odd, lost = await core.submit(priority=1), await core.submit()
        await core.claim("one")
        await core.db.runs.update_one({"_id": odd}, {"$set": {"createdAt": DatetimeMS(2**62)}})
        await core.claim("two", "pod/2")
        await asyncio.sleep(0.3)  # the store's own clock has to pass the leases
        assert await core.rescuer.run_once() == 0
        await asyncio.sleep(0.3)
        assert await core.rescuer.run_once() == 2
        assert (await core.run(lost))["status"] == "QUEUED"
        await core.catch_up.run_once()
        await core.must_equal_its_log(lost)

    in_core(emptied_url, scenario)


def test_a_cancel_reaches_a_queued_run_at_once_and_a_running_one_by_its_lease(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        queued, held = await core.submit(priority=-1), await core.submit(priority=5)
        claim = await core.claim()
        assert claim.run_id == held  # the higher priority goes first
        for run_id in (queued, held):
            found = await core.runs.find(run_id)
            assert found is not None
            decision = cancel_decision(found.run, by="user")
            assert await core.runs.decide(found, decision) is not None  # type: ignore[arg-type]
        assert (await core.run(queued))["status"] == "CANCELED"
        assert (await core.run(held))["status"] == "CANCELING"
        assert (await asyncio.to_thread(core.queue.renew, claim)).cancel
        await core.settle(claim, End("canceled"), 0)
        assert (await core.run(held))["status"] == "CANCELED"
        for run_id in (queued, held):
            await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_lost_answer_to_a_claim_is_found_by_its_token(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        assert await asyncio.to_thread(core.queue.recover, ("runs",), "token-1") is None
        await core.claim("token-1")
        found = await asyncio.to_thread(core.queue.recover, ("ideation_requests", "runs"), "token-1")
        assert found is not None
        assert (found.run_id, found.attempt) == (run_id, 1)

    in_core(emptied_url, scenario)


@pytest.mark.parametrize(
    ("collection", "change", "named"),
    [
        ("runs", {"status": "RUNNING"}, "status"),
        ("runs", {"failures.app": 2}, "failures"),
        ("runs", {"currentStage.progress": 0.1}, "currentStage"),
        ("stages", {"status": "FAILED"}, "status"),
        ("artifacts", {"sha256": "1" * 64}, "sha256"),
        ("attempts", {"lastEventSeq": 3}, "lastEventSeq"),
        ("events", {"sequence": 99}, "lastEventSeq"),
    ],
)
def test_a_document_that_was_changed_by_hand_is_found(
    emptied_url: str, collection: str, change: dict[str, Any], named: str
) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        await core.send(*whole_log(run_id))
        await core.settle(claim, End("completed"), 7)
        await core.must_equal_its_log(run_id)
        wanted = {"_id": run_id} if collection == "runs" else {"runId": run_id}
        if collection == "events":
            wanted["sequence"] = 4
        await core.db[collection].update_one(wanted, {"$set": change})
        findings = [each.message async for each in Verifier(VerifyReads(core.db)).rebuild()]
        assert any(named in message for message in findings), findings

    in_core(emptied_url, scenario)


def test_what_was_stored_and_not_applied_is_caught_up(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        stored: list[bytes] = whole_log(run_id)

        async def dies(_: object) -> int:
            raise ConnectionError("the process dies here")

        broken = replace(core.ingestor, store=replace(core.ingestor.store, follow=dies))
        with pytest.raises(ConnectionError):
            await broken.take(decode_ndjson(b"\n".join(stored)), POD)
        assert await core.catch_up.run_once() == 0  # it may be about to be applied
        assert (await core.run(run_id))["lastEventSeq"] == 0
        assert await core.catch_up.run_once() == 1
        run = await core.run(run_id)
        assert (run["status"], run["lastEventSeq"]) == ("COMPLETED", 7)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_what_was_stored_of_an_attempt_that_its_run_left_is_caught_up(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim("one")
        await core.settle(claim, End("preempted"), 7)
        second = await core.claim("two", "pod/2")
        documents = decode_ndjson(b"\n".join(whole_log(run_id)))
        arrival = Arrival(SystemIds().ulid(), core.clock.now())
        # The replica dies before it applies, and the pod with the only other copy is gone.
        await core.events.append([storable(each.outcome, arrival) for each in documents])
        await core.sweeper.run_once()
        assert await core.catch_up.run_once() == 1
        record = await core.db.attempts.find_one({"_id": f"{run_id}/a1"})
        assert (record["lastEventSeq"], record["endSeq"]) == (7, 7)
        assert (await core.run(run_id))["lastEventSeq"] == 0
        await core.settle(second, End("completed"), 0)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_a_key_adds_few_pods_to_the_roster_at_once_and_known_ones_go_on(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        claims, new_pods = Claims(core.db), RateLimit(core.clock, burst=1, every_s=10.0)
        claimer = Claimer(
            claims,
            PodRules(RuleStore(claims.db), core.clock),
            Notifier(),
            new_pods,
            core.clock,
            SystemIds(),
            Cache(core.clock),
        )
        free = {"drain": False, "restart": False, "cordon": None, "quarantine": None}
        free |= {"reportEveryS": REPORT_EVERY_S, "resets": []}
        line = {"id": "p/1", "startedAt": core.clock.now(), "telemetry": {"memoryMib": 1.0}}
        first = await claimer.report(line, key_id="stolen")
        assert first.pop("now") == (await core.db.pods.find_one({"_id": "p/1"}))["reportedAt"]
        assert first == free
        with pytest.raises(RateLimited):
            await claimer.report({**line, "id": "p/2"}, key_id="stolen")
        for pod_id, key_id in (("p/1", "stolen"), ("p/3", "honest"), ("p/4", None)):
            assert {**await claimer.report({**line, "id": pod_id}, key_id=key_id)}.items() >= free.items()
        assert await core.db.pods.count_documents({}) == 3

    in_core(emptied_url, scenario)


def test_conflicts_duplicates_and_unknown_runs_are_told_apart(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.claim()
        started = line(run_id, 1, c.RunStarted())
        assert (await core.send(started, started)).duplicates == 1
        other_body = started.replace(b"10:00:00.000Z", b"11:00:00.000Z")
        other_id = line(run_id, 1, c.RunLog(message="me first"), name="other")
        foreign = line("nobody", 1, c.RunStarted())
        answer = await core.send(started, other_body, other_id, foreign)
        assert (answer.accepted, answer.duplicates) == (0, 1)
        assert [(each.line, each.code) for each in answer.rejected] == [
            (2, "conflict"), (3, "conflict"), (4, "unknown_run"),
        ]  # fmt: skip
        assert await core.db.dead_letters.count_documents({}) == 3

    in_core(emptied_url, scenario)


def test_unnumbered_events_before_their_run_wait_for_it(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        early = SystemIds().ulid()
        logs = [line(early, None, c.RunLog(message="hello"), name=f"hello {n}") for n in range(3)]
        assert (await core.send(*logs, sender=ADMIN)).accepted == 3
        assert await core.db.events.count_documents({"orphan": True, "expiresAt": {"$exists": True}}) == 3
        await core.db.runs.update_one({"_id": early}, creation(new_run(), by="test"), upsert=True)
        await core.catch_up.run_once()
        assert await core.db.events.count_documents({"orphan": True}) == 0
        assert (await core.send(*logs, sender=ADMIN)).duplicates == 3
        await core.must_equal_its_log(early)

    in_core(emptied_url, scenario)


def test_an_unnumbered_lifecycle_event_is_a_decision_that_counts_once(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        completed = line(run_id, None, c.RunCompleted())
        refused = await core.send(completed, sender=ADMIN)
        assert [each.code for each in refused.rejected] == ["illegal_transition"]
        await core.claim()
        assert [each.code for each in (await core.send(completed)).rejected] == ["forbidden"]
        for _ in range(2):
            answer = await core.send(completed, sender=ADMIN)
            assert answer.rejected == []
        assert answer.duplicates == 1
        run = await core.run(run_id)
        assert (run["status"], run["revision"]) == ("COMPLETED", 3)
        await core.send(line(run_id, None, c.RunHeartbeat(gpu_util=0.75)))
        assert (await core.run(run_id))["lastHeartbeat"] is not None
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_any_order_batching_and_repetition_ends_in_the_same_documents(migrated_url: str, seed: int) -> None:
    async def scenario(core: Core) -> None:
        chance = random.Random(seed)
        run_id = await core.submit()
        claim = await core.claim(token=SystemIds().token())
        lines = whole_log(run_id) * 2
        chance.shuffle(lines)
        settle_at = chance.randrange(len(lines))
        while lines:
            if len(lines) <= settle_at and claim is not None:
                await core.settle(claim, End("completed"), 7)
                claim = None  # type: ignore[assignment]
            size = chance.randint(1, 5)
            batch, lines = lines[:size], lines[size:]
            await asyncio.gather(*(core.send(*batch) for _ in range(chance.randint(1, 2))))
        run = await core.run(run_id)
        assert (run["status"], run["lastEventSeq"]) == ("COMPLETED", 7)
        await core.must_equal_its_log(run_id)

    empty(migrated_url)
    in_core(migrated_url, scenario)


def test_what_is_stored_of_a_log_is_applied_before_the_log_is_given_up(emptied_url: str) -> None:
    async def dies(*_: Any) -> None:
        raise ConnectionError("the replica dies here")

    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.settle(await core.claim(), End("completed"), 7)
        broken = replace(core.ingestor, store=replace(core.ingestor.store, follow=dies))
        with pytest.raises(ConnectionError):
            await broken.take(decode_ndjson(b"\n".join(whole_log(run_id)[:3])), POD)
        at_once = replace(core.catch_up, log_grace_s=-1.0)  # the grace is over
        await at_once.run_once()
        assert (await core.run(run_id))["logOpen"]
        await at_once.run_once()
        run = await core.run(run_id)
        assert (run["lastEventSeq"], run["logIncomplete"]) == (3, {"from": 4, "to": 7})
        await core.must_equal_its_log(run_id, notes=1)

    in_core(emptied_url, scenario)


class LateEvents(Events):
    """Has an event stored right after it was asked, as by a replica that then dies."""

    late: ClassVar[list[Any]] = []

    async def holds(self, attempt_id: AttemptId, sequence: int) -> bool:
        found = await super().holds(attempt_id, sequence)
        await self.append(self.late)
        return found


def test_what_is_stored_as_a_log_is_given_up_is_applied_all_the_same(emptied_url: str) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        await core.settle(await core.claim(), End("completed"), 7)
        await core.sweeper.run_once()
        arrival = Arrival(SystemIds().ulid(), core.clock.now())
        LateEvents.late = [
            storable(each.outcome, arrival) for each in decode_ndjson(b"\n".join(whole_log(run_id)))
        ]
        giving_up = replace(core.catch_up, log_grace_s=-1.0, events=LateEvents(core.db))
        for _ in range(2):
            await giving_up.run_once()
        await core.catch_up.run_once()
        run = await core.run(run_id)
        assert (run["lastEventSeq"], run["logOpen"], run["logIncomplete"]) == (7, False, None)
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)


def test_the_mark_of_a_short_log_moves_with_what_still_comes_and_goes_with_the_rest(
    emptied_url: str,
) -> None:
    async def scenario(core: Core) -> None:
        run_id = await core.submit()
        claim = await core.claim()
        await core.settle(claim, End("completed"), 7)
        log = whole_log(run_id)
        await core.send(*log[:2])
        at_once = replace(core.catch_up, log_grace_s=-1.0)  # the grace is over
        for _ in range(2):
            await at_once.run_once()
        run = await core.run(run_id)
        assert (run["logOpen"], run["logIncomplete"]) == (False, {"from": 3, "to": 7})
        await core.must_equal_its_log(run_id, notes=1)
        await core.send(*log[2:5])
        assert (await core.run(run_id))["logIncomplete"] == {"from": 6, "to": 7}
        await core.must_equal_its_log(run_id, notes=1)
        await core.send(*log[5:])
        assert (await core.run(run_id))["logIncomplete"] is None
        await core.must_equal_its_log(run_id)

    in_core(emptied_url, scenario)
