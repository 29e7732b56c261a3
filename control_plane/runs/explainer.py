"""Gathers the evidence of an explanation: the run, the runs before it, and the live pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from control_plane.model.explanation import (
    QueuePosition,
    explain,
    hold_of,
    projects_first,
    turns,
    why_class_waits,
)
from control_plane.model.presentation import plain
from control_plane.model.views.live_pods import LivePod
from control_plane.model.views.pods import abilities_of, is_leaving, require_form
from control_plane.model.views.readable import those_readable
from control_plane.reads.ledger.documents import price_of
from control_plane.reads.node_waits import node_reasons
from control_plane.reads.reading import SILENT_AFTER, Reading
from control_plane.runs.placement import Placement, placed
from control_plane.store.access.projects import Projects
from control_plane.store.queue.claims import Claims
from control_plane.store.queue.queues import ahead_of
from control_plane.store.queue.successors import Successors
from events.answers.fleet import QueuedBehind
from events.answers.runs import Explanation, Reason
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import Status
from events.queue.abilities import lacks
from events.queue.fair.shares import Share, Shares, shares_in
from events.queue.matching import cards_held, matches
from events.queue.pod_checks import Broken
from events.queue.requirements import read_class
from events.queue.rules import Rules
from events.runtime.errors import NotFound

BEHIND_MAX: Final = 50  # runs that wait for others, as the queue shows them
GONE: Final = {"status": "gone"}
PRICED_AFTER: Final = timedelta(hours=1)  # so long a pod that is gone is one that a run may wait for


async def explanation(reading: Reading, run_id: str) -> Explanation:
    """Return the reasons for a run's present status. Raises `NotFound`."""
    run = await reading.run_reads.find(run_id)
    if run is None:
        raise NotFound("unknown_run", f"there is no run {run_id!r}")
    position, pods, closed = QueuePosition(0, 0, 0), list[LivePod](), None
    asked_first: Mapping[str, float] = {}
    if run["status"] == Status.QUEUED:
        position, pods = await asyncio.gather(ahead_of(reading.run_reads.db, run), live_pods(reading))
        shares = await _shares(reading)
        closed = _closed(shares, run["classKey"], pods)
        serving = [pod for pod in pods if matches(run["classKey"], pod.abilities)]
        orders = await _turns(reading, shares, serving)
        asked_first = projects_first(run["classKey"], orders, Shares(shares))
    elif run["status"] == Status.DELAYED:
        pods = await live_pods(reading)
    pin = read_class(run["classKey"]).pod if run["status"] in (Status.QUEUED, Status.DELAYED) else None
    named = None if pin is None else await reading.pod_reads.any_named(pin)
    said = None if named is None else named.get("reportedAt")
    last_report = said if isinstance(said, datetime) else None
    of_run = explain(
        run,
        position,
        pods,
        now=reading.clock.now(),
        last_report=last_report,
        predecessors=await _predecessors(reading, run),
        closed=closed,
        asked_first=asked_first,
    )
    found = [*await node_reasons(reading.run_reads.db, run), *of_run]
    reasons = [Reason(code=each.code, message=each.message, evidence=plain(each.evidence)) for each in found]
    return Explanation(status=run["status"], reasons=reasons)


async def _predecessors(reading: Reading, run: Mapping[str, Any]) -> dict[str, str]:
    """Return the statuses of the runs for which a run waits."""
    if not run.get("waitsForRuns"):
        return {}
    found = await Successors(reading.run_reads.db).standing(run["after"])
    return {name: str(each["status"]) for name, each in found.items()}


