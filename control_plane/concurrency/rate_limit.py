"""A rate limit: a token bucket for each name, in this process."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from events.runtime.clock import Clock
from events.runtime.errors import Rejected

NAMES_MAX: Final = 10_000


class RateLimited(Rejected):
    """A rate limit was exceeded."""

    def __init__(self, what: str, wait_s: float) -> None:
        super().__init__("throttled", f"{what}; wait a moment")
        self.retry_after_s = wait_s


@dataclass(slots=True)
class RateLimit:
    """Allows `burst` at once and one more each `every_s` seconds, to each name."""

    clock: Clock
    burst: int
    every_s: float
    _full_at: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def wait_s(self, name: str, count: int = 1) -> float:
        """Count so many more and return 0; or return after how many seconds they are allowed, uncounted."""
        now_s = self.clock.monotonic_s()
        full_at = max(now_s, self._full_at.get(name, now_s)) + count * self.every_s
        excess_s = full_at - now_s - self.burst * self.every_s
        if excess_s > 0:
            return excess_s
        self._full_at[name] = full_at
        self._full_at.move_to_end(name)
        while len(self._full_at) > NAMES_MAX:
            self._full_at.popitem(last=False)
        return 0.0
