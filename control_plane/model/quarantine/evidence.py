"""What tells that a pod fails by itself: its attempts' ends beside those of other pods, pure.

Law: only what a pod itself held speaks against it, and a decision stands without any one other pod's word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from math import comb
from statistics import median_low
from typing import Final, NamedTuple

from events.lifecycle import Fault
from events.queue.abilities import Abilities
from events.queue.faults import blame_of

FAILURES_MIN: Final = 3
# How often a sound pod fails by itself, at most; where others of its class do so more often, as they do.
USUAL: Final = 0.05
# How probable so many failures of a sound pod may be: a binomial tail, as in a test of a proportion.
RISK: Final = 0.002
# So many other pods on which a run failed in the same way show that it is the run.
ELSEWHERE_MAX: Final = 2
# Of other pods, so many times more have succeeded than failed while a dependency was away for one pod.
SUCCEEDING: Final = 3
EVIDENCE_MAX: Final = 5
CODES_SHOWN: Final = 3


class Identity(NamedTuple):
    """A pod by its name, and the key with which it reports; None for one with a database."""

    name: str
    key_id: str | None


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """One attempt that ended, by the moments of the store's clock."""

    pod: Identity
    run_id: str
    attempt: int
    class_key: str
    claimed_at: datetime
    ended_at: datetime
    is_completed: bool
    code: str | None


@dataclass(frozen=True, slots=True)
class Member:
    """A live pod; `takes` unless it is cordoned or leaves, `is_sound` where its own checks pass."""

    pod: Identity
    abilities: Abilities
    device: str | None = None
    gpu_faults: tuple[str, ...] = ()
    is_sound: bool = True
    takes: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that speaks against a pod."""

    code: str
    at: datetime
    run_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why a pod is taken for unsound, in words and with its evidence."""

    reason: str
    evidence: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """The ends of one class of runs, by pod, the newest first."""

    by_pod: Mapping[Identity, Sequence[AttemptEnd]]
    failed_on: Mapping[str, set[Identity]]
    shares: Mapping[Identity, float] = field(default_factory=dict)

    def failing(
        self, pod: Identity, *, since: datetime | None = None, needed: int = FAILURES_MIN
    ) -> Suspicion | None:
        """Return why the pod fails by itself where others do not, by its attempts since then.

        One that is `needed` alone is believed without a comparison: the pod is on trial. What a program may
        do itself, and did here before, tells nothing new.
        """
        every = self.by_pod.get(pod, ())
        ends = [each for each in every if since is None or each.claimed_at >= since]
        doubtful = [each for each in every if blame_of(each.code).is_doubtful]
        again = {each.run_id for each in doubtful if since is not None and each.claimed_at < since}
        own = self.own(pod, ends) - {each for each in doubtful if each.run_id in again}
        usual = self._usual(pod)
        runs: dict[str, AttemptEnd] = {}
        for count, end in enumerate(ends, 1):
            if end in own:
                runs.setdefault(end.run_id, end)
                told = len(runs)
                if told >= needed and (needed == 1 or _tail(told, count, usual) < RISK):
                    return _suspicion(list(runs.values()))
        return None

    def own(self, pod: Identity, ends: Sequence[AttemptEnd]) -> set[AttemptEnd]:
        """Return which of these ends of a pod are its own failures."""
        away = [each for each in ends if blame_of(each.code).fault is Fault.OUTSIDE]
        found = {
            each
            for each in ends
            if blame_of(each.code).fault is Fault.POD
            and len(self.failed_on.get(each.run_id, set()) - {pod}) < ELSEWHERE_MAX
        }
        return found | set(away) if away and self._reach(pod, away) else found

    def _reach(self, pod: Identity, away: Sequence[AttemptEnd]) -> bool:
        """Say whether other pods reached what this one did not, in attempts within the same time."""
        first, last = min(each.claimed_at for each in away), max(each.ended_at for each in away)
        succeeded = failed = 0
        for other, ends in self.by_pod.items():
            within = [each for each in ends if each.claimed_at >= first and each.ended_at <= last]
            if other == pod or not within:
                continue
            if any(blame_of(each.code).fault is Fault.OUTSIDE for each in within):
                failed += 1
            elif any(each.is_completed for each in within):
                succeeded += 1
        return succeeded - 1 >= max(1, SUCCEEDING * failed)  # also without any one of them

    def _usual(self, pod: Identity) -> float:
        """Return how often other pods fail by themselves: one vote each, without the lowest."""
        others = sorted(share for other, share in self.shares.items() if other != pod)
        return max(USUAL, median_low(others[1:] or others)) if others else USUAL


def records(ends: Iterable[AttemptEnd], known: Collection[Identity] = ()) -> dict[str, ClassRecord]:
    """Return the ends of attempts by class; what people or a preemption ended tells nothing,
    nor what only suits other pods.

    Pods that are `known` to fail by themselves have no vote on how often a sound pod does.
    """
    by_class: dict[str, dict[Identity, list[AttemptEnd]]] = defaultdict(lambda: defaultdict(list))
    failed_on: dict[str, set[Identity]] = defaultdict(set)
    for end in sorted(ends, key=lambda each: each.ended_at, reverse=True):
        if not end.is_completed and (end.code is None or blame_of(end.code).left_s is not None):
            continue
        by_class[end.class_key][end.pod].append(end)
        if blame_of(end.code).fault is Fault.POD:
            failed_on[end.run_id].add(end.pod)
    found = {}
    for class_key, by_pod in by_class.items():
        record = ClassRecord(by_pod, failed_on)
        shares = {
            pod: len(record.own(pod, each)) / len(each) for pod, each in by_pod.items() if pod not in known
        }
        found[class_key] = ClassRecord(by_pod, failed_on, shares)
    return found


def _tail(told: int, count: int, usual: float) -> float:
    """Return how probable at least `told` failures among `count` are where each has the chance `usual`."""
    below = accumulate(comb(count, k) * usual**k * (1 - usual) ** (count - k) for k in range(told))
    return 1.0 - list(below)[-1]


def _suspicion(failures: Sequence[AttemptEnd]) -> Suspicion:
    codes = list(dict.fromkeys(each.code or "" for each in failures))
    named = ", ".join(codes[:CODES_SHOWN]) + (", …" if len(codes) > CODES_SHOWN else "")
    counted = "1 failure" if len(failures) == 1 else f"{len(failures)} failures"
    evidence = tuple(
        Failure(each.code or "", each.ended_at, each.run_id, each.attempt) for each in failures[:EVIDENCE_MAX]
    )
    return Suspicion(f"{counted} of its own ({named})", evidence)
