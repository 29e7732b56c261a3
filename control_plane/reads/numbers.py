"""The fleet's numbers of today and of earlier days, for pages and for `/metrics`.

A day is one of UTC, by the store's time of arrival. Numbers that are some minutes old never change, so each
replica sums a day up once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from control_plane.model.positions.lag import Lags, lags
from control_plane.model.presentation import finite
from control_plane.store.numbers import Deliveries, NumberReads, Overdue
from events.lifecycle import FINAL, Status
from events.runtime.clock import Clock

DAYS_SHOWN: Final = 14
DAYS_KEPT: Final = 40
# Events are stamped before they are stored: what came in at midnight may be there a little later.
SETTLED_AFTER: Final = timedelta(minutes=5)
STEP_MIN: Final = timedelta(minutes=1)  # what is settled is kept in steps, not at every look
REPORTED_WITHIN: Final = timedelta(minutes=1)
GOOD: Final = FINAL - {Status.FAILED, Status.CANCELED}


@dataclass(frozen=True, slots=True)
class Day:
    """Costs and ended runs of one day; `is_partial` if there were more than the read limit."""

    start: datetime
    gpu_hours: float
    cost_usd: float
    finished: int
    failed: int
    canceled: int
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of today, and the lag of log and documents."""

    today: Day
    dead_letters: Mapping[str, int]
    lags: Lags


@dataclass(frozen=True, slots=True)
class Shortage:
    """What stands and should not, and how much room there is."""

    overdue: Overdue
    deliveries: Deliveries
    store_free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Accounts:
    """Computes the numbers of days; what can no longer change is cached."""

    reads: NumberReads
    clock: Clock
    _settled: dict[datetime, tuple[datetime, Day]] = field(default_factory=dict)  # up to when, by their start

    async def now(self) -> Numbers:
        """Return the numbers of this moment."""
        dead_letters = self.reads.dead_letters(midnight(self.clock.now()))
        today, refused, looks = await asyncio.gather(self.today(), dead_letters, self.reads.open_logs())
        return Numbers(today, refused, lags(looks))

    async def shortage(self) -> Shortage:
        """Return what stands and should not at this moment."""
        reads, since = self.reads, self.clock.now() - REPORTED_WITHIN
        return Shortage(
            *await asyncio.gather(reads.overdue(), reads.deliveries(since), reads.disk_free_bytes())
        )

    async def today(self) -> Day:
        """Return the numbers of this day so far."""
        return await self.day(midnight(self.clock.now()))

    async def days(self, count: int = DAYS_SHOWN) -> Sequence[Day]:
        """Return the last days, today last."""
        today = midnight(self.clock.now())
        return [await self.day(today - timedelta(days=back)) for back in range(count - 1, -1, -1)]

    async def day(self, start: datetime) -> Day:
        """Return the costs and the ended runs of the day that begins at `start`."""
        end = start + timedelta(days=1)
        until, day = self._settled.get(start, (start, Day(start, 0.0, 0.0, 0, 0, 0)))
        settled = min(end, self.clock.now() - SETTLED_AFTER)
        if settled - until >= STEP_MIN or until < settled == end:
            day, until = await self._with(day, until, settled), settled
            self._settled[start] = (until, day)
            for old in sorted(self._settled)[:-DAYS_KEPT]:
                del self._settled[old]
        return day if until == end else await self._with(day, until, end)

    async def _with(self, day: Day, since: datetime, until: datetime) -> Day:
        """Return the day plus the numbers of a further interval of it."""
        spent, ended = await self.reads.spent(since, until), await self.reads.ended(since, until)
        return Day(
            start=day.start,
            gpu_hours=finite(day.gpu_hours + spent.gpu_s / 3600),
            cost_usd=finite(day.cost_usd + spent.cost_usd),
            finished=day.finished + sum(count for status, count in ended.items() if status in GOOD),
            failed=day.failed + ended.get(Status.FAILED, 0),
            canceled=day.canceled + ended.get(Status.CANCELED, 0),
            is_partial=day.is_partial or spent.is_partial,
        )


def midnight(now: datetime) -> datetime:
    """Return the beginning of the day, in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
