"""Which pods are put in quarantine, tried again, and let go: evidence in, quarantines out; pure.

Law: of the pods that take runs of a class at most half are in quarantine at once; what is beyond that is for
a person. A pod leaves it for a trial, after a time that doubles, where its own checks pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from control_plane.model.quarantine.evidence import (
    EVIDENCE_MAX,
    AttemptEnd,
    ClassRecord,
    Failure,
    Identity,
    Member,
    Suspicion,
    records,
)
from control_plane.model.quarantine.slowness import slower
from events.queue.abilities import Abilities
from events.queue.matching import classes, matches

FIRST_S: Final = 60.0
LONGEST_S: Final = 3600.0
LOOKED_BACK: Final = timedelta(days=1)
GOOD_ENDS: Final = 8  # so many end a trial
PODS_MAX: Final = 500
GPU_FAULT: Final = "GPU_FAULT"
TOO_SLOW: Final = "TOO_SLOW"
ITS_RUNS: Final = "its runs"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A pod in quarantine since `since`, or on trial since `trial_at`; `spell_s` is how long it lasts.

    `cleared_by` says who ended a trial: a person, or its own good runs. Nothing before the trial counts then.
    """

    pod: Identity
    reason: str
    evidence: tuple[Failure, ...]
    since: datetime
    try_at: datetime
    spell_s: float
    trial_at: datetime | None = None
    cleared_by: str | None = None

    @property
    def is_held(self) -> bool:
        """Say whether the pod claims nothing."""
        return self.trial_at is None


def decide(
    known: Sequence[Quarantine], members: Sequence[Member], ends: Sequence[AttemptEnd], now: datetime
) -> list[Quarantine]:
    """Return the quarantines from now on."""
    live = {each.pod: each for each in members}
    failing = {each.pod for each in known if each.cleared_by is None}
    look = _Look(live, records(ends, failing), now)
    kept = {each.pod: each for before in known if (each := look.stepped(before)) is not None}
    wanted = [*look.failed_trials(kept), *look.new(kept)]
    room = _Room(live, [pod for pod, each in kept.items() if each.is_held])
    for each in sorted(wanted, key=lambda each: (each.evidence[0].at, each.pod.name)):
        if (each.pod in kept or len(kept) < PODS_MAX) and room.take(live[each.pod].abilities):
            kept[each.pod] = each
    for each in sorted((each for each in kept.values() if each.is_held), key=lambda each: each.try_at):
        # Others have left meanwhile: whoever is nearest to its trial has it now.
        if each.pod in live and live[each.pod].takes and room.is_over(live[each.pod].abilities):
            room.give(live[each.pod].abilities)
            kept[each.pod] = replace(each, trial_at=now)
    return list(kept.values())


def released(known: Sequence[Quarantine], name: str, by: str, now: datetime) -> list[Quarantine]:
    """Return the quarantines after a person has released a pod: what was before tells nothing any more."""
    return [
        replace(each, trial_at=now, cleared_by=by, spell_s=0.0) if each.pod.name == name else each
        for each in known
    ]


