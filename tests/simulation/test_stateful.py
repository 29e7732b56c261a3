"""A model that walks where it likes: submit, claim, renew, settle, die, cancel, rescue, and clocks that jump.

Whatever the walk, no run has two owners who trust their lease, and none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from control_plane.audit import Auditor
from control_plane.config import read_settings
from control_plane.deps import Deps, wire
from control_plane.rescuer import TICK_S, Rescuer
from control_plane.store.audit import AuditReads
from control_plane.submission import Submission
from events.clock import instant
from events.errors import Conflict, LeaseLost
from events.lifecycle import FINAL, LEASE_TTL_S, Status
from events.settlement import End
from events.testing import ManualClock, SeededIds
from pod_worker.claim import Claim, WaitingClass
from pod_worker.lease import Lease, grant, judge
from pod_worker.queue import MongoQueue
from scripts.simulation.store.driver import async_database, sync_database
from scripts.simulation.store.replica_set import ReplicaSet

STORAGE = dict.fromkeys(("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"), "127.0.0.1:1")
CLASS = WaitingClass("runs", "probe/cpu/any", 0)
AT_REST = FINAL | {Status.QUEUED, Status.DELAYED, Status.AWAITING_HUMAN}
HEALING_TICKS = 60


class Fleet(RuleBasedStateMachine):
    """Two replicas, any number of workers; a worker knows one claim and how long it may trust it."""

    runs = Bundle("runs")
    owners = Bundle("owners")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.skew = timedelta()
        self.ids = SeededIds()
        self.leases: dict[str, tuple[Claim, Lease]] = {}
        self.submitted: list[str] = []

    @initialize()
    def begin(self) -> None:
        servers = ReplicaSet(lambda: self.clock.now() + self.skew)
        self.queue = MongoQueue(sync_database(servers, "worker"))
        settings_ = read_settings({"MONGODB_URL": "mongodb://x/", **STORAGE}, host="127.0.0.1", port=1)
        self.deps: Deps = wire(settings_, async_database(servers, "replica"), self.clock, self.ids)
        self.replicas = [Rescuer(self.deps.runs, self.clock, self.ids) for _ in range(2)]

    @rule(target=runs, review=st.sampled_from(["none", "human"]), attempts=st.integers(1, 3))
    def submit(self, review: str, attempts: int) -> str:
        wanted = Submission(kind="probe", spec={"review": review}, by="user", max_attempts=attempts)
        self.submitted.append(self.do(self.deps.submitter.submit(wanted)).run_id)
        return self.submitted[-1]

    @rule(target=owners)
    def claim(self) -> Any:
        token, asked = self.ids.token(), instant(self.clock)
        claim = self.queue.claim(CLASS, token=token, pod=f"pod/{token[:6]}")
        if claim is None:
            return multiple()
        self.leases[token] = (claim, grant(asked=asked, ttl_s=LEASE_TTL_S))
        return token

    @rule(target=owners)
    def claim_without_an_answer(self) -> Any:
        """The worker finds its claim again by the token, or nobody ever does."""
        token, asked = self.ids.token(), instant(self.clock)
        self.queue.claim(CLASS, token=token, pod=f"pod/{token[:6]}")
        claim = self.queue.recover(["runs"], token)
        if claim is None:
            return multiple()
        self.leases[token] = (claim, grant(asked=asked, ttl_s=LEASE_TTL_S))
        return token

    @rule(owner=owners)
    def renew(self, owner: str) -> None:
        if owner not in self.leases:
            return
        claim, _ = self.leases[owner]
        asked = instant(self.clock)
        try:
            self.queue.renew(claim)
        except LeaseLost:
            del self.leases[owner]
        else:
            self.leases[owner] = (claim, grant(asked=asked, ttl_s=LEASE_TTL_S))

    @rule(
        owner=consumes(owners),
        outcome=st.sampled_from(["completed", "failed", "preempted", "canceled"]),
        retryable=st.booleans(),
        times=st.integers(1, 2),
    )
    def settle(self, owner: str, outcome: Any, retryable: bool, times: int) -> None:
        """Settle once, or again because the answer was lost; a zombie is refused."""
        if owner not in self.leases:
            return
        claim, _ = self.leases.pop(owner)
        before = self.run(claim.run_id)
        try:
            for _ in range(times):
                how = End(outcome, "CODE", "why", None, retryable)
                self.queue.settle(claim, how, 0, jitter=0.5)
        except LeaseLost:
            assert self.run(claim.run_id) == before, "a worker without its lease changed the run"

    @rule(owner=consumes(owners))
    def die(self, owner: str) -> None:
        self.leases.pop(owner, None)

    @rule(run=runs)
    def cancel(self, run: str) -> None:
        status = self.run(run)["status"]
        try:
            self.do(self.deps.decider.cancel(run, by="user"))
        except Conflict:
            assert status in FINAL - {Status.CANCELED}

    @rule(ticks=st.integers(1, 20), both=st.booleans())
    def let_time_pass(self, ticks: int, both: bool) -> None:
        for _ in range(ticks):
            self.clock.advance(TICK_S)
            for replica in self.replicas if both else self.replicas[:1]:
                self.do(replica.run_once())
                self.nobody_shares_a_run()
            self.do(self.deps.sweeper.run_once())

    @rule(seconds=st.floats(0, 200))
    def be_away(self, seconds: float) -> None:
        """Everything stands still but time: an outage, a paused machine."""
        self.clock.advance(seconds)

    @rule(seconds=st.floats(-300, 300))
    def let_the_stores_clock_jump(self, seconds: float) -> None:
        self.skew = timedelta(seconds=seconds)

    @invariant()
    def nobody_shares_a_run(self) -> None:
        owned: list[str] = []
        for claim, lease in self.leases.values():
            if judge(lease, at=instant(self.clock)) == "trusted":
                owned.append(claim.run_id)
        assert len(owned) == len(set(owned)), "two owners trust their lease of one run"

    def teardown(self) -> None:
        """After every fault has gone, no run is held by nobody, and each equals its log."""
        with self.runner:
            if self.submitted:
                self.heal()

    def heal(self) -> None:
        self.leases.clear()
        self.skew = max(self.skew, timedelta())
        self.let_time_pass(HEALING_TICKS, both=True)
        auditor = Auditor(AuditReads(self.deps.db))
        for run_id in self.submitted:
            assert self.run(run_id)["status"] in AT_REST
            found = self.do(auditor.examine("runs", run_id))
            assert [each for each in found if not each.is_note] == []

    def run(self, run_id: str) -> dict[str, Any]:
        document = self.do(self.deps.db.runs.find_one({"_id": run_id}))
        assert document is not None, "a run is lost"
        return document

    def do(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(step)


TestFleet = pytest.mark.timeout(240)(Fleet.TestCase)
TestFleet.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
