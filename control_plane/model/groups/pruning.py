"""When a member of a study is ended before its time: by what it measures beside the members before it, pure.

The rule is the median stopping rule of Vizier (Golovin et al., "Google Vizier: A Service for Black-Box
Optimization", KDD 2017, section 3.2.1), with any percentile: a member is stopped at a step where its best
value so far is worse than the means, each up to that step, of so many of the members that have succeeded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from math import floor, isfinite
from typing import Any, Final

from events.kinds.results import WHOLE_MAX

METRIC: Final = r"^(min|max):[^\x00-\x1f]{1,200}$"  # names of metrics are not declared
PEERS_MAX: Final = 100  # members that one is compared with, the newest
POINTS_MAX: Final = 1_000  # of a curve
VALUE_MAX: Final = 1e300  # a sum of thousands of them is a number, too

Points = Sequence[tuple[float, float]]  # a step and its value, each step once, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The rule: `metric` of the log is compared, from the step `after_step` on, with `min_members` others.

    A member goes on while its best value is as good as the means of the best `keep_percent` of them.
    """

    metric: str
    is_lower_better: bool
    keep_percent: float
    after_step: int
    min_members: int

    def stop(self, member: Points, others: Sequence[Points]) -> Stop | None:
        """Return where and why a member stops; None while it goes on.

        `others` are the running means of members that have succeeded.
        """
        if not member or member[-1][0] < self.after_step:
            return None
        step, value = member[-1]
        means = [mean for each in others if (mean := _at(each, step)) is not None]
        if len(means) < self.min_members:
            return None
        best = (min if self.is_lower_better else max)(value for _, value in member)
        bound = _percentile(sorted(means, reverse=not self.is_lower_better), self.keep_percent)
        if not (best > bound if self.is_lower_better else best < bound):
            return None
        return Stop(metric=self.metric, step=int(step), value=value, bound=bound, members=len(means))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a member was pruned: the last value of `metric`, and the `bound` that `members` others gave."""

    metric: str
    step: int
    value: float
    bound: float
    members: int

    def __str__(self) -> str:
        return (
            f"{self.metric} was {self.value:.4g} at step {self.step}, and never as good as {self.bound:.4g}, "
            f"the mark of {self.members} members before it"
        )

    def stored(self) -> dict[str, Any]:
        """Return it as a run keeps it."""
        return asdict(self)


def _percentile(ranked: Sequence[float], percent: float) -> float:
    """Return the value at this percentile, between two of them by their distance."""
    place = (len(ranked) - 1) * percent / 100
    low = min(floor(place), len(ranked) - 1)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def _at(points: Points, step: float) -> float | None:
    """Return the last value up to a step; None where they begin later."""
    count = bisect_right(points, step, key=lambda each: each[0])
    return points[count - 1][1] if count else None


@dataclass(slots=True)
class Curve:
    """A metric of an attempt, as far as it was read: up to `position`; `is_whole` where no more is to come.

    As on a chart, a step that is said again has its later value, and what has no step is numbered. Of a long
    curve every second point is kept.
    """

    position: str = ""
    is_whole: bool = False
    count: int = 0
    values: dict[float, float] = field(default_factory=dict)
    points: Points = ()
    means: Points = ()

    def add(self, said: Iterable[tuple[Any, Any]]) -> None:
        """Take in further steps and values, in the order in which they were said."""
        for step, value in said:
            if isinstance(value, int | float) and isfinite(value):
                at = self.count if step is None else max(-WHOLE_MAX, min(WHOLE_MAX, step))
                self.values[float(at)] = max(-VALUE_MAX, min(VALUE_MAX, float(value)))
                self.count += 1
        ordered = sorted(self.values.items())
        while len(ordered) > POINTS_MAX:
            ordered = ordered[::2]
        self.values, self.points = dict(ordered), ordered
        sums = accumulate(value for _, value in ordered)
        self.means = [
            (step, total / number)
            for number, ((step, _), total) in enumerate(zip(ordered, sums, strict=True), 1)
        ]


def stop_of(run: Mapping[str, Any]) -> Stop | None:
    """Return where a stored run was pruned; None where it was not, or what stands there is unreadable."""
    try:
        stored: Any = run["cancelRequested"]["pruned"]
        return Stop(
            metric=str(stored["metric"]),
            step=int(stored["step"]),
            value=float(stored["value"]),
            bound=float(stored["bound"]),
            members=int(stored["members"]),
        )
    except (TypeError, KeyError, ValueError, OverflowError):
        return None


def pruning_of(plan: Mapping[str, Any]) -> Pruning | None:
    """Return the rule in a plan; None without one."""
    wanted = plan.get("prune")
    if wanted is None:
        return None
    direction, _, metric = wanted["by"].partition(":")
    return Pruning(
        metric=metric,
        is_lower_better=direction == "min",
        keep_percent=wanted.get("keep_percent", 50.0),
        after_step=wanted.get("after_step", 0),
        min_members=wanted.get("min_members", 5),
    )
