"""Numbers as ranges, however many and however large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.positions.interval_set import SHOWN_MAX, IntervalSet

SPANS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 6)).map(lambda span: (span[0], sum(span))))


def numbers(ranges: IntervalSet) -> set[int]:
    return {number for first, last in ranges.spans for number in range(first, last + 1)}


@given(SPANS, st.integers(0, 40), st.integers(0, 40))
def test_ranges_say_of_each_number_what_a_set_does(
    spans: list[tuple[int, int]], after: int, up_to: int
) -> None:
    held = {number for first, last in spans for number in range(first, last + 1)}
    ranges = IntervalSet.of(spans)
    assert numbers(ranges) == held
    assert ranges.last == max(held, default=0)
    assert bool(ranges) is bool(held)
    assert numbers(ranges.gaps(after, up_to)) == set(range(after + 1, up_to + 1)) - held
    assert numbers(ranges.above(after)) == {number for number in held if number > after}
    assert (after in ranges) is (after in held)
    reached = after
    while reached + 1 in held:
        reached += 1
    assert ranges.last_contiguous(after) == reached
    for (_, last), (first, _) in zip(ranges.spans, ranges.spans[1:], strict=False):
        assert first > last + 1


@pytest.mark.timeout(60)
def test_nothing_is_counted_to() -> None:
    far = IntervalSet.of([(1, 2), (2**53, 2**53)])
    assert far.gaps(0, 2**60).spans == ((3, 2**53 - 1), (2**53 + 1, 2**60))
    assert far.above(1).spans == ((2, 2), (2**53, 2**53))
    assert 2**52 not in far


def test_of_many_ranges_the_first_are_shown() -> None:
    shown = str(IntervalSet.of((2 * number, 2 * number) for number in range(1, 100_000)))
    assert shown.startswith("2, 4, 6")
    assert shown.endswith(f", {2 * SHOWN_MAX} and {99_999 - SHOWN_MAX:,} more ranges")
