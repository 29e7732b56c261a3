"""Counts primes by three algorithms, in pieces that any number of threads share; pure but for the array.

Law: number `i` of a piece stands for the odd number 2 i + 1. Every algorithm gives the same count. A piece
takes a fraction of a second, so that whoever waits for it can stop soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SEGMENT: Final = 1 << 18  # flags of a byte: 256 KiB, which fits the second cache of a core
SEGMENTS_MAX: Final = 16  # of a piece
BLOCK: Final = 1 << 15  # candidates that are divided together
BLOCKS_MAX: Final = 2
STRETCH: Final = 1 << 26  # of the simple sieve's one array: more than any core's cache
STRIKES_MAX: Final = 1 << 23  # of a piece
PIECES_PER_THREAD: Final = 8
# pi(10^k), and those that other programs of this purpose check by.
KNOWN: Final = {
    **{
        10**power: count
        for power, count in enumerate(
            (0, 4, 25, 168, 1_229, 9_592, 78_498, 664_579, 5_761_455, 50_847_534, 455_052_511, 4_118_054_813)
        )
    },
    2_000_000: 148_933,
    20_000_000: 1_270_607,
    50_000_000: 3_001_134,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a count: odd numbers from `start` to before `stop`; `first` and `last` number base primes."""

    step: str
    start: int
    stop: int
    first: int = 0
    last: int = 0
    cost: float = 1.0

    @property
    def words(self) -> list[Any]:
        """Return it as a line of JSON has it."""
        return [self.step, self.start, self.stop, self.first, self.last]


def expected(n: int) -> int:
    """Return how many primes there are up to `n`: a known count, or one found without a sieve."""
    return KNOWN[n] if n in KNOWN else summed(n)


