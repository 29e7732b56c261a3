"""A cron entry in plain language, as its library explains it, pure.

Law: equal words mean equal times. Where one of two day fields names every day, either is enough, and the
library's words leave that out: the entry is told as every day.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from cronsim import CronSim

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAYS: Final = frozenset(range(1, 32))
WEEKDAYS: Final = frozenset(range(7))


def cron_words(entry: str) -> str:
    """Return when a checked entry of five fields fires, as a sentence without its full stop."""
    fires = CronSim(entry, EPOCH)
    is_any = (
        set(fires.days) >= DAYS or {day % 7 for day in fires.weekdays if isinstance(day, int)} >= WEEKDAYS
    )
    if is_any and not fires.day_and:
        minute, hour, _, month, _ = entry.split()
        fires = CronSim(f"{minute} {hour} * {month} *", EPOCH)
    return fires.explain().replace("day of month and on", "day of month and also on")
