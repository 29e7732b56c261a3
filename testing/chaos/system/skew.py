"""A pod's clock that is wrong: set off by hours, and drifting."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """Shows `offset_s` more than the machine's wall clock; both hands run `rate` times as fast.

    A rate beyond the margin of a lease (one part in twelve) breaks what any lease can promise.
    """

    true: Clock
    offset_s: float
    rate: float
    since: datetime
    since_s: float

    def now(self) -> datetime:
        return self.since + timedelta(
            seconds=self.offset_s + (self.true.now() - self.since).total_seconds() * self.rate
        )

    def monotonic_s(self) -> float:
        return self.since_s + (self.true.monotonic_s() - self.since_s) * self.rate

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        return self.true.wait(flag, seconds / self.rate)


def skewed(true: Clock, *, offset_s: float, rate: float) -> SkewedClock:
    """Return a clock that goes wrong from now on."""
    return SkewedClock(true, offset_s, rate, true.now(), true.monotonic_s())
