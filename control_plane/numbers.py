"""The fleet's numbers of today and of the days before, in words that pages and scrapes share.

A day is one of UTC, and by the store's arrival, so a day that is over never changes: each replica
sums it up once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from control_plane.lags import Lags, lags
from control_plane.store.numbers import NumberReads
from events.clock import Clock
from events.lifecycle import FINAL, Status

DAYS_SHOWN: Final = 14
DAYS_KEPT: Final = 40
# Events are stamped before they are stored: what came in at midnight may be there a little later.
SETTLED_AFTER: Final = timedelta(minutes=5)
GOOD: Final = FINAL - {Status.FAILED, Status.CANCELED}


@dataclass(frozen=True, slots=True)
class Day:
    """What was spent and ended on one day; `is_partial` where there was more than is read."""

    start: datetime
    gpu_hours: float
    cost_usd: float
    finished: int
    failed: int
    canceled: int
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """Today, and how far everything lags."""

    today: Day
    letters: Mapping[str, int]
    lags: Lags


@dataclass(frozen=True, slots=True)
class Accounts:
    """Sums days up; the days that are over are remembered."""

    reads: NumberReads
    clock: Clock
    _over: dict[datetime, Day] = field(default_factory=dict)

    async def now(self) -> Numbers:
        """Return the numbers of this moment."""
        return Numbers(
            today=await self.today(),
            letters=await self.reads.letters(midnight(self.clock.now())),
            lags=lags(await self.reads.open_logs()),
        )

    async def today(self) -> Day:
        """Return what this day has brought so far."""
        return await self.day(midnight(self.clock.now()))

    async def days(self, count: int = DAYS_SHOWN) -> Sequence[Day]:
        """Return the last days, today last."""
        today = midnight(self.clock.now())
        return [await self.day(today - timedelta(days=back)) for back in range(count - 1, -1, -1)]

    async def day(self, start: datetime) -> Day:
        """Return what was spent and ended on the day that begins then."""
        if (known := self._over.get(start)) is not None:
            return known
        end = start + timedelta(days=1)
        is_over = self.clock.now() > end + SETTLED_AFTER
        spent, ended = await self.reads.spent(start, end), await self.reads.ended(start, end)
        day = Day(
            start=start,
            gpu_hours=spent.gpu_s / 3600,
            cost_usd=spent.cost_usd,
            finished=sum(count for status, count in ended.items() if status in GOOD),
            failed=ended.get(Status.FAILED, 0),
            canceled=ended.get(Status.CANCELED, 0),
            is_partial=spent.is_partial,
        )
        if is_over:
            self._over[start] = day
            for old in sorted(self._over)[:-DAYS_KEPT]:
                del self._over[old]
        return day


def midnight(now: datetime) -> datetime:
    """Return the beginning of the day, in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
