"""Compares runs: which differ only in the seed, their curves, and means over seeds, pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from control_plane.model.views.boards.interval import Mean, mean_of
from control_plane.reads.comparison import flat
from control_plane.server.web.drawing.charts import Band, Line, Point, smoothed

SEED: Final = "seed"
STEP_MAX: Final = 1e6  # seeds, by which repetitions are told apart, lie further from each other
METRICS_MAX: Final = 500
ABSENT: Final = "–"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its points in each run, where x is the step, or the number of the measurement."""

    name: str
    points: Sequence[Sequence[Point]]

    @property
    def is_curve(self) -> bool:
        """Say whether any run has several values of it, at steps that are not seeds."""
        return any(len(each) > 1 and each[-1][0] - each[0][0] <= STEP_MAX * len(each) for each in self.points)

    @property
    def last(self) -> list[float | None]:
        """Return the last value of each run."""
        return [each[-1][1] if each else None for each in self.points]


def written(value: Any) -> str:
    """Return a parameter as text."""
    if value is None:
        return ABSENT
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def seed_groups(runs: Sequence[tuple[str, Json]]) -> list[list[int]]:
    """Return the groups of two or more (kind, specification) that differ only in the seed."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, (kind, spec) in enumerate(runs):
        rest = sorted((name, written(value)) for name, value in flat(spec) if name != SEED)
        groups.setdefault((kind, *rest), []).append(index)
    return [
        each
        for each in groups.values()
        if len({written(runs[index][1].get(SEED)) for index in each}) == len(each) > 1
    ]


def metrics(events: Sequence[Sequence[Json]], x: Literal["step", "time"] = "step") -> list[Metric]:
    """Return the metrics of runs, from the events of each in order; those that most runs have come first.

    Their points are at steps, or at the moments (seconds since 1970) at which they were measured.

    At most `METRICS_MAX`, since a pod may give each value a different name. A step that was measured again
    has the later value.
    """
    found: dict[str, dict[int, dict[float, float]]] = {}
    for index, of_run in enumerate(events):
        for each in of_run:
            data = each["data"]
            value = data.get("value")
            if not isinstance(value, int | float) or not math.isfinite(value):
                continue
            points = found.setdefault(f"{data['stage']}: {data['name']}", {}).setdefault(index, {})
            step = _second(each) if x == "time" else data.get("step")
            points[float(len(points) if step is None else step)] = float(value)
    names = sorted(found, key=lambda name: -len(found[name]))[:METRICS_MAX]
    return [
        Metric(name, [sorted(found[name].get(index, {}).items()) for index in range(len(events))])
        for name in names
    ]


def _second(event: Json) -> float | None:
    """Return when something was measured, else when that was received: a leap second is no moment."""
    for moment in (event.get("time"), event.get("receivedAt")):
        try:
            return datetime.fromisoformat(moment).timestamp()  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def mean(values: Sequence[float | None]) -> Mean | None:
    """Return the mean with its interval of those that are there; None without any."""
    there = [value for value in values if value is not None]
    return mean_of(there) if there else None


def mean_line(name: str, letter: str, lines: Sequence[Sequence[Point]]) -> Line:
    """Return the mean of several lines at points that all have, with its interval as a band."""
    tables = [{at: value for at, value in each if value is not None} for each in lines if each]
    shared = sorted(set.intersection(*(set(each) for each in tables))) if tables else []
    points: list[Point] = []
    band: list[Band] = []
    for at in shared:
        found = mean_of([each[at] for each in tables])
        points.append((at, found.mean))
        if found.low is not None and found.high is not None:
            band.append((at, found.low, found.high))
    return Line(name=name, letter=letter, points=points, band=band)


def lines(
    metric: Metric,
    names: Sequence[str],
    letters: Sequence[str],
    groups: Sequence[Sequence[int]],
    weight: float,
) -> list[Line]:
    """Return a metric's lines: one for each group, then one for each run in no group."""
    drawn = [smoothed(each, weight) for each in metric.points]
    together = [
        mean_line(
            f"mean of {len(group)} seeds", "+".join(letters[index] for index in group),
            [drawn[index] for index in group],
        )
        for group in groups
    ]  # fmt: skip
    grouped = {index for group in groups for index in group}
    alone = [
        Line(name=names[index], letter=letters[index], points=points)
        for index, points in enumerate(drawn)
        if index not in grouped
    ]
    return [*together, *alone]
