"""A set of positive whole numbers as intervals: a stored number may be huge, and is never counted to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Span = tuple[int, int]  # first and last, both included
SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """Numbers as ascending ranges that do not touch."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span]) -> IntervalSet:
        """Return the numbers of some ranges, in any order, which may overlap."""
        merged: list[Span] = []
        for first, last in sorted(spans):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @property
    def last(self) -> int:
        """The greatest number, 0 without any."""
        return self.spans[-1][1] if self.spans else 0

    def gaps(self, after: int, up_to: int) -> IntervalSet:
        """Return the numbers that are missing beyond `after`, up to `up_to`."""
        missing: list[Span] = []
        known = after
        for first, last in self.spans[self._place(after) :]:
            if first > up_to:
                break
            if first > known + 1:
                missing.append((known + 1, first - 1))
            known = last
        if known < up_to:
            missing.append((known + 1, up_to))
        return IntervalSet(tuple(missing))

    def above(self, number: int) -> IntervalSet:
        """Return the numbers greater than `number`."""
        spans = self.spans[self._place(number) :]
        return IntervalSet(tuple((max(first, number + 1), last) for first, last in spans))

    def last_contiguous(self, after: int) -> int:
        """Return the last number that follows `after` without a gap, `after` itself where none does."""
        spans = self.spans[self._place(after) :]
        return spans[0][1] if spans and spans[0][0] <= after + 1 else after

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.spans, (number, number))
        near = self.spans[max(place - 1, 0) : place + 1]
        return any(first <= number <= last for first, last in near)

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __str__(self) -> str:
        """Return numbers as people write them: 3, 5–7; the first twenty ranges of many."""
        shown = [str(first) if first == last else f"{first}–{last}" for first, last in self.spans[:SHOWN_MAX]]
        more = len(self.spans) - SHOWN_MAX
        return ", ".join(shown) + (f" and {more:,} more ranges" if more > 0 else "")

    def _place(self, number: int) -> int:
        """Return the index of the first range that goes beyond `number`."""
        return bisect_left(self.spans, number + 1, key=lambda span: span[1])