async def behind(reading: Reading, project: str | None = None) -> list[QueuedBehind]:
    """Return the runs that have waited for others the longest, and for which they wait."""
    successors = Successors(reading.run_reads.db)
    found = [(each, read_class(each.class_key).project) for each in await successors.waiting("")]
    chosen = [(each, of) for each, of in found if project in (None, of)][:BEHIND_MAX]
    named = {name for each, _ in chosen for name in each.after}
    standing = await successors.standing(named) if named else {}
    titles = await successors.titles([each.id for each, _ in chosen]) if chosen else {}
    return [
        QueuedBehind(
            id=each.id,
            kind=each.kind,
            title=title if isinstance(title := titles.get(each.id), str) else None,
            project=of,
            after={name: str(standing.get(name, GONE).get("status")) for name in each.after},
        )
        for each, of in chosen
    ]


async def class_reasons(reading: Reading, class_keys: Sequence[str]) -> Mapping[str, str]:
    """Return, by class, the reasons why its first run does not start."""
    pods = await live_pods(reading) if class_keys else []
    shares = await _shares(reading) if class_keys else {}
    orders = await _turns(reading, shares, pods)
    return {
        class_key: why_class_waits(
            class_key,
            pods,
            _closed(shares, class_key, pods),
            projects_first(class_key, orders, Shares(shares)),
        )
        for class_key in class_keys
    }


async def _turns(reading: Reading, shares: Mapping[str, Share], pods: Sequence[LivePod]) -> list[list[str]]:
    """Return the orders in which these pods try the classes that wait; none is told without projects."""
    waiting = await Claims(reading.run_reads.db).waiting(QUEUES) if shares else []
    return turns(waiting, pods, Shares(shares))


async def _shares(reading: Reading) -> Mapping[str, Share]:
    return shares_in(await Projects(reading.run_reads.db).shares())


def _closed(shares: Mapping[str, Share], class_key: str, pods: Sequence[LivePod]) -> str | None:
    """Return what the project of a class is over, or would be with one more run on any of the pods."""
    share = shares.get(read_class(class_key).project)
    if share is None or share.closed is not None or share.free is None:
        return None if share is None else share.closed
    serving = [pod.abilities.cards for pod in pods if matches(class_key, pod.abilities)]
    least = min((cards_held(class_key, each) for each in serving), default=0)
    if least <= share.free:
        return None
    has = "GPU" if least == 1 else "GPUs"
    return f"its quota of GPUs: {share.free} are free, and a slot that serves the run has {least} {has}"


async def placement(reading: Reading, class_key: str) -> Placement:
    """Return where a run of a class could start now."""
    return placed(class_key, await live_pods(reading))


async def live_pods(reading: Reading) -> list[LivePod]:
    """Return the pods with a recent report."""
    return [pod for pod, _ in await live_documents(reading)]


async def live_documents(reading: Reading) -> list[tuple[LivePod, Mapping[str, Any]]]:
    """Return the pods with a recent report, each with its stored document, but for damaged ones."""
    found = await reading.pod_reads.live(reading.clock.now() - SILENT_AFTER)
    rules = await reading.pod_rules.in_force()
    return those_readable("pod", found, lambda each: (_pod(each, rules), each))


async def cheapest(reading: Reading, class_key: str) -> float | None:
    """Return the price an hour of the cheapest pod of the last hour that serves a class."""
    found = await reading.pod_reads.live(reading.clock.now() - PRICED_AFTER)
    rules = await reading.pod_rules.in_force()
    prices = [
        price
        for pod, document in those_readable("pod", found, lambda each: (_pod(each, rules), each))
        if pod.hold is None
        and not pod.is_draining
        and not any(lacks(class_key, pod.abilities))
        and (price := price_of(document.get("usdPerHour"))) is not None
    ]
    return min(prices, default=None)


def _pod(document: Mapping[str, Any], rules: Rules) -> LivePod:
    require_form(document)
    return LivePod(
        id=document["_id"],
        state=document["state"],
        abilities=abilities_of(document),
        broken=Broken.of(document.get("checks") or ()),
        hold=hold_of(rules.orders(document["_id"], document.get("keyId"))),
        is_draining=is_leaving(document),
    )
