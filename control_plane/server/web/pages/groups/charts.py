"""The charts of a group: the history of its objective, parallel coordinates, and curves; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.plan import Plan
from control_plane.model.groups.space import Range
from control_plane.model.groups.study import Study
from control_plane.reads.groups import Curves, Measured, evenly
from control_plane.server.web.drawing.chart_figure import ChartFigure, chart_figure
from control_plane.server.web.drawing.charts import Chart, Line, Point, letter
from control_plane.server.web.drawing.parallel import Layer, Track, parallel_picture, track

DOTS_MAX: Final = 1_000  # of the history; the line of the best is of all members
LINES_MAX: Final = 1_000  # of parallel coordinates
ROWS_SHOWN: Final = 60  # of the numbers of a chart
BEST_SHARE: Final = 10  # the best tenth is told apart
BEST_SHOWN: Final = 20  # in the table below the parallel coordinates
WIDTH, HEIGHT = 640.0, 220.0


@dataclass(frozen=True, slots=True)
class Parallel:
    """Parallel coordinates with what is told in words: the layers, and the best rows as a table."""

    picture: Markup
    layers: Sequence[Layer]
    names: Sequence[str]
    best: Sequence[tuple[Measured, Mapping[str, Any]]]
    drawn: int
    members: int


def in_order(members: Sequence[Measured], goal: Goal) -> list[Measured]:
    """Return the members that have the number of a goal, the best first, of equals the earliest."""
    sign = 1 if goal.is_lower_better else -1
    there = [(each.value, each) for each in members if each.value is not None]
    return [each for _, each in sorted(there, key=lambda each: (sign * each[0], each[1].slot))]


def history(members: Sequence[Measured], goal: Goal, plan: Plan, first: int) -> ChartFigure | None:
    """Return each member's number in the order of the slots, with the best so far; None without any."""
    there = [(each.slot, each.value) for each in members if each.value is not None]
    if not there:
        return None
    name = "best so far"
    steps = best_so_far(there, is_lower_better=goal.is_lower_better)
    dots: list[Point] = [(float(slot), value) for slot, value in evenly(there, DOTS_MAX)]
    lines = [
        Line(name=goal.name, letter="m", points=dots, joined=False),
        Line(name=name, letter="b", points=steps),
    ]
    if (baseline := baseline_of(members, plan, first)) is not None:
        ends: list[Point] = [(float(there[0][0]), baseline), (float(there[-1][0]), baseline)]
        lines.append(Line(name="baseline", letter="0", points=ends))
    chart = Chart(title=f"{goal.name} of each slot", lines=lines, x_name="slot", width=WIDTH, height=HEIGHT)
    return chart_figure(chart, ROWS_SHOWN)


def best_so_far(values: Sequence[tuple[int, float]], *, is_lower_better: bool) -> list[Point]:
    """Return the best value up to each slot as steps: two points where it changes, and the last slot."""
    found: list[Point] = []
    best: float | None = None
    for slot, value in values:
        if best is None or (value < best if is_lower_better else value > best):
            if best is not None:
                found.append((float(slot), best))
            best = value
            found.append((float(slot), best))
    if values and found[-1][0] != values[-1][0]:
        found.append((float(values[-1][0]), best))
    return found


def baseline_of(members: Sequence[Measured], plan: Plan, first: int) -> float | None:
    """Return what the baseline of a study measured: the mean of its repeats; None without one."""
    if not isinstance(plan, Study) or plan.baseline is None:
        return None
    slots = range(first, first + plan.repeats)
    values = [each.value for each in members if each.slot in slots and each.value is not None]
    return sum(values) / len(values) if values else None


def chosen_rows(members: Sequence[Measured], goal: Goal | None) -> list[Measured]:
    """Return the members that parallel coordinates draw, evenly taken, the best of them all included."""
    best = [] if goal is None else in_order(members, goal)[:BEST_SHOWN]
    among = {each.slot for each in best}
    rest = [each for each in members if each.slot not in among]
    return sorted([*best, *evenly(rest, LINES_MAX - len(best))], key=lambda each: each.slot)


def parallel(
    rows: Sequence[Measured],
    values: Sequence[Mapping[str, Any]],
    goal: Goal | None,
    plan: Plan,
    members: int,
) -> Parallel | None:
    """Return the parameters of these members beside the goal; without one, beside their status."""
    if not rows or not plan.names:
        return None
    short = _short(plan.names)
    tracks = [
        track(short[name], [each[name] for each in values], is_log=scale(plan, name)) for name in plan.names
    ]
    if goal is None:
        tracks.append(track("status", [each.status.lower() for each in rows]))
    else:
        tracks.append(track(goal.name, [each.value for each in rows]))
    ordered = [] if goal is None else in_order(rows, goal)
    layers = _layers(rows, goal, ordered)
    by_slot = {each.slot: row for each, row in zip(rows, values, strict=True)}
    title = f"Parameters beside {tracks[-1].name}"
    return Parallel(
        picture=parallel_picture(title, _described(tracks, layers), tracks, layers),
        layers=layers,
        names=plan.names,
        best=[(each, by_slot[each.slot]) for each in ordered[:BEST_SHOWN]],
        drawn=len(rows),
        members=members,
    )


def _short(names: Sequence[str]) -> Mapping[str, str]:
    """Return of each name its last part, where that tells it from the others; else the names themselves."""
    last = {name: name.rpartition(".")[2] for name in names}
    return last if len({*last.values()}) == len(last) else {name: name for name in names}


def scale(plan: Plan, name: str) -> bool | None:
    """Return whether a study tries a parameter by its logarithm; None where no plan says so."""
    dimension = plan.space.get(name) if isinstance(plan, Study) else None
    return dimension.form == "log" if isinstance(dimension, Range) else None


def _layers(rows: Sequence[Measured], goal: Goal | None, ordered: Sequence[Measured]) -> list[Layer]:
    if goal is None:
        return [Layer("rest", "members", range(len(rows)))]
    best = {each.slot for each in ordered[: max(1, len(ordered) // BEST_SHARE)]}
    parts: dict[str, list[int]] = {"none": [], "rest": [], "best": []}
    for number, each in enumerate(rows):
        look = "none" if each.value is None else "best" if each.slot in best else "rest"
        parts[look].append(number)
    names = {
        "none": f"without a {goal.name} that counts",
        "rest": "others",
        "best": f"the {'lowest' if goal.is_lower_better else 'highest'} {goal.name}",
    }
    return [Layer(look, names[look], numbers) for look, numbers in parts.items() if numbers]


def _described(tracks: Sequence[Track], layers: Sequence[Layer]) -> str:
    axes = ", ".join(f"{each.name}{' (logarithmic)' if each.is_log else ''}" for each in tracks)
    return f"Axes: {axes}. Lines: {', '.join(f'{len(each.rows)} {each.name}' for each in layers)}."


def curve_figure(curves: Curves, *, is_log: bool) -> ChartFigure | None:
    """Return one metric of the members in one chart; None where nobody measured it."""
    lines = [
        Line(name=f"slot {each.slot}", letter=letter(number), points=points)
        for number, (each, points) in enumerate(
            (each, points) for each, points in zip(curves.members, curves.points, strict=True) if points
        )
    ]
    if not lines or curves.name is None:
        return None
    chart = Chart(title=curves.name, lines=lines, x_name="step", is_log=is_log, width=WIDTH, height=HEIGHT)
    return chart_figure(chart, ROWS_SHOWN)
