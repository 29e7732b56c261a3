"""A chart with its numbers as a table: for screen readers, and for what stands under a pointer, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from markupsafe import Markup

from control_plane.server.web.drawing.charts import Chart, Line, label, line_chart, moment, swatch

ROWS_MAX: Final = 200  # of the table: a run may measure a thousand times


@dataclass(frozen=True, slots=True)
class NumberRow:
    """The values of all lines at one place of the x axis; a line without one there has an empty text."""

    at: float
    name: str
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class ChartFigure:
    """A chart, its legend where it has several lines, and its numbers, of which some may be `left_out`."""

    key: str
    title: str
    picture: Markup
    x_name: str
    names: Sequence[str]
    legend: Sequence[tuple[Markup, Line]]
    rows: Sequence[NumberRow]
    left_out: int


def chart_figure(chart: Chart, rows_max: int = ROWS_MAX) -> ChartFigure:
    """Return a chart with its numbers, at most `rows_max` rows of them, taken evenly and with the last."""
    tables = [{at: value for at, value in line.points if value is not None} for line in chart.lines]
    places = sorted({at for each in tables for at in each})
    kept = _evenly(places, rows_max)
    span = places[-1] - places[0] if places else 0.0
    rows = [
        NumberRow(
            at,
            _place(at, chart, span),
            [label(each[at], chart.unit) if at in each else "" for each in tables],
        )
        for at in kept
    ]
    legend = [
        (swatch(index, joined=line.joined), line) for index, line in enumerate(chart.lines) if line.points
    ]
    return ChartFigure(
        key=f"{crc32(chart.title.encode()):x}",
        title=chart.title,
        picture=line_chart(chart),
        x_name="time" if chart.x == "time" else chart.x_name or "x",
        names=[line.name for line in chart.lines],
        legend=legend if len(chart.lines) > 1 else (),
        rows=rows,
        left_out=len(places) - len(kept),
    )


def _evenly(places: Sequence[float], most: int) -> Sequence[float]:
    if len(places) <= most:
        return places
    return [places[round(index * (len(places) - 1) / (most - 1))] for index in range(most)]


def _place(at: float, chart: Chart, span: float) -> str:
    """Return a place of the x axis as text; a moment that no calendar has as a number."""
    try:
        return moment(at, span) if chart.x == "time" else f"{at:g}"
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"
