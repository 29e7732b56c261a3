"""The charts of a study: each trial with the interval of its runs, and two goals against each other; pure."""

from __future__ import annotations

from collections.abc import Sequence

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.ranking import mean_with_interval
from control_plane.model.groups.trials import Outcome
from control_plane.reads.groups import evenly
from control_plane.reads.studies import StudyView
from control_plane.server.web.drawing.chart_figure import ChartFigure, chart_figure
from control_plane.server.web.drawing.charts import Chart, Line, Point
from control_plane.server.web.pages.groups.charts import DOTS_MAX, HEIGHT, ROWS_SHOWN, WIDTH


def study_figures(view: StudyView) -> list[ChartFigure]:
    """Return the charts of a study, without those that have nothing to show."""
    figures = [_front(view)] if len(view.study.goals) > 1 else [_trials(view)]
    return [each for each in figures if each is not None]


def _trials(view: StudyView) -> ChartFigure | None:
    """Return the means of the trials, with the intervals of those that ran again; None without these."""
    goal = view.study.goal
    there = [(number, each) for number, each in enumerate(view.outcomes, 1) if each.numbers]
    if not any(len(each.numbers[0]) > 1 for _, each in there):
        return None
    drawn = evenly(there, DOTS_MAX)
    dots: list[Point] = [(float(number), each.means[0]) for number, each in drawn]
    ends = [point for each in drawn for point in _interval(*each)]
    lines = [
        Line(name=goal.name, letter="m", points=dots, joined=False),
        Line(name="95 % interval", letter="i", points=ends),
    ]
    places = {each.slots[0]: float(number) for number, each in there}
    if view.baseline is not None:
        lines.append(_marked("baseline", "0", view.baseline, places))
    if view.best:
        lines.append(_marked("best", "★", view.best[0], places))
    title = f"{goal.name} of each trial, with the 95 % intervals of those that ran again"
    return _figure(Chart(title=title, lines=lines, x_name="number", width=WIDTH, height=HEIGHT))


def _interval(number: int, outcome: Outcome) -> list[Point]:
    """Return the ends of the interval of a trial, and the gap behind it; nothing of a single run."""
    found = mean_with_interval(outcome, 0)
    if found.low is None or found.high is None:
        return []
    return [(float(number), found.low), (float(number), found.high), (float(number), None)]


def _marked(name: str, letter: str, outcome: Outcome, places: dict[int, float]) -> Line:
    points: list[Point] = [(places[outcome.slots[0]], outcome.means[0])]
    return Line(name=name, letter=letter, points=points, joined=False)


def _front(view: StudyView) -> ChartFigure | None:
    """Return both numbers of each trial against each other with the front; None without any."""
    first, second = view.study.goals
    there = [each for each in view.outcomes if each.best is not None]
    if not there:
        return None
    lines = [
        Line(name="trials", letter="t", points=_places(evenly(there, DOTS_MAX)), joined=False),
        Line(name="Pareto front", letter="★", points=sorted(_places(view.best), key=_along)),
    ]
    if view.baseline is not None and view.baseline.best is not None:
        lines.append(Line(name="baseline", letter="0", points=_places([view.baseline]), joined=False))
    title = f"{_wanted(second)} against {_wanted(first)}"
    return _figure(Chart(title=title, lines=lines, x_name=first.name, width=WIDTH, height=HEIGHT))


def _places(outcomes: Sequence[Outcome]) -> list[Point]:
    return [(each.means[0], each.means[1]) for each in outcomes]


def _along(point: Point) -> float:
    return point[0]


def _wanted(goal: Goal) -> str:
    return f"{goal.name} ({'lower' if goal.is_lower_better else 'higher'} is better)"


def _figure(chart: Chart) -> ChartFigure:
    return chart_figure(chart, ROWS_SHOWN)
