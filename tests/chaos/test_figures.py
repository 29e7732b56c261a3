"""What a campaign measured is counted from the log and the journals, and campaigns add up."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from control_plane.model.run import Entry
from testing.chaos import report
from testing.chaos.campaign import Trouble, short
from testing.chaos.checking.evidence import Evidence, Violation
from testing.chaos.checking.figures import Figures, figures
from testing.chaos.records.journal import Line

RUN = "01K1"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def entry(n: int, cause: str, to: str, after_s: float, term: int, **sets: Any) -> Entry:
    return Entry(n, cause, "somebody", BEGUN + timedelta(seconds=after_s), "X", to, term, 0, sets)


def line(at_s: float, actor: str, what: str, phase: Any = "note", **fields: Any) -> Line:
    return Line(at_s, BEGUN.timestamp() + at_s, actor, what, phase, **fields)


def test_a_kill_is_measured_to_the_rescue_and_to_the_next_claim() -> None:
    evidence = Evidence(
        runs={RUN: {"status": "COMPLETED", "kind": "probe", "attempt": 2}},
        attempts={},
        decisions={
            RUN: [
                entry(1, "claim", "SCHEDULED", 1.0, 0, attempt=1),
                entry(2, "rescue", "DELAYED", 9.0, 1),
                entry(3, "claim", "SCHEDULED", 11.0, 1, attempt=2),
            ]
        },
        events=[],
        lines=[
            line(0.0, "pod-1", "begun", data={"rate": 1.0}),
            line(0.9, "pod-1", "claim", "invoke", call=1, data={"token": "t", "ttl_s": 6.0}),
            line(1.0, "pod-1", "claim", "ok", call=1, run=RUN, attempt=1),
            line(2.9, "pod-1", "beat"),
            line(3.0, "campaign", "fault", data={"kind": "worker killed", "victim": "pod-1"}),
            line(3.0, "campaign", "fault", data={"kind": "primary killed", "victim": "mongod-0"}),
        ],
    )

    measured = figures(evidence)

    assert measured.times["worker killed to its run rescued"] == [6.0]
    assert measured.times["worker killed to its run claimed again"] == [8.0]
    assert measured.times["primary killed to the next claim"] == [8.0]
    assert measured.statuses == {"probe COMPLETED": 1}
    assert measured.attempts == 2


def test_a_cancel_is_measured_from_the_order_to_the_end() -> None:
    evidence = Evidence(
        runs={},
        attempts={},
        decisions={
            RUN: [entry(1, "cancel", "CANCELING", 1.0, 1), entry(2, "end: canceled", "CANCELED", 3.5, 1)]
        },
        events=[],
    )
    assert figures(evidence).times["cancel of a running run to its end"] == [2.5]


def result(*violations: Violation, **changes: Any) -> report.Result:
    settings = short(1, Path())
    kinds = Counter({card.kind: 1 for lane in settings.lanes for card in lane.cards})
    given = {
        "faults": kinds, "mishaps": Counter({"request cut": 2}), "requests": 10, "unplanned": (),
        "impossible": (), "peace_s": 1.0, **changes,
    }  # fmt: skip
    return report.result(settings, Trouble(**given), Figures(runs=3, events=5), violations)


def test_a_campaign_is_red_for_a_violation_and_for_whatever_went_another_way() -> None:
    assert not result().is_red
    assert result(Violation("law", RUN, "broken")).is_red
    assert result(faults=Counter()).is_red, "no fault struck"
    assert result(mishaps=Counter({"request cut": 0})).is_red
    assert result(peace_s=None).is_red
    assert result(unplanned=("pod-1 exited with status 1",)).is_red


def test_a_fault_that_the_machine_does_not_allow_is_not_missed() -> None:
    kinds = result().faults
    without = Counter({kind: count for kind, count in kinds.items() if kind != "disk full"})
    assert result(faults=without).is_red
    assert not result(faults=without, impossible=("disk full",)).is_red


def test_results_are_kept_and_add_up(tmp_path: Path) -> None:
    path = tmp_path / "results"
    report.append(path, result())
    report.append(path, result(Violation("law", RUN, "broken")))

    total = report.summed(report.read(path))

    assert total.campaigns == 2
    assert total.counts["events"] == 10
    assert total.violations == {"law": 1}
    assert any("20.0 % of the requests" in each for each in report.lines(total))
