"""Every status has its reason, the weightiest first, and each reason rests on what was found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from control_plane.model.explanation import QueuePosition, Reason, explain, hold_of, why_class_waits
from control_plane.model.views.live_pods import LivePod
from events.lifecycle import FINAL, Status
from events.queue.abilities import Abilities
from events.queue.pod_checks import Broken

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NEXT = QueuePosition(0, 0, 10_000)
KINDS = frozenset({"probe", "experiment"})
KEY_REFUSED = (Broken("model:api.example.com", "its model key is refused", frozenset({"experiment"})),)
DISK_FULL = (Broken("disk", "the disk has 3 MiB free", None),)
OF_OTHERS = (Broken("model:api.example.com", "its model key is refused", frozenset({"ideation"})),)
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


def told(run: dict[str, Any], position: QueuePosition, pods: Sequence[LivePod]) -> list[Reason]:
    return explain(run, position, pods, now=NOW)


def pod(
    name: str = "p/1", state: str = "idle", *, gib: float = 24, region: str | None = "eu-de", **more: Any
) -> LivePod:
    return LivePod(name, state, Abilities(more.pop("kinds", KINDS), gib, region), **more)


def codes(status: str, position: QueuePosition = NEXT, pods: Any = (), **fields: Any) -> list[str]:
    return [reason.code for reason in told(make_run(status, **fields), position, pods)]


def test_every_status_has_a_reason() -> None:
    for status in Status:
        fields = {"notBefore": NOW} if status == Status.DELAYED else {}
        assert told(make_run(status, **fields), NEXT, [])[0].message


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
        (
            [pod(broken=KEY_REFUSED)],
            "pods_unfit",
            "p/1 serves it, but its model key is refused (its check model:",
        ),
        ([pod(broken=DISK_FULL)], "pods_unfit", "p/1 serves it, but the disk has 3 MiB free"),
        (
            [pod(broken=KEY_REFUSED), pod("q/1", broken=DISK_FULL)],
            "pods_unfit",
            "none of 2 pods that serve it",
        ),
        ([pod(broken=KEY_REFUSED), pod("q/1")], "pod_idle", "q/1 serves it and is idle"),
        ([pod(broken=KEY_REFUSED), pod("q/1", "busy")], "pods_busy", "the one pod that serves it is busy"),
        ([pod(broken=OF_OTHERS)], "pod_idle", "p/1 serves it and is idle"),
    ],
)
def test_a_queued_run_tells_of_the_pods(pods: list[LivePod], code: str, says: str) -> None:
    first, *_ = told(make_run("QUEUED"), NEXT, pods)
    assert first.code == code
    assert says in first.message
    assert first.evidence["livePods"] == len(pods)
    assert why_class_waits("experiment/24/eu-de", pods) == first.message


def labelled(
    name: str, state: str = "idle", *, kinds: Any = KINDS, hold: Any = None, **labels: str
) -> LivePod:
    return LivePod(name, state, Abilities(kinds, 24, "eu-de", labels, name.partition("/")[0]), hold=hold)


A100 = [labelled(f"a{number}/1", gpu="a100", gpus="2") for number in range(3)]


@pytest.mark.parametrize(
    ("labels", "pods", "code", "says"),
    [
        ("gpu=h100", A100, "no_pod_serves", "needs gpu=h100; pods with gpu=a100: 3, none with h100"),
        ("gpu=h100", [*A100, labelled("c/1", gpus="0")], "no_pod_serves", "pods with gpu=a100: 3, none with"),
        ("gpus=>=4", A100, "no_pod_serves", "needs gpus>=4; pods with gpus=2: 3, none with >=4"),
        ("rack=a4", A100, "no_pod_serves", "needs rack=a4; no pod says rack"),
        ("gpu=h100,rack=a4", A100, "no_pod_serves", "none with h100; needs rack=a4; no pod says rack"),
        (
            "gpu=h100,rack=a4",  # each of them is somewhere, and nowhere both
            [labelled("h/1", gpu="h100"), labelled("r/1", rack="a4")],
            "no_pod_serves",
            "none of 2 live pods serves experiment/24/eu-de/gpu=h100,rack=a4",
        ),
        ("gpu=a100", A100, "pod_idle", "a0/1 serves it and is idle"),
        ("gpus=>=2", [labelled("a/1", "busy", gpus="2"), *A100[:0]], "pods_busy", "the one pod that serves"),
    ],
)
def test_a_run_with_labels_tells_which_is_missing_where(
    labels: str, pods: list[LivePod], code: str, says: str
) -> None:
    class_key = f"experiment/24/eu-de/{labels}"
    first, *_ = told(make_run("QUEUED", classKey=class_key), NEXT, pods)
    assert (first.code, says in first.message) == (code, True), first.message
    assert why_class_waits(class_key, pods) == first.message


def test_the_evidence_of_labels_says_what_pods_have_instead() -> None:
    pods = [*A100, labelled("t/1", gpu="t4"), labelled("c/1")]
    first, *_ = told(make_run("QUEUED", classKey="experiment/24/eu-de/gpu=h100"), NEXT, pods)
    says = [{"value": "a100", "pods": 3}, {"value": "t4", "pods": 1}]
    assert first.evidence["labels"] == [{"name": "gpu", "needs": "h100", "says": says, "without": 1}]
    assert first.evidence["pods"][0] == {"id": "a0/1", "lacks": ["gpu=h100 is needed, and it has gpu=a100"]}
    assert first.evidence["pods"][4] == {"id": "c/1", "lacks": ["gpu=h100 is needed, and it says no gpu"]}


@pytest.mark.parametrize(
    ("pods", "last_report", "code", "says"),
    [
        ([], None, "pinned_pod_away", "it is pinned to pod-7, which does not report"),
        (A100, None, "pinned_pod_away", "it is pinned to pod-7, which does not report"),
        (A100, NOW, "pinned_pod_away", "which last reported at 2026-03-01T00:00:00.000Z: it waits for a pod"),
        ([labelled("pod-70/1")], None, "pinned_pod_away", "does not report"),
        ([labelled("pod-7/1")], NOW, "pod_idle", "pod-7/1 serves it and is idle"),
        ([labelled("pod-7/1", "busy"), *A100], NOW, "pods_busy", "pod-7, to which it is pinned, is busy"),
        (
            [labelled("pod-7/1", hold=CORDON)],
            NOW,
            "pods_held_back",
            "it is pinned to pod-7, cordoned: new disk",
        ),
        (
            [labelled("pod-7/1", kinds=frozenset({"ideation"})), *A100],
            NOW,
            "no_pod_serves",
            "it is pinned to pod-7, which does not serve it: it does not run the kind experiment",
        ),
    ],
)
def test_a_pinned_run_tells_of_its_pod_alone(
    pods: list[LivePod], last_report: datetime | None, code: str, says: str
) -> None:
    run = make_run("QUEUED", classKey="~pod-7/experiment/24/eu-de")
    first, *_ = explain(run, NEXT, pods, now=NOW, last_report=last_report)
    assert (first.code, says in first.message) == (code, True), first.message
    assert first.evidence["pod"] == "pod-7"


def test_a_pinned_run_that_its_pod_has_just_failed_tells_of_that_and_of_no_absence() -> None:
    fault = {
        "pod": "pod-7/1", "code": "KILLED", "fault": "pod", "place": None, "until": NOW + timedelta(hours=1),
    }  # fmt: skip
    run = make_run("QUEUED", classKey="~pod-7/experiment/24/eu-de", faults=[fault])
    pods = [labelled("pod-7/1"), *A100]
    assert [each.code for each in told(run, NEXT, pods)] == ["left_to_others", "position", "queue_limit"]


def test_a_card_that_reports_a_little_less_than_its_name_serves_its_tier() -> None:
    assert codes("QUEUED", pods=[pod(gib=23.5)])[0] == "pod_idle"
    assert codes("QUEUED", pods=[pod(gib=22)])[0] == "no_pod_serves"


def test_the_line_says_how_many_are_ahead_and_why() -> None:
    reasons = told(make_run("QUEUED"), QueuePosition(12, 5, 10_000), [pod()])
    assert [reason.code for reason in reasons] == [
        "position",
        "queue_limit",
    ]
    assert reasons[0].message == "12 runs of its class are ahead of it, 5 by a higher priority than its 0"
    assert (reasons[0].evidence["position"], reasons[0].evidence["isExact"]) == (13, True)
    bounded = told(make_run("QUEUED"), QueuePosition(10_000, 0, 10_000), [])[1]
    assert bounded.message.startswith("at least 10,000 runs")
    assert bounded.evidence["isExact"] is False


def test_pauses_delays_and_limits_are_told() -> None:
    assert codes("QUEUED", paused=True)[0] == "paused"
    assert codes("RUNNING", paused=True) == ["paused", "claimed"]
    assert codes("DELAYED", notBefore=NOW) == ["delayed", "no_live_pod", "queue_limit"]
    again, *_ = told(make_run("DELAYED", notBefore=NOW, error=ERROR), NEXT, [pod()])
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
        for each in told(make_run("QUEUED", settled=settled, attempt=2), NEXT, [pod()])
        if each.code == "given_back"
    ]
    assert lost in given.message
    assert given.evidence == {"attempt": 2, "othersUntil": "2026-03-01T00:00:20.000Z"}
    for other in (None, {**settled, "outcome": "completed"}, {**settled, "message": None}):
        assert "given_back" not in codes("QUEUED", settled=other)
    assert "given_back" not in codes("RUNNING", settled=None)


def fault(name: str, seconds: float | None, code: str = "DISK_FULL") -> dict[str, Any]:
    until = None if seconds is None else NOW + timedelta(seconds=seconds)
    return {"pod": name, "code": code, "fault": "pod", "place": None, "until": until}


def test_a_run_that_its_one_pod_failed_is_not_about_to_be_claimed() -> None:
    run = make_run("QUEUED", faults=[fault("p/1", 60), fault("q/1", -60), fault("q/2", None)])
    first, second, *_ = told(run, NEXT, [pod()])
    assert (first.code, second.code) == ("left_to_others", "position")
    assert first.message == (
        "p/1 failed it by DISK_FULL, its own fault, and leaves it to others until 2026-03-01T00:01:00.000Z"
    )
    expected = {"id": "p/1", "code": "DISK_FULL", "until": "2026-03-01T00:01:00.000Z"}
    assert first.evidence == {"pods": [expected], "otherPods": 0}


def test_a_pod_that_a_run_does_not_suit_has_not_failed_it() -> None:
    run = make_run("QUEUED", faults=[fault("p/1", 60, "POD_TOO_DEAR")])
    first, *_ = told(run, NEXT, [pod()])
    assert first.message == (
        "p/1 does not suit it (POD_TOO_DEAR) and leaves it to others until 2026-03-01T00:01:00.000Z"
    )


def test_another_pod_takes_what_one_has_failed() -> None:
    run = make_run("QUEUED", faults=[fault("p/1", 60)])
    assert [each.code for each in told(run, NEXT, [pod(), pod("q/1")])][:2] == ["pod_idle", "left_to_others"]
    assert told(run, NEXT, [pod(), pod("q/1")])[0].message.startswith("q/1 serves it")


def test_one_pod_that_failed_a_run_twice_is_named_once_and_all_are_counted() -> None:
    run = make_run("QUEUED", faults=[fault("p/1", 60), fault("p/1", 120), fault("q/1", 300)])
    reason = next(each for each in told(run, NEXT, []) if each.code == "left_to_others")
    assert "00:02:00.000Z; so does one more pod" in reason.message


@pytest.mark.parametrize(
    ("whose", "says"),
    [("run", "after KILLED; 2"), ("pod", "a fault of its pod, which"), ("outside", "a fault outside, which")],
)
def test_a_delay_says_whose_fault_it_was(whose: str, says: str) -> None:
    run = make_run("DELAYED", notBefore=NOW, error={**ERROR, "fault": whose})
    run["failures"] = {"app": 1, "infra": 1, "preempted": 0}
    assert says in told(run, NEXT, [])[0].message


@pytest.mark.parametrize(("code", "is_said"), [("KILLED", True), ("BROKEN", False)])
def test_a_fault_that_followed_a_run_to_its_limit_is_told_so(code: str, is_said: bool) -> None:
    spent = {"app": 3, "infra": 5, "preempted": 0}
    run = make_run("FAILED", error={**ERROR, "code": code}, failures=spent)
    assert ("followed it wherever it ran" in told(run, NEXT, [])[0].message) is is_said
