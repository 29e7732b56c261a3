"""The nodes of one job: all start together, or none; pure.

Law: a start names the attempt of each node. When one of these attempts is over and its run is not, the others
give their pods back, and all wait for the next start. Nodes that wait for others longer than `ready_s` give
their pods back, too, and leave them to others for a while, which is not the same for any two jobs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from events.lifecycle import AT_REST, HELD, LIVE, SUCCEEDED, Status

GOOD: Final = SUCCEEDED | {Status.AWAITING_HUMAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Where a node stands: its run, and what the present attempt of it has said and was told."""

    rank: int
    run_id: str
    status: Status
    attempt: int
    claimed_at: datetime | None = None
    ready_at: datetime | None = None
    address: str = ""
    told: int = 0  # the attempt that was told of a start
    preempted: int = 0  # the attempt that was told to give its pod back


@dataclass(frozen=True, slots=True)
class Begin:
    """All nodes are ready: these attempts start, and find each other at this address."""

    attempts: Mapping[int, int]
    address: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """These give their pods back and wait; `waiting`, which no pod has, wait as long."""

    members: Sequence[Member]
    wait_s: float
    waiting: Sequence[Member] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """The others are canceled."""

    reason: str


def next_move(
    members: Sequence[Member], started: Mapping[int, int], now: datetime, ready_s: float, name: str
) -> Begin | GiveBack | Stop | None:
    """Decide what becomes of a job whose nodes are submitted; `started` has the attempts of its start."""

    def is_of_start(each: Member) -> bool:
        return started.get(each.rank) == each.attempt

    going = [each for each in members if each.status not in AT_REST]
    ended = [each for each in members if each.status in AT_REST]
    lost = [each for each in ended if each.status not in GOOD]
    if not going:
        return None
    if lost:
        return Stop(f"node {lost[0].rank} is {lost[0].status}")
    if all(is_of_start(each) and (each in ended or each.status in HELD) for each in members):
        return None
    if ended:
        return Stop(f"node {ended[0].rank} has completed: the others cannot begin again without it")
    live = [each for each in going if each.status in LIVE and each.preempted != each.attempt]
    if stale := [each for each in live if is_of_start(each)]:
        return GiveBack(stale, 0.0)
    if len(live) == len(members) and all(each.ready_at for each in live):
        return Begin({each.rank: each.attempt for each in live}, live[0].address)
    since = min((each.claimed_at for each in live if each.claimed_at), default=now)
    if now < since + timedelta(seconds=ready_s):
        return None
    queued = [each for each in going if each.status is Status.QUEUED]
    return GiveBack(live, back_off_s(name, ready_s), queued) if live else None


def back_off_s(name: str, ready_s: float) -> float:
    """Return how long a job leaves its pods to others: from half of `ready_s` to one and a half of it."""
    share = hashlib.sha256(name.encode()).digest()[0] / 256
    return ready_s * (0.5 + share)
