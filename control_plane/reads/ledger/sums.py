"""Adds segments up under keys: a day, a pod, a run or a project, pure.

Law: milliseconds are added as whole numbers, so that the rows of a table sum to its total exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from control_plane.reads.ledger.segments import CLASSES, LOST, Class, Rate, Segment
from events.answers.fleet import LedgerRow, LedgerSpent

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000


@dataclass(slots=True)
class Row:
    """The milliseconds under one key, by class and rate."""

    parts: dict[tuple[Class, Rate], int] = field(default_factory=dict)

    def add(self, segment: Segment, ms: int) -> None:
        """Count a segment."""
        part = segment.of, segment.life.rate
        self.parts[part] = self.parts.get(part, 0) + ms

    @property
    def weight(self) -> tuple[int, int]:
        """The order of rows: GPU time, then time."""
        return sum(ms * gpus for (_, (gpus, _)), ms in self.parts.items()), sum(self.parts.values())

    def include(self, other: Row) -> None:
        """Count what another row has."""
        for part, ms in other.parts.items():
            self.parts[part] = self.parts.get(part, 0) + ms

    def answer(self, key: str, title: str | None = None) -> LedgerRow:
        """Return the row as it is told."""
        by_class: dict[str, LedgerSpent] = {of: self._spent({of}) for of in CLASSES}
        return LedgerRow(
            key=key,
            title=title,
            all=self._spent(set(CLASSES)),
            lost=self._spent(set(LOST)),
            classes=by_class,
        )

    def _spent(self, classes: set[Class]) -> LedgerSpent:
        parts = [(rate, ms) for (of, rate), ms in self.parts.items() if of in classes]
        priced = [usd * ms / HOUR_MS for (_, usd), ms in parts if usd is not None]
        return LedgerSpent(
            seconds=sum(ms for _, ms in parts) / 1000,
            gpu_seconds=sum(gpus * ms for (gpus, _), ms in parts) / 1000,
            cost_usd=sum(priced, 0.0) if priced or not parts else None,
        )


@dataclass(slots=True)
class Sums:
    """The rows of a table by their keys, and its total."""

    rows: dict[str, Row] = field(default_factory=dict)
    total: Row = field(default_factory=Row)

    def add(self, key: str, segment: Segment, ms: int) -> None:
        """Count a segment under a key."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = Row()
        row.add(segment, ms)
        self.total.add(segment, ms)


def summed(found: Iterable[Segment], key: Callable[[Segment], str]) -> Sums:
    """Return the sums of segments under the keys that `key` gives them."""
    sums = Sums()
    for segment in found:
        sums.add(key(segment), segment, segment.until - segment.since)
    return sums


def summed_by_day(found: Iterable[Segment]) -> Sums:
    """Return the sums of segments by the days, in UTC, in which they lie."""
    sums = Sums()
    for segment in found:
        for day, ms in days(segment.since, segment.until):
            sums.add(day, segment, ms)
    return sums


def days(since: int, until: int) -> Iterator[tuple[str, int]]:
    """Yield the days of a stretch of time, with the milliseconds that are in each."""
    while since < until:
        number = since // DAY_MS
        end = min(until, (number + 1) * DAY_MS)
        yield f"{datetime.fromtimestamp(number * DAY_MS / 1000, UTC):%Y-%m-%d}", end - since
        since = end
