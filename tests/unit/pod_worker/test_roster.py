"""What a pod learns from the answers to its reports about the time."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from events.delivery.sender import Telemetry as Spool
from events.queue.claims import Claim
from events.queue.roster import REPORT_EVERY_S
from events.runtime.measured_clock import MeasuredClock
from events.testing import ManualClock, SeededIds
from pod_worker.machine.gauges import Capabilities, Gauges, Telemetry
from pod_worker.queue.roster import PodOrders, PodReport, Roster, report_fields

STORE = datetime(2026, 6, 1, 12, tzinfo=UTC)


@dataclass(slots=True)
class Fleet:
    """Takes reports, and tells the store's time unless it is older than that."""

    machine: ManualClock
    ahead_s: float = 0.0
    tells_time: bool = True
    every_s: float = REPORT_EVERY_S
    reports: list[PodReport] = field(default_factory=list)

    def report(self, report: PodReport) -> PodOrders:
        self.reports.append(report)
        now = self.machine.now() - timedelta(seconds=self.ahead_s)
        return PodOrders(drain=False, now=now if self.tells_time else None, report_every_s=self.every_s)


class NoGauges:
    """A pod without anything to measure."""

    def capabilities(self) -> Capabilities:
        return Capabilities(cpus=1, memory_mib=1.0)

    def sample(self) -> Telemetry:
        return Telemetry(cpu_util=None, memory_mib=1.0)


def roster_of(fleet: Fleet) -> Roster:
    clock = MeasuredClock(fleet.machine)
    identity = {
        "id": "p/1", "pod": "p", "mode": "hybrid", "region": None, "isolation": "strict",
        "pipeline_user": "one of its own", "version": "0", "started_at": STORE,
    }  # fmt: skip
    return Roster(fleet, cast(Gauges, NoGauges()), Spool(clock=clock, ids=SeededIds()), identity, clock)


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_each_answer_measures_and_the_next_report_tells_the_offset(
    ahead_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet(ManualClock(STORE), ahead_s)
    roster = roster_of(fleet)
    for _ in range(3):
        roster.run_once()
    assert [each.clock_offset_s for each in fleet.reports] == [None, *[pytest.approx(ahead_s, abs=0.01)] * 2]
    assert roster.clock_offset_s == pytest.approx(ahead_s, abs=0.01)
    assert report_fields(fleet.reports[-1])["clockOffsetS"] == pytest.approx(ahead_s, abs=0.01)
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.message for record in logged] == ["clock.off"], "once, however long it lasts"


def test_a_control_plane_that_tells_no_time_is_told_no_offset() -> None:
    fleet = Fleet(ManualClock(STORE), 3600.0, tells_time=False)
    roster = roster_of(fleet)
    for _ in range(2):
        roster.run_once()
    assert roster.clock_offset_s is None
    assert report_fields(fleet.reports[-1])["clockOffsetS"] is None
    assert roster.clock.now() == fleet.machine.now()


@pytest.mark.parametrize(
    ("ordered_s", "pause_s"), [(1.0, 1.0), (0.001, 1.0), (-5.0, 1.0), (4.0, 4.0), (1e9, REPORT_EVERY_S)]
)
def test_an_order_makes_it_report_more_often_and_no_more_often_than_every_second(
    ordered_s: float, pause_s: float
) -> None:
    fleet = Fleet(ManualClock(STORE), every_s=ordered_s)
    roster = roster_of(fleet)
    assert roster.pause_s() == REPORT_EVERY_S
    roster.run_once()
    assert roster.pause_s() == pause_s


def test_reports_that_come_every_second_put_no_more_heartbeats_into_the_log_of_a_run() -> None:
    fleet = Fleet(ManualClock(STORE), every_s=1.0)
    roster = roster_of(fleet)
    roster.standing.claim = Claim("hypotheses", "r1", 1, "t", "probe", {}, None)
    for _ in range(25):
        roster.run_once()
        fleet.machine.advance(1.0)
    assert len(fleet.reports) == 25
    assert len(roster.spool.take()) == 3
    roster.standing.claim = Claim("hypotheses", "r2", 1, "t", "probe", {}, None)
    roster.run_once()
    assert len(roster.spool.take()) == 1, "another attempt has its own"
