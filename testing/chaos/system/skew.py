"""A machine's clock that is wrong: off, drifting, and set to another time while programs run."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from events.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """Shows `offset_s` more than the machine's wall clock; both hands run `rate` times as fast.

    Whoever writes a number into `set_by` sets the wall clock by that many seconds. A rate beyond the margin
    of a lease (one part in twelve) breaks what any lease can promise.
    """

    true: Clock
    offset_s: float
    rate: float
    since: datetime
    since_s: float
    set_by: Path | None = None

    def now(self) -> datetime:
        passed_s = (self.true.now() - self.since).total_seconds() * self.rate
        return self.since + timedelta(seconds=self.offset_s + passed_s + self._set_s())

    def monotonic_s(self) -> float:
        return self.since_s + (self.true.monotonic_s() - self.since_s) * self.rate

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        return self.true.wait(flag, seconds / self.rate)

    def _set_s(self) -> float:
        if self.set_by is None or not self.set_by.exists():
            return 0.0
        return float(self.set_by.read_text())


def skewed(
    true: Clock, *, offset_s: float = 0.0, rate: float = 1.0, set_by: Path | None = None
) -> SkewedClock:
    """Return a clock that goes wrong from now on."""
    return SkewedClock(true, offset_s, rate, true.now(), true.monotonic_s(), set_by)


def set_clock(file: Path, seconds: float) -> None:
    """Set the clock that goes by this file; a reader sees the old number or the new one."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(seconds))
    fresh.rename(file)
