"""Every status has its reason, the weightiest first, and each reason rests on what was found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_plane.model.explanation import LivePod, QueuePosition, explain, hold_of, why_class_waits
from events.lifecycle import FINAL, Status
from events.queue.abilities import Abilities

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NEXT = QueuePosition(0, 0, 10_000)
KINDS = frozenset({"probe", "experiment"})
ERROR = {"code": "KILLED", "message": "m", "stage": None, "retryable": True, "attempt": 1}


CORDON = hold_of(
    {"cordon": {"reason": "new disk", "by": "ann", "since": NOW, "until": None}, "quarantine": None}
)
QUARANTINE = hold_of(
    {
        "cordon": None,
        "quarantine": {
            "reason": "3 failures of its own (NO_MODEL)",
            "since": NOW,
            "tryAt": NOW,
            "evidence": [],
        },
    }
)


def make_run(status: str, **fields: Any) -> dict[str, Any]:
    return {
        "status": status, "classKey": "experiment/24/eu-de", "priority": 0, "queueLimitS": 60,
        "queueDeadline": NOW + timedelta(days=1), "notBefore": None, "error": None, "maxAttempts": 3,
        "failures": {"app": 0, "infra": 0, "preempted": 0}, "claimedBy": "p/1", "claimedAt": NOW,
        "cancelRequested": {"by": "user:a", "at": NOW}, "finishedAt": NOW, "validation": None,
        "attempt": 1, "paused": False, **fields,
    }  # fmt: skip


def pod(
    name: str = "p/1", state: str = "idle", *, gib: float = 24, region: str | None = "eu-de", **more: Any
) -> LivePod:
    return LivePod(name, state, Abilities(more.pop("kinds", KINDS), gib, region), **more)


def codes(status: str, position: QueuePosition = NEXT, pods: Any = (), **fields: Any) -> list[str]:
    return [reason.code for reason in explain(make_run(status, **fields), position, pods)]


def test_every_status_has_a_reason() -> None:
    for status in Status:
        fields = {"notBefore": NOW} if status == Status.DELAYED else {}
        assert explain(make_run(status, **fields), NEXT, [])[0].message


@pytest.mark.parametrize(
    ("pods", "code", "says"),
    [
        ([], "no_live_pod", "no pod is live"),
        ([pod(gib=0)], "no_pod_serves", "it has none"),
        ([pod(gib=8), pod("q/1", gib=16)], "no_pod_serves", "none of 2 live pods serves experiment/24/eu-de"),
        ([pod(region="us-east")], "no_pod_serves", "region eu-de, and it is in us-east"),
        ([pod(kinds=frozenset({"ideation"}))], "no_pod_serves", "does not run the kind experiment"),
        ([pod(state="busy"), pod("q/1", gib=0)], "pods_busy", "the one pod that serves it is busy"),
        (
            [pod(state="busy"), pod("q/1", "suspended")],
            "pods_busy",
            "all 2 pods that serve it are busy or susp",
        ),
        ([pod(is_draining=True)], "pods_draining", "told to take nothing new"),
        ([pod(hold=CORDON)], "pods_held_back", "p serves it, but it is cordoned: new disk (by ann)"),
        (
            [pod(hold=CORDON), pod("q/1", hold=QUARANTINE)],
            "pods_held_back",
            "; q is in quarantine since 2026-03-01T00:00:00.000Z: 3 failures of its own (NO_MODEL), tri",
        ),
        (
            [pod(hold=CORDON), pod("q/1", "busy")],
            "pods_busy",
            "all 2 pods that serve it are busy or cordoned",
        ),
        ([pod(hold=CORDON), pod("q/1")], "pod_idle", "q/1 serves it and is idle"),
        ([pod(kinds=frozenset())], "no_pod_serves", "it starts, and has not said"),
        ([pod(state="busy"), pod("q/1")], "pod_idle", "q/1 serves it and is idle"),
    ],
)
def test_a_queued_run_tells_of_the_pods(pods: list[LivePod], code: str, says: str) -> None:
    first, *_ = explain(make_run("QUEUED"), NEXT, pods)
    assert first.code == code
    assert says in first.message
    assert first.evidence["livePods"] == len(pods)
    assert why_class_waits("experiment/24/eu-de", pods) == first.message


def test_a_card_that_reports_a_little_less_than_its_name_serves_its_tier() -> None:
    assert codes("QUEUED", pods=[pod(gib=23.5)])[0] == "pod_idle"
    assert codes("QUEUED", pods=[pod(gib=22)])[0] == "no_pod_serves"


def test_the_line_says_how_many_are_ahead_and_why() -> None:
    reasons = explain(make_run("QUEUED"), QueuePosition(12, 5, 10_000), [pod()])
    assert [reason.code for reason in reasons] == [
        "position",
        "queue_limit",
    ]
    assert reasons[0].message == "12 runs of its class are ahead of it, 5 by a higher priority than its 0"
    assert (reasons[0].evidence["position"], reasons[0].evidence["isExact"]) == (13, True)
    bounded = explain(make_run("QUEUED"), QueuePosition(10_000, 0, 10_000), [])[1]
    assert bounded.message.startswith("at least 10,000 runs")
    assert bounded.evidence["isExact"] is False


def test_pauses_delays_and_limits_are_told() -> None:
    assert codes("QUEUED", paused=True)[0] == "paused"
    assert codes("RUNNING", paused=True) == ["paused", "claimed"]
    assert codes("DELAYED", notBefore=NOW) == ["delayed", "no_live_pod", "queue_limit"]
    again, *_ = explain(make_run("DELAYED", notBefore=NOW, error=ERROR), NEXT, [pod()])
    assert "after KILLED" in again.message
    spent = {"app": 3, "infra": 0, "preempted": 0}
    assert codes("FAILED", error=ERROR, failures=spent) == ["limit_reached", "over"]
    assert codes("FAILED", error={**ERROR, "code": "QUEUE_TIMEOUT"}) == ["limit_reached", "over"]
    assert codes("FAILED", error=ERROR) == ["failed", "over"]


@pytest.mark.parametrize("status", sorted(FINAL))
def test_what_is_over_waits_for_nothing(status: str) -> None:
    assert codes(status, QueuePosition(3, 0, 9), [pod()])[-1] == "over"


def test_a_run_that_its_pipeline_gave_back_says_why_and_until_when_its_pod_leaves_it() -> None:
    lost = "this pod lost a program 2 times: out of memory"
    settled = {"outcome": "preempted", "code": None, "message": lost, "at": NOW}
    (given,) = [
        each
        for each in explain(make_run("QUEUED", settled=settled, attempt=2), NEXT, [pod()])
        if each.code == "given_back"
    ]
    assert lost in given.message
    assert given.evidence == {"attempt": 2, "othersUntil": "2026-03-01T00:00:20.000Z"}
    for other in (None, {**settled, "outcome": "completed"}, {**settled, "message": None}):
        assert "given_back" not in codes("QUEUED", settled=other)
    assert "given_back" not in codes("RUNNING", settled=None)
