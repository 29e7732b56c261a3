"""Measures several ways of doing the same, round by round, on a machine that is quiet.

Each round measures every way once, and the next round begins with another one: what disturbs the machine
disturbs all ways. A ratio is taken within a round, and the median over the rounds is told. A way that cannot
be measured here is told with the reason, and has no figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from testing.bench.machine import await_quiet

OURS: Final = "podfleet"

Figures = Mapping[str, float]  # by the name of the metric
Way = Callable[[], Figures]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Absent:
    """Something that is not here, and what to do about it."""

    reason: str


class Goal(msgspec.Struct, frozen=True):
    """What our median shall reach: `limit` itself, or `limit` times what the way `beside` reaches."""

    limit: float
    beside: str | None = None


class Metric(msgspec.Struct, frozen=True):
    """One figure of a measurement."""

    name: str
    unit: str
    more_is_better: bool = True
    goals: tuple[Goal, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One metric of one contest: for each way, a figure a round."""

    contest: str
    metric: Metric
    rounds: dict[str, list[float]]
    absent: dict[str, str] = {}  # the ways that were not measured, and why

    def median(self, way: str) -> float:
        """Return the middle figure of a way."""
        return statistics.median(self.rounds[way])

    def ratio(self, beside: str) -> float:
        """Return the middle of what our figure is of the other way's, round by round."""
        pairs = zip(self.rounds[OURS], self.rounds[beside], strict=True)
        return statistics.median(ours / theirs if theirs else float("inf") for ours, theirs in pairs)

    def is_met(self, goal: Goal) -> bool | None:
        """Say whether a goal is reached; None where what it compares was not measured."""
        if OURS not in self.rounds or (goal.beside is not None and goal.beside not in self.rounds):
            return None
        reached = self.median(OURS) if goal.beside is None else self.ratio(goal.beside)
        return reached >= goal.limit if self.metric.more_is_better else reached <= goal.limit


@dataclass(frozen=True, slots=True)
class Setting:
    """What every bench is given: how often to measure, where to put things, and how large to be.

    `small` is for trying a bench out: its figures mean nothing. `store` is a filled store to measure on.
    Without `peers` other people's programs are left out. `runs` is how many old runs a
    bench fills its store with.
    """

    rounds: int
    scratch: Path
    say: Callable[[str], object]
    small: bool = False
    store: str | None = None
    peers: bool = True
    runs: int | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """One sub-benchmark."""

    name: str
    purpose: str
    run: Callable[[Setting], Iterator[Row]]


def way(found: T | Absent, measure: Callable[[T], Figures]) -> Way | Absent:
    """Return how to measure what was found, or why it cannot be."""
    return found if isinstance(found, Absent) else partial(measure, found)


def contest(
    name: str, metrics: Sequence[Metric], ways: Mapping[str, Way | Absent], setting: Setting
) -> Iterator[Row]:
    """Measure all ways `setting.rounds` times; yield a row for each metric, of the ways that tell it."""
    absent = {each: found.reason for each, found in ways.items() if isinstance(found, Absent)}
    present = {each: found for each, found in ways.items() if not isinstance(found, Absent)}
    for each, reason in absent.items():
        setting.say(f"{name}: {each}: not measured: {reason}")
    measured: list[dict[str, Figures]] = []
    order = list(present)
    for _ in range(setting.rounds):
        figures: dict[str, Figures] = {}
        for each in order:
            await_quiet()
            figures[each] = present[each]()
            shown = ", ".join(f"{key} {value:,.4g}" for key, value in figures[each].items())
            setting.say(f"{name}: {each}: {shown}")
        measured.append(figures)
        order = order[1:] + order[:1]
    for metric in metrics:
        tellers = [each for each in present if metric.name in measured[0][each]]
        rounds = {each: [figures[each][metric.name] for figures in measured] for each in tellers}
        yield Row(name, metric, rounds, absent)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
