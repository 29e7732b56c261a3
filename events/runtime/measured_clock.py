"""The clock of another machine, as measured from here: the store's, or the storage's.

Law: between two measurements only the monotonic clock counts. A jump of this machine's own clock changes
nothing; a jump of the other clock counts from the next measurement on.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from events.runtime.clock import Clock

DRIFT: Final = 1e-3  # seconds by which two clocks may part in a second
MILLISECOND_S: Final = 1e-3  # MongoDB tells no less
SECOND_S: Final = 1.0  # an HTTP header tells no less
ALARM_S: Final = 2.0  # an offset that people are told of
THE_STORES: Final = "the store's"
THE_STORAGES: Final = "the storage's"
CLAIMS_MAX_S: Final = 60.0  # an offset with which a pod claims no run


@dataclass(frozen=True, slots=True)
class Measured:
    """At `at_s` of the monotonic clock the other clock showed `moment`, `bound_s` more or less."""

    moment: datetime
    bound_s: float
    at_s: float

    def after(self, at_s: float) -> datetime:
        """Return what the other clock shows at a later second."""
        return self.moment + timedelta(seconds=at_s - self.at_s)

    def bound_after(self, at_s: float) -> float:
        """Return how far off that may be."""
        return self.bound_s + DRIFT * (at_s - self.at_s)


def measured(moment: datetime, *, asked_s: float, answered_s: float, unit_s: float) -> Measured:
    """Return what an answer proves that told `moment`, in whole units, at a time between the two seconds."""
    bound_s = (answered_s - asked_s + unit_s) / 2
    return Measured(moment + timedelta(seconds=unit_s / 2), bound_s, (asked_s + answered_s) / 2)


def joined(known: Measured | None, new: Measured) -> Measured:
    """Return what both measurements allow; the new one, where they contradict: a clock has jumped."""
    if known is None:
        return new
    apart_s = (known.after(new.at_s) - new.moment).total_seconds()
    known_s = known.bound_after(new.at_s)
    low_s, high_s = max(-new.bound_s, apart_s - known_s), min(new.bound_s, apart_s + known_s)
    if low_s > high_s:
        return new
    return Measured(new.moment + timedelta(seconds=(low_s + high_s) / 2), (high_s - low_s) / 2, new.at_s)


@dataclass(slots=True)
class MeasuredClock:
    """A clock that shows the other machine's moment; before the first measurement it shows this one's."""

    machine: Clock
    known: Measured | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> datetime:
        known = self.known
        return self.machine.now() if known is None else known.after(self.machine.monotonic_s())

    def monotonic_s(self) -> float:
        return self.machine.monotonic_s()

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        return self.machine.wait(flag, seconds)

    def note(self, moment: datetime, *, asked_s: float, unit_s: float = MILLISECOND_S) -> None:
        """Take a measurement: the answer to what was asked at `asked_s` is here, and tells `moment`."""
        new = measured(moment, asked_s=asked_s, answered_s=self.machine.monotonic_s(), unit_s=unit_s)
        with self._lock:
            self.known = joined(self.known, new)

    @property
    def machine_ahead_s(self) -> float | None:
        """By how much this machine's clock is ahead of the other one; None before the first measurement."""
        known = self.known
        if known is None:
            return None
        return (self.machine.now() - known.after(self.machine.monotonic_s())).total_seconds()


def ahead_words(ahead_s: float, whose: str) -> str:
    """Say how far a clock is ahead of another, whose it is: `3,600 s ahead of the store's`."""
    if abs(ahead_s) < ALARM_S:
        return f"within {ALARM_S:.0f} s of {whose}"
    return f"{abs(ahead_s):,.0f} s {'ahead of' if ahead_s > 0 else 'behind'} {whose}"
