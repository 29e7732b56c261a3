"""The charts of a task: its objective by experiment, and latency against throughput, pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from markupsafe import Markup

from control_plane.reads.groups import evenly
from control_plane.server.web.drawing.chart_figure import ChartFigure, chart_figure
from control_plane.server.web.drawing.charts import Axis, Chart, Line, drawn_value, label, letter
from control_plane.server.web.drawing.svg import coordinate, element
from events.answers.kinds.tasks import TriedConfiguration
from events.kinds.results import is_measured
from events.text.truncation import brief

SVG: Final = "http://www.w3.org/2000/svg"
# what pages.css says of a chart, for one that stands alone
LOOK: Final = (
    "text{font:11px sans-serif}.tick{fill:#57606a}.caption{font-size:13px;fill:#1f2328}"
    ".grid{stroke:#d0d7de;fill:none}.axis{stroke:#57606a;fill:none}"
)
NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
HOVER_CHARS: Final = 500
BEST_COLOR: Final = "#10b981"
OTHER_COLOR: Final = "#3b82f6"
BARS_MAX: Final = 60
WIDTH: Final = 640.0
HEIGHT: Final = 240.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 10.0, 26.0, 28.0
GAP: Final = 0.25  # of the width of a bar
NUMBERS_MAX: Final = 24  # bars that have each a number below
LINES_MAX: Final = 12
LOADS_MAX: Final = 48
THROUGHPUT: Final = "tokens_out_per_s"
LATENCY: Final = "e2e_p50_s"


@dataclass(frozen=True, slots=True)
class Bars:
    """The picture of a bar for each experiment that succeeded; `left_out` of them are not drawn.

    `alone` is the same as a file of its own, with its colors.
    """

    picture: Markup
    alone: Markup
    left_out: int


def objective_bars(experiments: Sequence[TriedConfiguration], metric: str) -> Bars | None:
    """Return a bar for each successful experiment, the best in green with a star; None without any.

    A line on a bar is the band of its repeats.
    """
    measured = [
        each for each in experiments if each.score is not None and drawn_value(each.score) is not None
    ]
    if not measured:
        return None
    best = [each for each in measured if each.is_best]
    rest = evenly([each for each in measured if not each.is_best], BARS_MAX - len(best))
    bars = sorted([*best, *rest], key=lambda each: each.number)
    ends = [value for each in bars for value in (each.score, each.low, each.high) if value is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    axis = Axis(low, high if high > low else low + 1.0, HEIGHT - BOTTOM, TOP)
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    parts = [element("title", f"{metric} by experiment"), *_grid(axis)]
    for place, each in enumerate(bars):
        parts += _bar(each, LEFT + place * width, width, axis, is_named=len(bars) <= NUMBERS_MAX)
    drawn = Markup("").join(parts)
    named = {
        "viewBox": f"0 0 {coordinate(WIDTH)} {coordinate(HEIGHT)}",
        "aria_label": _described(bars, metric),
    }
    picture = element("svg", drawn, class_="chart", role="img", **named)
    return Bars(picture, _alone(drawn, f"{metric} by experiment", named), len(measured) - len(bars))


def _alone(drawn: Markup, caption: str, named: Mapping[str, str]) -> Markup:
    """Return a drawing as a file: no page gives it a background, a caption and a look."""
    size = {"width": coordinate(WIDTH), "height": coordinate(HEIGHT)}
    parts = (
        element("style", LOOK),
        element("rect", fill="#ffffff", **size),
        element("text", caption, class_="caption", x=coordinate(LEFT), y="15"),
        drawn,
    )
    whole = element("svg", Markup("").join(parts), xmlns=SVG, **size, **named)
    return Markup(NO_XML.sub("\ufffd", whole))  # noqa: S704 - it is markup, with fewer letters


def swatch(color: str) -> Markup:
    """Return the sample of a bar for the legend."""
    drawn = element("rect", fill=color, width="12", height="8", x="8")
    return element("svg", drawn, class_="swatch", viewBox="0 0 28 8", aria_hidden="true")


def tooltip(each: TriedConfiguration) -> str:
    """Return what is told of a bar: its name, and its score to four decimals."""
    words = f"Experiment {each.number}: {each.score:.4f}"
    if each.low is not None and each.high is not None and each.low < each.high:
        words += f" ({each.low:.4f} to {each.high:.4f})"
    return f"{words}, Best Experiment" if each.is_best else words


def hover(each: TriedConfiguration) -> str:
    """Return what is told of a bar while it is pointed at: its parameters, too."""
    given = ", ".join(f"{name}={value}" for name, value in each.parameters.items())
    return tooltip(each) + (f"\n{brief(given, HOVER_CHARS)}" if given else "")


def latency_figure(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> ChartFigure | None:
    """Return latency against throughput, a line for each scenario of each named run; None without numbers.

    The points of a line are its loads, in the order of their size.
    """
    lines: list[Line] = []
    loads: list[Line] = []
    for name, measured in rows.items():
        by_scenario: dict[str, list[tuple[float, float, float]]] = {}
        for each in measured:
            load, x, y = each.get("concurrency"), each.get(THROUGHPUT), each.get(LATENCY)
            if is_measured(load) and is_measured(x) and is_measured(y):
                by_scenario.setdefault(str(each.get("scenario"))[:60], []).append((load, float(x), float(y)))
        for scenario, found in by_scenario.items():
            points = [(x, y) for _, x, y in sorted(found)]
            lines.append(Line(name=f"{name}: {scenario}", letter=letter(len(lines)), points=points))
            loads += [_load(f"{name}: {scenario}", *each) for each in sorted(found)]
    if not lines:
        return None
    chart = Chart(
        title=f"{LATENCY} against {THROUGHPUT}; the numbers are requests at once",
        lines=[*lines[:LINES_MAX], *loads[:LOADS_MAX]],
        x_name="tok/s",
        width=WIDTH,
        height=HEIGHT,
    )
    figure = chart_figure(chart)
    return replace(figure, legend=figure.legend[: len(lines[:LINES_MAX])])


def _load(name: str, load: float, x: float, y: float) -> Line:
    return Line(name=f"{name}, {load:g} at once", letter=f"{load:g}", points=[(x, y)], joined=False)


def _bar(each: TriedConfiguration, left: float, width: float, axis: Axis, *, is_named: bool) -> list[Markup]:
    assert each.score is not None
    base, top = axis.place(0.0), axis.place(each.score)
    inner, x = width * (1 - GAP), left + width * GAP / 2
    middle = coordinate(x + inner / 2)
    bar = element(
        "rect", element("title", hover(each)), fill=BEST_COLOR if each.is_best else OTHER_COLOR,
        x=coordinate(x), width=coordinate(inner), y=coordinate(min(base, top)),
        height=coordinate(max(abs(base - top), 1.0)),
    )  # fmt: skip
    found = [bar]
    if each.low is not None and each.high is not None and each.low < each.high:
        ends = f"M{middle} {coordinate(axis.place(each.low))}V{coordinate(axis.place(each.high))}"
        found.append(element("path", class_="axis", d=ends))
    if each.is_best:
        star = coordinate(min(base, top) - 5)
        found.append(element("text", "★", fill=BEST_COLOR, x=middle, y=star, text_anchor="middle"))
    if is_named:
        place = coordinate(HEIGHT - BOTTOM + 16)
        found.append(
            element("text", str(each.number), class_="tick", x=middle, y=place, text_anchor="middle")
        )
    return found


def _grid(axis: Axis) -> list[Markup]:
    found: list[Markup] = []
    for value in axis.ticks():
        y = coordinate(axis.place(value))
        found.append(element("path", class_="grid", d=f"M{coordinate(LEFT)} {y}H{coordinate(WIDTH - RIGHT)}"))
        found.append(
            element("text", label(value, ""), class_="tick", x=coordinate(LEFT - 6), y=y, text_anchor="end")
        )
    return found


def _described(bars: Sequence[TriedConfiguration], metric: str) -> str:
    best = next((tooltip(each) for each in bars if each.is_best), "no best one yet")
    return f"{metric} of {len(bars)} experiments; {best}"
