"""The pace of a stage and its estimated end, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

STEPS_MIN: Final = 2  # from fewer nothing can be said
STEPS_MAX: Final = 10  # the moving average is over the last ones
STALE_FACTOR: Final = 3.0
SILENT_S: Final = 60.0
LEFT_MAX_S: Final = 365 * 86_400.0  # what is further away is not told


@dataclass(frozen=True, slots=True)
class Pace:
    """The estimate for a running stage: the seconds left, or why they are not known."""

    left_s: float | None
    why: str


def pace(steps: Sequence[Mapping[str, Any]], started_at: datetime | None, now: datetime) -> Pace:
    """Return the pace of a stage by its progress events (`at` and `progress`), oldest first.

    The average is over the last `STEPS_MAX` advances. A stage that has stood still for three
    times as long as a step took has no estimate.
    """
    moves: list[tuple[datetime, float]] = [] if started_at is None else [(started_at, 0.0)]
    for step in steps:
        if not moves or step["progress"] > moves[-1][1]:
            moves.append((step["at"], float(step["progress"])))
    recent = moves[-STEPS_MAX - 1 :]
    if len(recent) < STEPS_MIN:
        waited = None if started_at is None else (now - started_at).total_seconds()
        return Pace(None, _nothing_yet(waited))
    (first_at, first), (last_at, last) = recent[0], recent[-1]
    if last >= 1.0:
        return Pace(None, "its steps are done; how long the rest takes is not known")
    took_s = (last_at - first_at).total_seconds()
    stood_s = (now - last_at).total_seconds()
    if took_s <= 0:
        return Pace(None, "it has just started")
    step_s = took_s / (len(recent) - 1)
    if stood_s > max(SILENT_S, STALE_FACTOR * step_s):
        return Pace(None, f"no step forward for {stood_s:.0f} s; until then one came every {step_s:.0f} s")
    left_s = (1.0 - last) / (last - first) * took_s - stood_s  # infinite after the least of steps
    if left_s > LEFT_MAX_S:
        return Pace(None, "at its pace it would take more than a year")
    return Pace(max(0.0, left_s), f"by its last {len(recent) - 1} steps")


def _nothing_yet(waited_s: float | None) -> str:
    since = "" if waited_s is None else f" in {waited_s:.0f} s"
    return f"no step of this stage is finished yet{since}; the estimate follows after the first"
