"""Which trials of a study are the best, by what all their runs measured; pure.

Law: where trials run again, one counts by the worse end of the 95 % t interval of its mean, and one that
ran once is behind each that ran more often: one lucky run is no proof. Of two goals the best are the Pareto
front.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite, sqrt

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.trials import Outcome
from control_plane.model.views.boards.interval import Mean, mean_of, t_reach


@dataclass(frozen=True, slots=True)
class Difference:
    """How much higher one mean is than another, and the ends of its 95 % interval (Welch).

    These are None where one of the two has a single run, or where they are beyond all numbers.
    """

    value: float
    low: float | None = None
    high: float | None = None


def ranked(outcomes: Sequence[Outcome], goal: Goal, *, by_bound: bool) -> list[Outcome]:
    """Return the trials that may be the best, the best first, of equals the earliest."""
    sign = 1 if goal.is_lower_better else -1

    def place(each: Outcome) -> tuple[bool, float]:
        mean = mean_of(each.numbers[0])
        end = mean.high if goal.is_lower_better else mean.low
        if not by_bound or end is None:
            return by_bound, sign * mean.mean
        return False, sign * end

    return sorted((each for each in outcomes if each.best is not None), key=place)


def front(outcomes: Sequence[Outcome], goals: Sequence[Goal]) -> list[Outcome]:
    """Return the trials that none surpasses in one of two goals without being worse in the other."""
    found = Front(goals)
    for each in outcomes:
        found.add(each)
    return sorted(found.outcomes, key=lambda each: each.slots[0])


@dataclass(slots=True)
class Front:
    """The Pareto front of two goals, in the order of the first: its numbers grow, those of the second fall.

    Both are kept so that lower is better.
    """

    goals: Sequence[Goal]
    firsts: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, new: Outcome) -> bool:
        """Take in a trial, and say whether it belongs there."""
        if new.best is None:
            return False
        pairs = zip(new.means, self.goals, strict=True)
        first, second = (mean if goal.is_lower_better else -mean for mean, goal in pairs)
        before = bisect_right(self.firsts, first)
        if before and self.seconds[before - 1] <= second:  # as good in both goals
            return False
        start = bisect_left(self.firsts, first)
        until = start
        while until < len(self.seconds) and self.seconds[until] >= second:
            until += 1
        self.firsts[start:until], self.seconds[start:until] = [first], [second]
        self.outcomes[start:until] = [new]
        return True


def mean_with_interval(outcome: Outcome, place: int) -> Mean:
    """Return what a trial measured of the goal at a place, with the interval over its runs."""
    return mean_of(outcome.numbers[place])


def difference(one: Sequence[float], other: Sequence[float]) -> Difference:
    """Return the difference of two means with its interval, for which the variances may differ."""
    value = mean_of(one).mean - mean_of(other).mean
    if min(len(one), len(other)) < 2:
        return Difference(value)
    scale = max(*map(abs, one), *map(abs, other)) or 1.0  # squares of large numbers are beyond all numbers
    parts = [_error(each, scale) for each in (one, other)]
    error = fsum(parts)
    if error == 0:
        return Difference(value, value, value)
    weights = [part**2 / (len(each) - 1) for part, each in zip(parts, (one, other), strict=True)]
    if (total := fsum(weights)) == 0:  # they differ by less than what has a square
        return Difference(value, value, value)
    reach = t_reach(max(1, int(error**2 / total))) * sqrt(error) * scale
    low, high = value - reach, value + reach
    return Difference(value, low, high) if isfinite(low) and isfinite(high) else Difference(value)


def _error(numbers: Sequence[float], scale: float) -> float:
    """Return the square of the standard error of a mean, in units of the scale."""
    parts = [each / scale for each in numbers]
    middle = fsum(parts) / len(parts)
    return fsum((each - middle) ** 2 for each in parts) / (len(parts) - 1) / len(parts)
