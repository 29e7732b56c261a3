"""Explains why a run waits: reasons with their evidence, pure.

Law: a reason states only what its evidence shows. The first reason is what most keeps the run from starting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from control_plane.model.cancellation import vain_wait_of
from control_plane.model.groups.pruning import stop_of
from control_plane.model.views.live_pods import IDLE, Hold, LivePod
from events.lifecycle import FINAL, HELD, SUCCEEDED, Fault, Status
from events.queue.abilities import lacks
from events.queue.claims import past_faults
from events.queue.fair.shares import Shares
from events.queue.faults import blame_of, boot_of
from events.queue.labels import meets, words_of
from events.queue.matching import Seeker, WaitingClass, candidates
from events.queue.pod_checks import Broken, obstacle
from events.queue.requirements import read_class
from events.queue.rules import pod_name
from events.queue.settlement import LEFT_TO_OTHERS_S
from events.runtime.clock import timestamp
from events.text.predecessors import shown

PODS_SHOWN: Final = 20
VALUES_SHOWN: Final = 5  # of a label
HOUR_S: Final = 3600.0
WHOSE: Final[Mapping[str | None, str]] = {
    "pod": ", a fault of its pod, which is charged to nothing",
    "outside": ", a fault outside, which is charged to nothing",
}

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The runs ahead of a run in its class; a count that reached `counted_to` is a lower bound."""

    ahead: int
    by_priority: int
    counted_to: int