@dataclass(frozen=True, slots=True)
class _Look:
    live: Mapping[Identity, Member]
    classes: Mapping[str, ClassRecord]
    now: datetime

    def stepped(self, before: Quarantine) -> Quarantine | None:
        """Return a quarantine as time and good ends leave it; None where it is over."""
        since = before.trial_at
        if since is None:
            member = self.live.get(before.pod)
            if member is None:
                return None if self.now - before.try_at > LOOKED_BACK else before
            is_due = self.now >= before.try_at and member.is_sound and not member.gpu_faults
            return replace(before, trial_at=self.now) if is_due else before
        if self.now - since > LOOKED_BACK:
            return None
        good = 0
        for record in self.classes.values():
            ends = [each for each in record.by_pod.get(before.pod, ()) if each.claimed_at >= since]
            good += len(ends) - len(record.own(before.pod, ends))
        is_cleared = before.cleared_by is None and good >= GOOD_ENDS
        return replace(before, cleared_by=ITS_RUNS, spell_s=0.0) if is_cleared else before

    def failed_trials(self, kept: Mapping[Identity, Quarantine]) -> Iterator[Quarantine]:
        """Yield the quarantines of pods that failed on trial: again, for twice the time."""
        for each in kept.values():
            if each.trial_at is None or each.pod not in self.live:
                continue
            needed = {} if each.cleared_by else {"needed": 1}
            if why := self._suspicion(self.live[each.pod], since=each.trial_at, **needed):
                yield self._put(each.pod, why, min(LONGEST_S, max(FIRST_S, 2 * each.spell_s)))

    def new(self, kept: Mapping[Identity, Quarantine]) -> Iterator[Quarantine]:
        """Yield the quarantines of pods that are suspected for the first time."""
        for pod, member in self.live.items():
            if pod not in kept and member.takes and (why := self._suspicion(member)):
                yield self._put(pod, why, FIRST_S)

    def _put(self, pod: Identity, why: Suspicion, spell_s: float) -> Quarantine:
        evidence = why.evidence[:EVIDENCE_MAX]
        return Quarantine(pod, why.reason, evidence, self.now, self.now + timedelta(seconds=spell_s), spell_s)

    def _suspicion(self, member: Member, *, since: datetime | None = None, **needed: int) -> Suspicion | None:
        if member.gpu_faults:
            told = ", ".join(member.gpu_faults)
            return Suspicion(f"its GPU fails ({told})", (Failure(GPU_FAULT, self.now),))
        for class_key, record in self.classes.items():
            failing = record.failing(member.pod, since=since, **needed)
            if failing is not None:
                return failing
            if slow := self._slow(record, member, since):
                newest = record.by_pod[member.pod][0]
                evidence = Failure(TOO_SLOW, newest.ended_at, newest.run_id, newest.attempt)
                return Suspicion(f"it is slow on {class_key}: {slow}", (evidence,))
        return None

    def _slow(self, record: ClassRecord, member: Member, since: datetime | None) -> str | None:
        peers = [
            [_took_s(each) for each in ends if each.is_completed and each.attempt == 1]
            for pod, ends in record.by_pod.items()
            if pod != member.pod and pod in self.live and self.live[pod].device == member.device
        ]
        own = [
            _took_s(each)
            for each in record.by_pod.get(member.pod, ())
            if each.is_completed and each.attempt == 1 and (since is None or each.claimed_at >= since)
        ]
        return slower(own, peers)


def _took_s(end: AttemptEnd) -> float:
    return (end.ended_at - end.claimed_at).total_seconds()


@dataclass(slots=True)
class _Room:
    """How many pods of each class may be in quarantine, and are."""

    live: Mapping[Identity, Member]
    held: Sequence[Identity]
    _takers: Counter[Abilities] = field(init=False)
    _held: Counter[Abilities] = field(init=False)

    def __post_init__(self) -> None:
        takers = [each for each in self.live.values() if each.takes]
        self._takers = Counter(each.abilities for each in takers)
        self._held = Counter(each.abilities for each in takers if each.pod in set(self.held))

    def take(self, abilities: Abilities) -> bool:
        """Take a place for a pod with these abilities, in each class that it serves; False without one."""
        if any(2 * (held + 1) > takers for held, takers in self._counts(abilities)):
            return False
        self._held[abilities] += 1
        return True

    def give(self, abilities: Abilities) -> None:
        """Give a place back."""
        self._held[abilities] -= 1

    def is_over(self, abilities: Abilities) -> bool:
        """Say whether more than half of the pods of some class that it serves are in quarantine."""
        return any(2 * held > takers for held, takers in self._counts(abilities))

    def _counts(self, abilities: Abilities) -> Iterator[tuple[int, int]]:
        """Yield of each class that the pod serves how many pods are in quarantine, and take runs in all."""
        for class_key in classes(abilities):
            yield _serving(self._held, class_key), _serving(self._takers, class_key)


def _serving(counted: Counter[Abilities], class_key: str) -> int:
    return sum(count for abilities, count in counted.items() if matches(class_key, abilities))
