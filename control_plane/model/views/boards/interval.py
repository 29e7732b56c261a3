"""The mean of several numbers with its 95 % t interval, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import atan, cos, fsum, isfinite, pi, sin, sqrt
from typing import Final

METHOD: Final = "mean with a 95 % t interval over the runs of the cell; one run has no interval"
LEVEL: Final = 0.95
EXACT_MAX: Final = 200  # degrees of freedom; beyond it the expansion is exact to nine digits
_NORMAL: Final = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of `count` numbers, and the ends of its interval.

    These are None for one number, and where they are beyond all numbers.
    """

    mean: float
    count: int
    low: float | None = None
    high: float | None = None


def mean_of(numbers: Sequence[float]) -> Mean:
    """Return the mean of at least one number, none of them infinite."""
    count = len(numbers)
    scale = max(map(abs, numbers)) or 1.0
    # squares of large numbers are beyond what a number can be
    parts = [each / scale for each in numbers]
    middle = fsum(parts) / count
    mean = min(max(middle * scale, min(numbers)), max(numbers))
    if count == 1:
        return Mean(mean, 1)
    variance = fsum((each - middle) ** 2 for each in parts) / (count - 1)
    reach = t_reach(count - 1) * sqrt(variance / count) * scale
    low, high = mean - reach, mean + reach
    return Mean(mean, count, low, high) if isfinite(low) and isfinite(high) else Mean(mean, count)


@lru_cache(maxsize=1024)
def t_reach(freedom: int) -> float:
    """Return how many standard errors the interval reaches to either side."""
    if freedom > EXACT_MAX:
        return _expanded(freedom)
    low, high = 0.0, 16.0  # 12.7 is the largest
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, freedom) < LEVEL:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    """Return the probability that Student's t is within `t` of zero: its sum for whole degrees of freedom."""
    angle = atan(t / sqrt(freedom))
    square = cos(angle) ** 2
    term = cos(angle) if freedom % 2 else 1.0
    total = 0.0
    for each in range(1 + freedom % 2, freedom, 2):
        total += term
        term *= square * each / (each + 1)
    if freedom % 2:
        return (angle + sin(angle) * total) * 2 / pi
    return sin(angle) * total


def _expanded(freedom: int) -> float:
    """Return the quantile by its expansion around the normal one (Cornish and Fisher)."""
    z = _NORMAL
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))