@dataclass(frozen=True, slots=True)
class PodFault:
    """By which code a pod failed a run, and until when it leaves the run to others."""

    code: str | None
    until: datetime


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: a stable code, a sentence, and its evidence."""

    code: str
    message: str
    evidence: Mapping[str, Any]


def explain(
    run: Document,
    position: QueuePosition,
    pods: Sequence[LivePod],
    *,
    now: datetime,
    last_report: datetime | None = None,
    predecessors: Mapping[str, str] = MappingProxyType({}),
    closed: str | None = None,
    asked_first: Mapping[str, float] = MappingProxyType({}),
) -> list[Reason]:
    """Return why the stored run has its status at `now`, the weightiest first.

    `last_report` is the last one of the pod to which it is pinned, `predecessors` are the statuses of the
    runs for which it waits, `closed` is what its project is over, `asked_first` is as in `projects_first`.
    """
    status, pods = Status(run["status"]), _that_may(run["classKey"], pods)
    if status in FINAL:
        return _over(run, status)
    match status:
        case Status.AWAITING_HUMAN:
            validation = run.get("validation") or {}
            message = "it waits for a person's verdict"
            return [Reason("awaits_person", message, {"validation": dict(validation) or None})]
        case Status.CANCELING:
            asked = dict(run["cancelRequested"] or {})
            stop = stop_of(run)
            why = "as somebody asked" if stop is None else f"it is pruned: {stop}"
            return [Reason("canceling", f"{run['claimedBy']} stops it now, {why}", asked)]
        case Status.DELAYED:
            wait = _for_runs(run, predecessors) if run.get("waitsForRuns") else _delayed(run)
            return [wait, *_nobody(run, pods, last_report), *_deadline(run)]
        case _ if status in HELD:
            return _held(run)
    left = _left(run, now)
    others = [pod for pod in pods if boot_of(pod.id) not in left]
    serving = [] if pods and not others else _serving(run, position, others, last_report)
    passed_over = [*_left_to_others(left, others), *_given_back(run), *_in_turn(run["classKey"], asked_first)]
    waiting = [*serving, *passed_over, *_in_queue(run, position)]
    return [*_closed(run["classKey"], closed), *_paused(run), *waiting, *_deadline(run)]


def _closed(class_key: str, closed: str | None) -> list[Reason]:
    if closed is None:
        return []
    project = read_class(class_key).project
    message = f"project {project} is over {closed}"
    return [Reason("project_closed", message, {"project": project, "classKey": class_key})]


def turns(waiting: Sequence[WaitingClass], pods: Sequence[LivePod], shares: Shares) -> list[list[str]]:
    """Return the orders in which pods try the waiting classes, one for each way in which pods differ."""
    distinct = {
        (pod.abilities.kinds, pod.abilities.gpu_gib, pod.abilities.region, pod.abilities.cards): pod
        for pod in pods
    }
    return [
        [each.class_key for each in candidates(waiting, Seeker(pod.id, "hybrid", pod.abilities), shares)]
        for pod in [*distinct.values()][:PODS_SHOWN]
    ]


def projects_first(class_key: str, orders: Sequence[Sequence[str]], shares: Shares) -> dict[str, float]:
    """Return the projects whose runs a pod takes before those of a class, least used first.

    Each has what it used lately, in GPU seconds for its weight; the project of the class comes last. Empty
    where the class comes first on every pod that serves it.
    """
    own = read_class(class_key).project
    before = [order[: order.index(class_key)] for order in orders if class_key in order]
    used = {name: shares.used(name) for each in before for name in {read_class(key).project for key in each}}
    ranked = sorted(used.items(), key=lambda each: (each[1], each[0]))
    first = {name: each for name, each in ranked if each < shares.used(own)}
    return {**first, own: shares.used(own)} if first else {}


def why_class_waits(
    class_key: str,
    pods: Sequence[LivePod],
    closed: str | None = None,
    asked_first: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """Return in one sentence why the first run of a class does not start; the rest is as in `explain`."""
    if reasons := _closed(class_key, closed):
        return reasons[0].message
    reasons = [_pods_reason(class_key, pods), *_in_turn(class_key, asked_first)]
    return "; ".join(each.message for each in reasons)


def _over(run: Document, status: Status) -> list[Reason]:
    finished = run["finishedAt"]
    stop = stop_of(run) if status is Status.CANCELED else None
    how = status.value if stop is None else f"{status}, pruned: {stop}"
    if status is Status.CANCELED and (vain := vain_wait_of(run)) is not None:
        how = f"{status}, since {vain}"
    ended = Reason("over", f"it is over: {how}", {"finishedAt": finished and timestamp(finished)})
    error, failures = run["error"], run["failures"]
    if status is not Status.FAILED or not error:
        return [ended]
    evidence = {"code": error["code"], "failures": dict(failures), "maxAttempts": run["maxAttempts"]}
    if error["code"] == "QUEUE_TIMEOUT":
        message = "its limit is reached: no pod took it within its time in the queue"
        return [Reason("limit_reached", message, {**evidence, "queueLimitS": run["queueLimitS"]}), ended]
    if failures["app"] >= run["maxAttempts"]:
        message = f"its limit is reached: {failures['app']} of {run['maxAttempts']} attempts failed"
        if blame_of(error["code"]).fault is not Fault.RUN:
            message += f"; {error['code']} followed it wherever it ran, so it is charged to the run"
        return [Reason("limit_reached", message, evidence), ended]
    return [Reason("failed", f"it failed with {error['code']}, which no retry mends", evidence), ended]


def _held(run: Document) -> list[Reason]:
    claimed = {"pod": run["claimedBy"], "claimedAt": timestamp(run["claimedAt"]), "attempt": run["attempt"]}
    held = Reason("claimed", f"{run['claimedBy']} has it, in attempt {run['attempt']}", claimed)
    return [*_paused(run), held]


def _paused(run: Document) -> list[Reason]:
    if not run.get("paused"):
        return []
    return [Reason("paused", "somebody paused it; it goes on when it is resumed", {"paused": True})]


def _delayed(run: Document) -> Reason:
    until = timestamp(run["notBefore"])
    error = run["error"]
    if error is None:
        return Reason("delayed", f"it shall not start before {until}", {"notBefore": until})
    charged = sum(run["failures"].values())
    whose = WHOSE.get(error.get("fault"), "")
    message = f"it is tried again at {until}, after {error['code']}{whose}; {charged} failed so far"
    evidence = {
        "notBefore": until,
        "code": error["code"],
        "failures": dict(run["failures"]),
        "maxAttempts": run["maxAttempts"],
    }
    return Reason("delayed", message, evidence)


def _for_runs(run: Document, predecessors: Mapping[str, str]) -> Reason:
    statuses = {each: predecessors.get(each, "gone") for each in run["after"]}
    left = {name: each for name, each in statuses.items() if each not in SUCCEEDED} or statuses
    (first, status), more = next(iter(left.items())), len(left) - 1
    message = f"it waits for {shown(first)}, which is {status}"
    if more:
        message += ", and for one more" if more == 1 else f", and for {more} more"
    return Reason("waits_for_runs", message, {"runs": statuses})


def _serving(
    run: Document, position: QueuePosition, pods: Sequence[LivePod], last_report: datetime | None
) -> list[Reason]:
    reason = _pods_reason(run["classKey"], pods, last_report)
    if reason.code == "pod_idle" and position.ahead:
        return []  # the position, not the pods
    return [reason]


def _nobody(run: Document, pods: Sequence[LivePod], last_report: datetime | None) -> list[Reason]:
    reason = _pods_reason(run["classKey"], pods, last_report)
    return [reason] if reason.code in ("no_live_pod", "no_pod_serves", "pinned_pod_away") else []


def _pods_reason(class_key: str, pods: Sequence[LivePod], last_report: datetime | None = None) -> Reason:
    evidence: dict[str, Any] = {"classKey": class_key, "livePods": len(pods)}
    pin = read_class(class_key).pod
    if pin is not None:
        pods, evidence["pod"] = _that_may(class_key, pods), pin
        if not pods:
            return _pinned_to_nobody(pin, last_report, evidence)
    if not pods:
        return Reason("no_live_pod", "no pod is live", evidence)
    serving = [pod for pod in pods if not any(lacks(class_key, pod.abilities))]
    if not serving:
        lacking = [
            {"id": pod.id, "lacks": list(lacks(class_key, pod.abilities))} for pod in pods[:PODS_SHOWN]
        ]
        missing = sorted({each for pod in lacking for each in pod["lacks"]})
        live = "the one live pod" if len(pods) == 1 else f"none of {len(pods)} live pods"
        message = f"{live} serves {class_key}" if len(pods) > 1 else f"{live} does not serve {class_key}"
        labels = _labels_that_lack(class_key, pods)
        if pin is not None:
            message = f"it is pinned to {pin}, which does not serve it: {'; '.join(missing)}"
        elif labels:
            message += f": {'; '.join(_missing_words(each) for each in labels)}"
        elif len(missing) == 1:
            message += f": {missing[0]}"
        if labels:
            evidence["labels"] = labels
        return Reason("no_pod_serves", message, {**evidence, "pods": lacking})
    kept = {pod.id: found for pod in serving if (found := obstacle(class_key, pod.broken)) is not None}
    if len(kept) == len(serving):
        return _kept(kept, evidence)
    serving = [pod for pod in serving if pod.id not in kept]
    states = {pod.id: pod.shown_state for pod in serving}
    shown = [
        {"id": pod.id, "state": pod.shown_state, **({} if pod.hold is None else {"why": pod.hold.why})}
        for pod in serving[:PODS_SHOWN]
    ]
    evidence |= {"servingPods": len(serving), "pods": shown}
    of_all = (
        "the one pod that serves it is" if len(serving) == 1 else f"all {len(serving)} pods that serve it are"
    )
    if pin is not None:
        of_all = f"{pin}, to which it is pinned, is"
    if idle := [name for name, state in states.items() if state in IDLE]:
        return Reason("pod_idle", f"{idle[0]} serves it and is idle: it is about to be claimed", evidence)
    kinds = set(states.values())
    if kinds == {"draining"}:
        return Reason("pods_draining", f"{of_all} told to take nothing new", evidence)
    if all(pod.hold is not None for pod in serving):
        held = {pod_name(pod.id): pod.hold.why for pod in serving if pod.hold is not None}
        (first, why), *others = held.items()
        message = f"{first} serves it, but it is {why}" if pin is None else f"it is pinned to {pin}, {why}"
        if others:
            message += (
                f"; {len(others)} more that serve it are held back"
                if len(others) > 1
                else f"; {others[0][0]} is {others[0][1]}"
            )
        return Reason("pods_held_back", message, evidence)
    words = " or ".join(sorted(kinds))
    return Reason("pods_busy", f"{of_all} {words}", evidence)


def _that_may(class_key: str, pods: Sequence[LivePod]) -> Sequence[LivePod]:
    """Return the pods to which the run is pinned, all where it is not."""
    pin = read_class(class_key).pod
    return pods if pin is None else [pod for pod in pods if pod_name(pod.id) == pin]


def _pinned_to_nobody(pin: str, last_report: datetime | None, evidence: Document) -> Reason:
    known = "does not report" if last_report is None else f"last reported at {timestamp(last_report)}"
    message = f"it is pinned to {pin}, which {known}: it waits for a pod of this name"
    at = None if last_report is None else timestamp(last_report)
    return Reason("pinned_pod_away", message, {**evidence, "lastReportedAt": at})


def _labels_that_lack(class_key: str, pods: Sequence[LivePod]) -> list[dict[str, Any]]:
    """Return the labels that are asked for and that no live pod has, with what pods say instead."""
    found = []
    for name, asked in read_class(class_key).labels:
        said = Counter(pod.abilities.labels.get(name) for pod in pods)
        if not any(meets(name, asked, value) for value in said):
            without = said.pop(None, 0)
            told = [{"value": value, "pods": count} for value, count in said.most_common(VALUES_SHOWN)]
            found.append({"name": name, "needs": asked, "says": told, "without": without})
    return found


def _missing_words(lacking: Document) -> str:
    """Return one label that no pod has, such as: needs gpu=h100; pods with gpu=a100: 3, none with h100."""
    name, needs = lacking["name"], lacking["needs"]
    said = ", ".join(f"pods with {name}={each['value']}: {each['pods']}" for each in lacking["says"])
    return f"needs {words_of(name, needs)}; " + (
        f"{said}, none with {needs}" if said else f"no pod says {name}"
    )


def _left_to_others(left: Mapping[str, PodFault], others: Sequence[LivePod]) -> list[Reason]:
    """Return which pods leave the run to others, by a fault of theirs or since it does not suit them."""
    if not left:
        return []
    leaving = [
        {"id": pod, "code": each.code, "until": timestamp(each.until)}
        for pod, each in sorted(left.items(), key=lambda each: each[1].until)
    ][:PODS_SHOWN]
    first, more = leaving[0], len(left) - 1
    is_unsuited = blame_of(first["code"]).left_s is not None  # nothing failed
    how = "does not suit it ({code})" if is_unsuited else "failed it by {code}, its own fault,"
    message = f"{first['id']} {how.format(code=first['code'])}"
    message += f" and leaves it to others until {first['until']}"
    if more:
        message += "; so does one more pod" if more == 1 else f"; so do {more} more pods"
    return [Reason("left_to_others", message, {"pods": leaving, "otherPods": len(others)})]


def _left(run: Document, now: datetime) -> dict[str, PodFault]:
    """Return the pods that leave the run to others at `now`, with their last fault."""
    return {
        each.pod: PodFault(each.code, each.until)
        for each in past_faults(run.get("faults"))
        if each.until is not None and each.until > now
    }


def _kept(kept: Mapping[str, Broken], evidence: Document) -> Reason:
    """Return that all pods which serve a class are kept from it by their own checks."""
    shown = [
        {"id": name, "check": found.name, "says": found.message}
        for name, found in list(kept.items())[:PODS_SHOWN]
    ]
    first = shown[0]
    message = f"{first['id']} serves it, but {first['says']} (its check {first['check']} fails)"
    if len(kept) > 1:
        message = f"none of {len(kept)} pods that serve it may claim by its own checks: {message}"
    return Reason("pods_unfit", message, {**evidence, "servingPods": len(kept), "pods": shown})


def hold_of(orders: Mapping[str, Any]) -> Hold | None:
    """Return what keeps a pod with these orders from claiming."""
    if (cordon := orders["cordon"]) is not None:
        until = "" if cordon["until"] is None else f" until {timestamp(cordon['until'])}"
        return Hold("cordoned", f"cordoned: {cordon['reason']} (by {cordon['by']}{until})")
    if (quarantine := orders["quarantine"]) is not None:
        since, try_at = timestamp(quarantine["since"]), timestamp(quarantine["tryAt"])
        why = f"in quarantine since {since}: {quarantine['reason']}, tried again at {try_at}"
        return Hold("quarantined", why)
    return None


def _given_back(run: Document) -> list[Reason]:
    settled = run.get("settled") or {}
    if settled.get("outcome") != "preempted" or not settled.get("message") or not settled.get("at"):
        return []
    until = timestamp(settled["at"] + timedelta(seconds=LEFT_TO_OTHERS_S))
    why = f"attempt {run['attempt']} gave it back ({settled['message']})"
    message = f"{why}; its pod leaves it to others until {until}"
    return [Reason("given_back", message, {"attempt": run["attempt"], "othersUntil": until})]


def _in_turn(class_key: str, asked_first: Mapping[str, float]) -> list[Reason]:
    """Return which projects are asked first, since they used less for their weight."""
    if not asked_first:
        return []
    own = read_class(class_key).project
    first, *more = (name for name in asked_first if name != own)
    hours = {name: used / HOUR_S for name, used in asked_first.items()}
    message = (
        f"project {first} is asked first: for its weight it used {hours[first]:.2f} GPU hours of late, "
        f"project {own} {hours[own]:.2f}"
    )
    if more:
        message += "; so is one more project" if len(more) == 1 else f"; so are {len(more)} more projects"
    return [Reason("other_projects_first", message, {"project": own, "usedGpuS": dict(asked_first)})]


def _in_queue(run: Document, position: QueuePosition) -> list[Reason]:
    place = position.ahead + 1
    evidence = {
        "classKey": run["classKey"],
        "position": place,
        "ahead": position.ahead,
        "aheadByPriority": position.by_priority,
        "priority": run["priority"],
        "countedTo": position.counted_to,
        "isExact": position.ahead < position.counted_to,
    }
    if not position.ahead:
        return [Reason("position", f"it is the next of {run['classKey']}", evidence)]
    least = "at least " if position.ahead >= position.counted_to else ""
    runs = "run of its class is" if position.ahead == 1 else "runs of its class are"
    message = f"{least}{position.ahead:,} {runs} ahead of it"
    if position.by_priority:
        message += f", {position.by_priority:,} by a higher priority than its {run['priority']}"
    return [Reason("position", message, evidence)]


def _deadline(run: Document) -> list[Reason]:
    if run["queueDeadline"] is None:
        return []
    until = timestamp(run["queueDeadline"])
    evidence = {"queueDeadline": until, "queueLimitS": run["queueLimitS"]}
    return [Reason("queue_limit", f"it fails if no pod takes it by {until}", evidence)]
