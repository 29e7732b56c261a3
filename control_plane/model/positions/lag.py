"""How far the log is behind the pods, and the documents behind the log, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from events.codec import moment


@dataclass(frozen=True, slots=True)
class Look:
    """The log of a run that is open: its newest event, its stored and its applied position."""

    run_id: str
    emitted_at: str | None
    received_at: datetime | None
    stored: int
    applied: int


@dataclass(frozen=True, slots=True)
class Lags:
    """The lags over the runs that were read; None without any event."""

    looked_at: int
    ingest_median_s: float | None
    ingest_max_s: float | None
    events_behind: int
    runs_behind: int


def lags(looks: Sequence[Look]) -> Lags:
    """Return the lags over the given runs; a pod whose clock is ahead counts as on time."""
    waits = [wait for look in looks if (wait := _ingest_s(look)) is not None]
    behind = [look.stored - look.applied for look in looks if look.stored > look.applied]
    return Lags(
        looked_at=len(looks),
        ingest_median_s=median(waits) if waits else None,
        ingest_max_s=max(waits, default=None),
        events_behind=sum(behind),
        runs_behind=len(behind),
    )


def _ingest_s(look: Look) -> float | None:
    emitted_at = None if look.emitted_at is None else moment(look.emitted_at)
    if emitted_at is None or look.received_at is None:
        return None
    return max(0.0, (look.received_at - emitted_at).total_seconds())