def summed(n: int) -> int:
    """Return how many primes there are up to `n`, in n^(3/4) steps.

    It counts the numbers that no prime up to p divides, for each n // i at once: the method of Legendre, in
    the form that "Lucy_Hedgehog" gave it (Project Euler, problem 10).
    """
    if n < 2:
        return 0
    root = isqrt(n)
    small = np.arange(-1, root, dtype=np.int64)  # small[v] is the count up to v, large[i] that up to n // i
    large = n // np.maximum(np.arange(root + 1, dtype=np.int64), 1) - 1
    for p in range(2, root + 1):
        if small[p] == small[p - 1]:
            continue
        before, square = int(small[p - 1]), p * p
        last = min(root, n // square)
        far = last if p > root else min(last, root // p)
        changed = large[p : far * p + 1 : p] - before
        near = n // (np.arange(far + 1, last + 1, dtype=np.int64) * p)
        rest = small[near] - before
        large[1 : far + 1] -= changed
        large[far + 1 : last + 1] -= rest
        if square <= root:
            values = np.arange(square, root + 1, dtype=np.int64) // p
            small[square:] -= small[values] - before
    return int(large[1])


def base_primes(n: int) -> Numbers:
    """Return the odd primes up to the root of `n`."""
    root = isqrt(n)
    flags = np.ones((root + 1) // 2, dtype=np.bool_)
    flags[:1] = False
    for i in range(1, (isqrt(root) + 1) // 2):
        if flags[i]:
            flags[2 * i * (i + 1) :: 2 * i + 1] = False
    return 2 * np.flatnonzero(flags) + 1


@dataclass(slots=True)
class Counter:
    """Does pieces of one count; the simple sieve alone has an `array`, with a byte for each odd number."""

    n: int
    array: Flags | None = None
    base: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.base = base_primes(self.n)

    def do(self, step: str, start: int, stop: int, first: int, last: int) -> int:
        """Do a piece; return the odd primes that it has counted, 0 where it counts none."""
        match step:
            case "sieve":
                return sum(self._sieved(low, min(low + SEGMENT, stop)) for low in range(start, stop, SEGMENT))
            case "divide":
                return sum(self._divided(low, min(low + BLOCK, stop)) for low in range(start, stop, BLOCK))
            case "fill":
                self._flags[start:stop] = True
            case "strike":
                self._strike(start, stop, first, last)
            case "count":
                return int(np.count_nonzero(self._flags[max(1, start) : stop]))
            case _:
                raise ValueError(f"there is no step {step!r}")
        return 0

    @property
    def _flags(self) -> Flags:
        assert self.array is not None, "only the simple sieve has these steps"
        return self.array

    def _struck(self, start: int, stop: int) -> Numbers:
        """Return the base primes whose squares lie before `stop`."""
        return self.base[: np.searchsorted(self.base * self.base, 2 * stop - 1, side="right")]

    def _sieved(self, start: int, stop: int) -> int:
        flags = np.ones(stop - start, dtype=np.bool_)
        flags[: max(0, 1 - start)] = False  # 1 is no prime
        _strike(flags, start, self._struck(start, stop))
        return int(np.count_nonzero(flags))

    def _strike(self, start: int, stop: int, first: int, last: int) -> None:
        _strike(self._flags[start:stop], start, self.base[first:last])

    def _divided(self, start: int, stop: int) -> int:
        left = 2 * np.arange(max(1, start), stop, dtype=np.uint32) + np.uint32(1)
        for p in self._struck(start, stop).tolist():
            left = left[(left % np.uint32(p) != 0) | (left == p)]
        return len(left)


def _strike(flags: Flags, start: int, primes: Numbers) -> None:
    """Clear odd multiples of primes, from their squares on; the first flag is that of 2 start + 1."""
    squares = primes * primes // 2
    offsets = np.where(squares > start, squares - start, (primes // 2 - start) % primes)
    for p, offset in zip(primes.tolist(), offsets.tolist(), strict=True):
        flags[offset::p] = False


@dataclass(frozen=True)
class Plan:
    """The steps of a count, each of pieces in any order; a step begins when the one before it has ended."""

    work: str
    n: int
    threads: int

    @cached_property
    def odds(self) -> int:
        """How many odd numbers there are up to n."""
        return (self.n + 1) // 2

    def steps(self) -> Iterator[list[Piece]]:
        """Yield the pieces of each step."""
        match self.work:
            case "segmented_sieve":
                yield self._even("sieve", SEGMENT, SEGMENTS_MAX)
            case "trial_division":
                yield self._even("divide", BLOCK, BLOCKS_MAX)
            case _:
                yield self._stretches("fill")
                yield list(self._strikes())
                yield self._stretches("count")

    def _even(self, step: str, unit: int, most: int) -> list[Piece]:
        units = -(-self.odds // unit)
        width = unit * max(1, min(most, units // (self.threads * PIECES_PER_THREAD)))
        return [
            Piece(step, low, min(low + width, self.odds), cost=min(width, self.odds - low))
            for low in range(0, self.odds, width)
        ]

    def _stretches(self, step: str) -> list[Piece]:
        return [
            Piece(step, low, min(low + self._stretch, self.odds), cost=self._stretch / 8)
            for low in range(0, self.odds, self._stretch)
        ]

    @property
    def _stretch(self) -> int:
        return max(1, min(STRETCH, -(-self.odds // self.threads)))

    def _strikes(self) -> Iterator[Piece]:
        base = base_primes(self.n)
        for start in range(0, self.odds, self._stretch):
            stop = min(start + self._stretch, self.odds)
            struck = base[: np.searchsorted(base * base, 2 * stop - 1, side="right")]
            costs = np.cumsum((stop - start) / struck + 1)
            first = 0
            while first < len(struck):
                before = float(costs[first - 1]) if first else 0.0
                last = max(first + 1, int(np.searchsorted(costs, before + STRIKES_MAX, side="right")))
                yield Piece("strike", start, stop, first, last, float(costs[last - 1]) - before)
                first = last
