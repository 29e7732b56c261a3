"""The nodes of one job: all start together, or none; pure.

Law: a start names the attempt of each node. When one of these attempts is over and its run is not, the
others give their pods back, and all wait for the next start. Nodes that wait `ready_s` for others
without a pod, since the last one got its own, give theirs back, too, and leave them to others for a
while: it is not the same for any two jobs, nor twice, and grows, so that jobs that each have a part do
not meet for ever. The time to prepare is no wait. A job that is paused keeps no pods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from events.lifecycle import AT_REST, HELD, INITIAL, LIVE, SUCCEEDED, Status

PREPARE_S: Final = 3600.0  # a pod takes 15 minutes at most to fetch a commit, 30 to make an environment
# A paused job leaves pods to others for so long, and then again; it is let go when it is resumed.
HOLD_S: Final = 24 * 3600.0
HOLD_LEAST_S: Final = HOLD_S / 4  # no other wait of a run that is tried again is as long
WAIT_MAX_S: Final = HOLD_LEAST_S / 2
GROWS_MAX: Final = 3
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
    is_paused: bool = False  # by a person: it stands still
    not_before: datetime | None = None

    def is_held(self, until: datetime) -> bool:
        """Say whether no pod may have it before a moment."""
        return self.status in INITIAL and self.not_before is not None and self.not_before > until


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
class LetGo:
    """The job is resumed: pods may have these."""

    members: Sequence[Member]


@dataclass(frozen=True, slots=True)
class Stop:
    """The others are canceled."""

    reason: str


def next_move(
    members: Sequence[Member],
    started: Mapping[int, int],
    now: datetime,
    ready_s: float,
    name: str,
    *,
    is_paused: bool = False,
) -> Begin | GiveBack | LetGo | Stop | None:
    """Decide what becomes of a job; `started` has the attempts of its start.

    All of its nodes are submitted, or the job `is_paused`.
    """

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
    if is_paused:
        until = now + timedelta(seconds=HOLD_S / 2)
        waiting = [each for each in going if each.status in INITIAL and not each.is_held(until)]
        return GiveBack(live, HOLD_S, waiting) if live or waiting else None
    if held := [each for each in going if each.is_held(now + timedelta(seconds=HOLD_LEAST_S))]:
        return LetGo(held)
    if stale := [each for each in live if is_of_start(each)]:
        return GiveBack(stale, 0.0)
    have_pods = len(live) == len(members) and not any(each.is_paused for each in live)
    waiting = [each for each in live if each.ready_at]
    if have_pods and len(waiting) == len(members):
        return Begin({each.rank: each.attempt for each in live}, live[0].address)
    moments = sorted(each.ready_at for each in waiting if each.ready_at)
    if not moments:
        return None
    last = max(filter(None, (each.ready_at or each.claimed_at for each in live)))
    over = moments[0] + timedelta(seconds=PREPARE_S) if have_pods else last + timedelta(seconds=ready_s)
    if now < over:
        return None
    queued = [each for each in going if each.status is Status.QUEUED]
    turn = sum(each.attempt for each in members)
    tries = max(each.attempt for each in live) - max(started.values(), default=0)
    return GiveBack(waiting, back_off_s(f"{name}/{turn}", tries, ready_s), queued)


def back_off_s(name: str, tries: int, ready_s: float) -> float:
    """Return how long a job leaves its pods to others, by how often it has tried to get them.

    From half of `ready_s` to one and a half of it after the first try, eight and a half after the fourth.
    """
    share = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) / 2**32
    grown = 2.0 ** min(max(0, tries - 1), GROWS_MAX)
    return min(WAIT_MAX_S, ready_s * (0.5 + share * grown))
