"""Who was entitled to work on which run, and when: folded from the workers' journals, pure.

Law: an owner is alive from the acknowledgement of its claim to the first of: the end of its
trust (counted from the moment the last successful renewal was *asked* for), the end of its
child, its settlement, the loss of its lease, its own last line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pod_worker.attempt.lease import MARGIN_FRACTION
from testing.chaos.checking.evidence import Term
from testing.chaos.records.journal import Line

OVER: Final = frozenset({"child ended", "child gone", "child killed"})
MOVES: Final = {"child started": True, "child resumed": True, "child suspended": False}
AWAKE_S: Final = 0.5  # two beats; a longer silence means that the whole process stood still


@dataclass(slots=True)
class Ownership:
    """One actor's hold on one attempt; `trusted_until_s` moves with each renewal."""

    actor: str
    term: Term
    token: str
    from_s: float
    trusted_until_s: float
    over_s: float | None = None
    awake_s: float = 0.0
    """How long the actor went on, its child running, when its trust had ended."""
    is_running: bool = False

    @property
    def until_s(self) -> float:
        """When the actor was the owner no more."""
        return self.trusted_until_s if self.over_s is None else min(self.over_s, self.trusted_until_s)


@dataclass(slots=True)
class _Actor:
    """What a fold knows of one worker."""

    rate: float = 1.0
    last_s: float = 0.0
    asked: dict[int, Line] = field(default_factory=dict)
    holds: dict[Term, Ownership] = field(default_factory=dict)


def ownerships(lines: Sequence[Line]) -> list[Ownership]:
    """Return every hold that the journals tell of, in the order of their beginnings."""
    found: list[Ownership] = []
    actors: dict[str, _Actor] = {}
    for line in lines:
        actor = actors.setdefault(line.actor, _Actor())
        if line.what == "begun":
            _end_all(actor, actor.last_s)
            actor.rate = line.data["rate"]
            actor.asked.clear()
            actor.holds.clear()
        found += _take(actor, line)
        actor.last_s = line.at_s
    for actor in actors.values():
        _end_all(actor, actor.last_s)
    return found


def overlaps(holds: Iterable[Ownership]) -> list[tuple[Ownership, Ownership]]:
    """Return the pairs of owners of one run that lived at the same time."""
    by_run: dict[str, list[Ownership]] = {}
    for hold in holds:
        by_run.setdefault(hold.term[0], []).append(hold)
    found: list[tuple[Ownership, Ownership]] = []
    for group in by_run.values():
        # Whoever learns of its claim when the trust in it is over was never the owner.
        alive = sorted((hold for hold in group if hold.from_s < hold.until_s), key=lambda hold: hold.from_s)
        longest: Ownership | None = None
        for hold in alive:
            if longest is not None and hold.from_s < longest.until_s and _differ(longest, hold):
                found.append((longest, hold))
            if longest is None or hold.until_s > longest.until_s:
                longest = hold
    return found


def _differ(one: Ownership, other: Ownership) -> bool:
    return (one.actor, one.term) != (other.actor, other.term)


def _end_all(actor: _Actor, at_s: float) -> None:
    for hold in actor.holds.values():
        if hold.over_s is None:
            hold.over_s = at_s


def _take(actor: _Actor, line: Line) -> list[Ownership]:
    """Fold one line; return the hold that it begins."""
    if line.phase == "invoke":
        actor.asked[line.call] = line
        if line.what == "settle":
            _end(actor, line)
    elif line.phase == "ok" and line.what in ("claim", "recover"):
        return _begin(actor, line)
    elif line.phase == "ok" and line.what == "renew":
        hold = _hold(actor, line)
        if hold is not None:
            hold.trusted_until_s = max(hold.trusted_until_s, _trusted_until_s(actor, line))
    elif (line.phase == "fail" and line.what == "renew") or line.what in OVER:
        _end(actor, line)
    else:
        _watch(actor, line)
    return []


def _begin(actor: _Actor, line: Line) -> list[Ownership]:
    assert line.run is not None
    assert line.attempt is not None
    term = (line.run, line.attempt)
    token = actor.asked[line.call].data["token"]
    hold = Ownership(line.actor, term, token, line.at_s, _trusted_until_s(actor, line))
    actor.holds[term] = hold
    return [hold]


def _watch(actor: _Actor, line: Line) -> None:
    """Measure how long a child runs on without trust, while its parent is awake to stop it."""
    hold = _hold(actor, line)
    if hold is not None and line.what in MOVES:
        hold.is_running = MOVES[line.what]
    if line.what != "beat":
        return
    for each in actor.holds.values():
        late_s = line.at_s - max(actor.last_s, each.trusted_until_s)
        if each.over_s is None and each.is_running and 0 < late_s <= AWAKE_S:
            each.awake_s += late_s


def _hold(actor: _Actor, line: Line) -> Ownership | None:
    if line.run is None or line.attempt is None:
        return None
    return actor.holds.get((line.run, line.attempt))


def _end(actor: _Actor, line: Line) -> None:
    hold = _hold(actor, line)
    if hold is not None and hold.over_s is None:
        hold.over_s = line.at_s


def _trusted_until_s(actor: _Actor, line: Line) -> float:
    asked = actor.asked[line.call]
    ttl_s: float = asked.data["ttl_s"]
    # By the pod's own clock, which runs `rate` times as fast as the machine's.
    return asked.at_s + ttl_s * (1 - MARGIN_FRACTION) / actor.rate


def holder_at(holds: Mapping[str, Sequence[Ownership]], actor: str, at_s: float) -> Ownership | None:
    """Return what `actor` held at a moment."""
    for hold in holds.get(actor, ()):
        over_s = hold.trusted_until_s if hold.over_s is None else hold.over_s
        if hold.from_s <= at_s <= over_s + AWAKE_S:
            return hold
    return None
