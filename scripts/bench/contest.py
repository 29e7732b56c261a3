"""Measures several ways of doing the same, round by round, on a machine that is quiet.

Each round measures every way once, and the next round begins with another one: what disturbs the machine
disturbs all ways. A ratio is taken within a round, and the median over the rounds is told.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from scripts.bench.machine import await_quiet

OURS: Final = "podfleet"

Figures = Mapping[str, float]  # by the name of the metric
Way = Callable[[], Figures]


class Goal(msgspec.Struct, frozen=True):
    """What our median shall reach: `limit` itself, or `limit` times what the way `beside` reaches."""

    limit: float
    beside: str | None = None


class Metric(msgspec.Struct, frozen=True):
    """One figure of a measurement."""

    name: str
    unit: str
    more_is_better: bool = True
    goal: Goal | None = None


class Row(msgspec.Struct, frozen=True):
    """One metric of one contest: for each way, a figure a round."""

    contest: str
    metric: Metric
    rounds: dict[str, list[float]]

    def median(self, way: str) -> float:
        """Return the middle figure of a way."""
        return statistics.median(self.rounds[way])

    def ratio(self, beside: str) -> float:
        """Return the middle of what our figure is of the other way's, round by round."""
        pairs = zip(self.rounds[OURS], self.rounds[beside], strict=True)
        return statistics.median(ours / theirs if theirs else float("inf") for ours, theirs in pairs)

    def is_met(self) -> bool | None:
        """Say whether the goal is reached; None where there is none."""
        goal = self.metric.goal
        if goal is None or OURS not in self.rounds:
            return None
        reached = self.median(OURS) if goal.beside is None else self.ratio(goal.beside)
        return reached >= goal.limit if self.metric.more_is_better else reached <= goal.limit


@dataclass(frozen=True, slots=True)
class Setting:
    """What every bench is given: how often to measure, where to put things, and how large to be.

    `small` is for trying a bench out: its figures mean nothing. `store` is a filled store to measure on.
    """

    rounds: int
    scratch: Path
    say: Callable[[str], object]
    small: bool = False
    store: str | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """One sub-benchmark."""

    name: str
    purpose: str
    run: Callable[[Setting], Iterator[Row]]


def contest(name: str, metrics: Sequence[Metric], ways: Mapping[str, Way], setting: Setting) -> Iterator[Row]:
    """Measure all ways `setting.rounds` times; yield a row for each metric, of the ways that tell it."""
    told: list[dict[str, Figures]] = []
    order = list(ways)
    for _ in range(setting.rounds):
        figures: dict[str, Figures] = {}
        for way in order:
            await_quiet()
            figures[way] = ways[way]()
            shown = ", ".join(f"{key} {value:,.4g}" for key, value in figures[way].items())
            setting.say(f"{name}: {way}: {shown}")
        told.append(figures)
        order = order[1:] + order[:1]
    for metric in metrics:
        tellers = [way for way in ways if metric.name in told[0][way]]
        yield Row(name, metric, {way: [each[way][metric.name] for each in told] for way in tellers})


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
