"""Time, ids and chance as arguments.

Code that decides takes moments; code that acts takes these ports. The system versions
here are the only place that reads the machine's clock or its source of randomness.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from ulid import ULID


class Clock(Protocol):
    """Moments of the wall clock, seconds of the monotonic clock, interruptible waits."""

    def now(self) -> datetime: ...

    def monotonic_s(self) -> float: ...

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        """Return True as soon as `flag` is set, else False after `seconds`."""
        ...


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment, by the wall clock and by the monotonic clock."""

    now: datetime
    monotonic_s: float

    def elapsed_s(self, since: Instant) -> float:
        """Return the seconds since an earlier moment, by the clock that moved more.

        The monotonic clock stands still while a virtual machine is paused, and the wall clock may be set back
        by hand. A caller that may not be late uses the greater of both.
        """
        return max(self.monotonic_s - since.monotonic_s, (self.now - since.now).total_seconds())


def instant(clock: Clock) -> Instant:
    """Return this moment."""
    return Instant(clock.now(), clock.monotonic_s())


class Ids(Protocol):
    """Fresh identifiers, secrets and chance."""

    def ulid(self) -> str: ...

    def token(self) -> str:
        """Return 256 random bits as URL-safe text."""
        ...

    def fraction(self) -> float:
        """Return a random number in [0, 1), for jitter."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        return flag.wait(max(0.0, seconds))


class SystemIds:
    """The operating system's randomness."""

    def ulid(self) -> str:
        return str(ULID())

    def token(self) -> str:
        return secrets.token_urlsafe(32)

    def fraction(self) -> float:
        return secrets.randbelow(1 << 30) / (1 << 30)


def timestamp(moment: datetime) -> str:
    """Return `moment` (UTC) as RFC 3339 text with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
