"""The time limits of an attempt, pure.

Law: only time in which the pipeline could work counts; an outage shifts every limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from events.kinds.declaring.spec import NO_PROGRESS_S, START_LIMIT_S, TIME_LIMIT_S
from pod_worker.child.exit_status import TimedOut


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one attempt, in seconds."""

    start_s: float
    total_s: float
    no_progress_s: float


@dataclass(frozen=True, slots=True)
class Lived:
    """The times of an attempt, in seconds; `heard_s` is that of its child's last frame, None for never."""

    total_s: float = 0.0
    heard_s: float | None = None


def bounds_of(spec: Mapping[str, Any]) -> Bounds:
    """Return the limits of a specification, or the defaults."""
    return Bounds(
        start_s=float(spec.get("start_limit_s") or START_LIMIT_S),
        total_s=float(spec.get("time_limit_s") or TIME_LIMIT_S),
        no_progress_s=float(spec.get("no_progress_s") or NO_PROGRESS_S),
    )


def exceeded(bounds: Bounds, lived: Lived) -> TimedOut | None:
    """Return the limit that was exceeded, or None."""
    if lived.total_s > bounds.total_s:
        return TimedOut("total", bounds.total_s)
    if lived.heard_s is None:
        return TimedOut("start", bounds.start_s) if lived.total_s > bounds.start_s else None
    if lived.total_s - lived.heard_s > bounds.no_progress_s:
        return TimedOut("no progress", bounds.no_progress_s)
    return None
