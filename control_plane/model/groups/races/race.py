"""The plan `race`: a lane for each chosen pod, started together; pure.

Law: one moment is decided, when every lane that may still come is ready, or the time for that is over; what
is not ready then starts late, and what has ended never starts. Nobody is waited for beyond `ready_s`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from control_plane.model.groups.members import Members
from control_plane.model.groups.parameters import Values
from events.lifecycle import FINAL, LIVE, Status
from events.runtime.errors import Rejected

LANES_MIN: Final = 2
LANES_MAX: Final = 16
LEAD_MIN_S: Final = 1.0  # from the decision to the start
LEAD_MAX_S: Final = 3.0
LEAD_FACTOR: Final = 2.0  # what a lane hears within one answer it may have to ask for again
LATE_S: Final = 0.1  # a lane that started so long after the moment was late

LaneState = Literal["waiting", "preparing", "ready", "started", "late", "dead"]


@dataclass(frozen=True, slots=True)
class Lane:
    """A pod, and what its run has of its own."""

    pod: str
    parameters: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Lanes that are submitted at once; `ready_s` bounds the wait for them, `limit_s` the time after it."""

    lanes: Sequence[Lane]
    ready_s: float
    limit_s: float
    budget_usd: float | None = None

    @property
    def slots(self) -> int:
        """How many slots a round has."""
        return len(self.lanes)

    @property
    def parallel(self) -> int:
        """How many members are held at once: all of them."""
        return len(self.lanes)

    @property
    def names(self) -> Sequence[str]:
        """The parameters that vary, in their order."""
        return list(dict.fromkeys(name for lane in self.lanes for name in lane.parameters))

    def values(self, index: int) -> Values:
        """Return the values of a slot, counted from the round's first."""
        return self.lanes[index].parameters

    def examples(self) -> Sequence[Values]:
        """Return the values of every slot, by which the plan is checked."""
        return [lane.parameters for lane in self.lanes]

    def stopped(self, members: Members) -> str | None:
        """Return None: no lane is held back for another."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """Where a lane stands: its run, and what its present attempt has said of the start.

    `ready_at` and `started_at` are moments of that attempt; `hears_s` is within which time it hears of the
    start. `start_at` is the moment that its run was told. The pod's clock was `offset_s` ahead of that of
    the store, `bound_s` more or less. It `is_left` where it was canceled while no pod held it.
    """

    slot: int
    run_id: str
    status: Status
    created_at: datetime
    start_at: datetime | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    hears_s: float = 0.0
    late_s: float = 0.0
    ready_late_s: float = 0.0
    offset_s: float | None = None
    bound_s: float | None = None
    log_open: bool = False
    is_left: bool = False

    @property
    def has_ended(self) -> bool:
        """Say whether nothing more is to come of it."""
        return self.status in FINAL or self.status is Status.AWAITING_HUMAN

    @property
    def is_ready(self) -> bool:
        """Say whether it waits for the start."""
        return self.status in LIVE and self.ready_at is not None

    @property
    def is_late(self) -> bool:
        """Say whether it started, and too late."""
        return self.ready_late_s > 0 or self.late_s >= LATE_S

    @property
    def has_moment(self) -> bool:
        """Say whether its run was told when to start, or will never ask."""
        return self.start_at is not None or self.has_ended


@dataclass(frozen=True, slots=True)
class Start:
    """The race starts so many seconds from now; `missing` are the slots that are not ready.

    It is not decided before `waits_until` by the clock of the store, which may have gone back lately.
    """

    lead_s: float
    reason: str
    missing: tuple[int, ...]
    waits_until: datetime | None = None


def next_start(race: Race, entrants: Sequence[Entrant], now: datetime) -> Start | None:
    """Decide on the start of a race whose lanes are submitted; None where it is to be waited for."""
    running = [each for each in entrants if not each.has_ended]
    if not running:
        return None
    missing = tuple(sorted(each.slot for each in running if not each.is_ready))
    until = min(each.created_at for each in entrants) + timedelta(seconds=race.ready_s) if missing else None
    if until is not None and now < until:
        return None
    hears_s = max((each.hears_s for each in running if each.is_ready), default=0.0)
    lead_s = min(LEAD_MAX_S, max(LEAD_MIN_S, LEAD_FACTOR * hears_s))
    dead = len(entrants) - len(running)
    reason = f"{len(running) - len(missing)} of {len(entrants)} lanes are ready"
    reason += f", {dead} ended before" if dead else ""
    reason += f"; {race.ready_s:g} s are over" if missing else ""
    return Start(lead_s, reason, missing, until)


def is_over(race: Race, start_at: datetime, now: datetime) -> bool:
    """Say whether the lanes that still run are given up."""
    return now >= start_at + timedelta(seconds=race.limit_s)


def state_of(entrant: Entrant | None, start_at: datetime | None, now: datetime) -> LaneState:
    """Return where a lane stands in its race.

    A lane is dead that ended before it started, or that no pod holds after the start; a pod may come back
    to it, late. Of one that has ended, what it said may still be on its way: it is not called dead before.
    """
    if entrant is None:
        return "waiting"
    if entrant.is_left:
        return "dead"
    is_held = entrant.status in LIVE or entrant.status is Status.CANCELING
    if entrant.started_at is not None and (is_held or entrant.has_ended):
        return "late" if entrant.is_late else "started"
    if entrant.has_ended and not entrant.log_open:
        return "dead"
    if start_at is not None and now >= start_at and not (entrant.is_ready or entrant.has_ended):
        return "late" if is_held else "dead"
    if entrant.ready_at is not None and (is_held or entrant.has_ended):
        return "ready"
    return "preparing" if is_held or entrant.has_ended else "waiting"


def skew_s(entrants: Sequence[Entrant]) -> float | None:
    """Return how far apart the lanes started that were in time; None for fewer than two."""
    found = [each.late_s for each in entrants if each.started_at is not None and not each.is_late]
    return max(found) - min(found) if len(found) > 1 else None


def race_of(plan: Mapping[str, Any]) -> Race:
    """Return the plan in a body or a document. Raises `Rejected` for one that cannot be carried out."""
    lanes = [Lane(each["pod"], each.get("parameters") or {}) for each in plan["lanes"]]
    if not LANES_MIN <= len(lanes) <= LANES_MAX:
        raise Rejected(
            "bad_plan", f"plan.lanes: a race has {LANES_MIN} to {LANES_MAX} lanes, not {len(lanes)}"
        )
    pods = [lane.pod for lane in lanes]
    if twice := sorted({pod for pod in pods if pods.count(pod) > 1}):
        raise Rejected("bad_plan", f"plan.lanes: {twice[0]!r} has two; a pod runs one lane")
    return Race(
        lanes=lanes, ready_s=plan["ready_s"], limit_s=plan["limit_s"], budget_usd=plan.get("budget_usd")
    )
