"""Charts of lines and of dots as SVG text, pure.

Law: no style attribute and no script; colour is a class, so that both themes can choose theirs, and
each line has its letter and its dashes beside its colour. Every name is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from zlib import crc32

from markupsafe import Markup

from control_plane.server.web.drawing.svg import coordinate, element

COLORS: Final = 6
DASHES: Final = ("", "6 3", "2 3", "8 3 2 3")
LEFT, RIGHT, TOP, BOTTOM = 52.0, 20.0, 10.0, 24.0
LETTER: Final = 8.0
TICKS_WANTED: Final = 4
TIME_TICKS_WANTED: Final = 5
MARGIN: Final = 0.05  # of the values' span, above and below
HUGE: Final = 1e100  # beyond it nothing is drawn; below its inverse is zero, which has no logarithm
MOMENT_MAX_S: Final = 6e10  # from 1970, in both directions: the calendar has no much more
LEAST_ROOM: Final = 1e-6  # of the largest value: less is no difference
LEAST_STEP: Final = 1e-9  # the same of steps and moments
DECADES_WITH_PARTS: Final = 2
FEW_DOTS: Final = 200  # more of them are small
TIME_STEPS_S: Final = (10, 30, 60, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 86_400)
CLOCK_BELOW_S: Final = 86_400
SECONDS_BELOW_S: Final = 600

Point = tuple[float, float | None]
Band = tuple[float, float, float]  # where, from, to


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: None, or a step wider than the chart's `gap`, interrupts it; `band` is drawn behind it.

    Without `joined` each point is a dot, as where two numbers of many runs are set against each other.
    """

    name: str
    points: Sequence[Point]
    band: Sequence[Band] = ()
    letter: str = ""
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The content of a chart; its axis always includes `low` and `high`."""

    title: str
    lines: Sequence[Line]
    unit: Literal["", "%", "GiB", "°C"] = ""
    x: Literal["time", "number"] = "number"
    x_name: str = ""
    first: float | None = None
    last: float | None = None
    low: float | None = None
    high: float | None = None
    gap: float | None = None
    is_log: bool = False
    is_log_x: bool = False
    width: float = 400.0
    height: float = 170.0


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to coordinates between two ends of the picture; `low` is distinguishable from `high`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the coordinate of `value`."""
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values that divide the axis."""
        return log_ticks(self.low, self.high) if self.is_log else round_ticks(self.low, self.high)


def line_chart(chart: Chart) -> Markup:
    """Return the chart as an SVG element with a text description."""
    lines = [_drawable(line, chart) for line in chart.lines]
    values = [point for line in lines for point in line.points if point[1] is not None]
    if not values:
        return Markup('<p class="empty">{}: nothing was reported.</p>').format(chart.title)
    x_axis, y_axis = _axes(chart, lines)
    identity = f"chart-{crc32(chart.title.encode()):x}"
    parts = [
        element("title", chart.title, id=f"{identity}-t"),
        element("desc", described(chart), id=f"{identity}-d"),
        *_grid(chart, x_axis, y_axis),
    ]
    for index, line in enumerate(lines):
        parts += _line(line, index, chart, x_axis, y_axis)
    return element(
        "svg", Markup("").join(parts), class_="chart", role="img", preserveAspectRatio="xMinYMin meet",
        viewBox=f"0 0 {coordinate(chart.width)} {coordinate(chart.height)}",
        aria_labelledby=f"{identity}-t {identity}-d",
        data_low=repr(x_axis.low), data_high=repr(x_axis.high), data_log="x" if x_axis.is_log else "",
        data_start=coordinate(x_axis.start), data_end=coordinate(x_axis.end),
        data_top=coordinate(y_axis.end), data_base=coordinate(y_axis.start),
    )  # fmt: skip


def described(chart: Chart) -> str:
    """Return the text description of a chart: the last value and the range of each line."""
    words = []
    for line in chart.lines:
        values = [value for _, value in line.points if value is not None and math.isfinite(value)]
        if not values:
            words.append(f"{line.name}: nothing")
            continue
        shown = [label(value, chart.unit) for value in (values[-1], min(values), max(values))]
        words.append(f"{line.name}: {shown[0]} last, {shown[1]} to {shown[2]}")
    return f"{'; '.join(words)}{', on a logarithmic axis' if chart.is_log else ''}."


def letter(index: int) -> str:
    """Return the letter that identifies a line."""
    return chr(ord("A") + index % 26)


def look(index: int) -> tuple[str, str]:
    """Return the class and the dashes of the line of this number; those of the first 24 lines differ."""
    return f"c{index % COLORS}", DASHES[index // COLORS % len(DASHES)]


def swatch(index: int, *, joined: bool = True) -> Markup:
    """Return the sample of a line, or of dots, for the legend."""
    color, dashes = look(index)
    drawn = element("path", class_=f"line {color}", d="M0 4H28", stroke_dasharray=dashes)
    if not joined:
        drawn = element("circle", class_=f"dot {color}", cx="14", cy="4", r="3")
    return element("svg", drawn, class_="swatch", viewBox="0 0 28 8", aria_hidden="true")


def round_ticks(low: float, high: float, wanted: int = TICKS_WANTED) -> list[float]:
    """Return round values from `low` to `high`, about `wanted` of them."""
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * factor for factor in (1, 2, 2.5, 5) if power * factor >= rough), power * 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten from `low` to `high`, with 2 and 5 of each where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= DECADES_WITH_PARTS else (1,)
    every = max(1, math.ceil((last - first) / (2 * TICKS_WANTED)))
    found = [10.0**power * part for power in range(first, last + 1, every) for part in parts]
    return [value for value in found if low <= value <= high] or [low, high]


def time_ticks(first: float, last: float) -> list[float]:
    """Return round moments (seconds since 1970, in UTC) between two moments."""
    rough = (last - first) / TIME_TICKS_WANTED
    step = next(
        (each for each in TIME_STEPS_S if each >= rough), TIME_STEPS_S[-1] * math.ceil(rough / 86_400)
    )
    return [index * step for index in range(math.ceil(first / step), math.floor(last / step) + 1)]


def smoothed(points: Sequence[Point], weight: float) -> list[Point]:
    """Return the exponential moving average; `weight` is that of the past, 0 changes nothing.

    It is corrected for its start, so that the first value is the first measured one.
    """
    mean, seen = 0.0, 0.0
    found: list[Point] = []
    for at, value in points:
        if value is None or not math.isfinite(value):
            found.append((at, None))
            continue
        mean = weight * mean + (1 - weight) * value
        seen = weight * seen + (1 - weight)
        found.append((at, mean / seen))
    return found


def thinned(points: Sequence[Point], first: float, last: float, most: int) -> list[Point]:
    """Return at most `most` points: the means of equal intervals; an empty interval gives no point."""
    if len(points) <= most:
        return list(points)
    width = (last - first) / most
    parts: dict[int, list[tuple[float, float]]] = {}
    for at, value in points:
        if value is not None:
            parts.setdefault(min(most - 1, int((at - first) / width)), []).append((at, value))
    return [
        (sum(at for at, _ in part) / len(part), sum(value for _, value in part) / len(part))
        for _, part in sorted(parts.items())
    ]


def _drawable(line: Line, chart: Chart) -> Line:
    """Return a line without the values that cannot be drawn: no number, or without a logarithm."""
    points = [
        (x, None if value is None else _height(value, chart))
        for at, value in line.points
        if (x := _along(at, chart)) is not None
    ]
    band = [
        (x, low, high)
        for each in line.band
        if (x := _along(each[0], chart)) is not None
        and (low := _height(each[1], chart)) is not None
        and (high := _height(each[2], chart)) is not None
    ]
    return Line(name=line.name, letter=line.letter, points=points, band=band, joined=line.joined)


def _along(at: float, chart: Chart) -> float | None:
    """Return a step or moment as a value of the x axis; None if it cannot be drawn."""
    drawn = drawn_value(at, MOMENT_MAX_S if chart.x == "time" else HUGE)
    return None if chart.is_log_x and drawn is not None and drawn <= 0 else drawn


def _height(value: float, chart: Chart) -> float | None:
    """Return a value as a value of the y axis; None if it cannot be drawn."""
    drawn = drawn_value(value)
    return None if chart.is_log and drawn is not None and drawn <= 0 else drawn


def drawn_value(value: float, most: float = HUGE) -> float | None:
    """Return a value as it is drawn; None beyond what a picture takes."""
    if not abs(value) <= most:  # nor is NaN
        return None
    return float(value) if abs(value) >= 1 / HUGE else 0.0


def _axes(chart: Chart, lines: Sequence[Line]) -> tuple[Axis, Axis]:
    found = [(at, value) for line in lines for at, value in line.points if value is not None]
    lows = [value for _, value in found] + [each[1] for line in lines for each in line.band]
    highs = [value for _, value in found] + [each[2] for line in lines for each in line.band]
    least = None if chart.low is None else _height(chart.low, chart)
    most = None if chart.high is None else _height(chart.high, chart)
    low = min(lows if least is None else [*lows, least])
    high = max(highs if most is None else [*highs, most])
    wide_low, wide_high = _spread(low, high, is_log=chart.is_log)
    if _is_apart(low, high, LEAST_ROOM):
        wide_low, wide_high = low if low == least else wide_low, high if high == most else wide_high
    first, last = min(at for at, _ in found), max(at for at, _ in found)
    if chart.first is not None and (given := _along(chart.first, chart)) is not None:
        first = given
    if chart.last is not None and (given := _along(chart.last, chart)) is not None:
        last = given
    if chart.is_log_x and not _is_apart(first, last, LEAST_STEP):
        first, last = min(first, last) / 2, max(first, last) * 2
    elif not _is_apart(first, last, LEAST_STEP):
        room = max(1.0, LEAST_STEP * max(abs(first), abs(last)))
        first, last = min(first, last) - room, max(first, last) + room
    letters = max((len(line.letter) for line in chart.lines), default=1)
    end = chart.width - RIGHT - LETTER * max(0, letters - 1)
    x_axis = Axis(first, last, LEFT, end, chart.is_log_x)
    return x_axis, Axis(wide_low, wide_high, chart.height - BOTTOM, TOP, chart.is_log)


def _is_apart(low: float, high: float, least: float) -> bool:
    """Say whether two values differ by more than the rounding error."""
    return high - low > least * max(abs(low), abs(high))


def _spread(low: float, high: float, *, is_log: bool) -> tuple[float, float]:
    """Return the ends of an axis: the range of the values with a margin, never empty."""
    if is_log:
        factor = max((high / low) ** MARGIN, 1 + LEAST_ROOM) if high > low else 2.0
        return low / factor, high * factor
    largest = max(abs(low), abs(high))
    room = max((high - low) * MARGIN, largest * LEAST_ROOM) if high > low else largest * MARGIN or 1.0
    return low - room, high + room


def _grid(chart: Chart, x_axis: Axis, y_axis: Axis) -> Iterator[Markup]:
    right, base = coordinate(x_axis.end), y_axis.start
    for value in y_axis.ticks():
        y = coordinate(y_axis.place(value))
        yield element("path", class_="grid", d=f"M{coordinate(LEFT)} {y}H{right}")
        yield _text(label(value, chart.unit), coordinate(LEFT - 6), y, dy="4", text_anchor="end")
    is_time = chart.x == "time"
    for value in time_ticks(x_axis.low, x_axis.high) if is_time else x_axis.ticks():
        x = coordinate(x_axis.place(value))
        text = moment(value, x_axis.high - x_axis.low) if is_time else f"{value:g}"
        yield element("path", class_="grid", d=f"M{x} {coordinate(base)}v4")
        yield _text(text, x, coordinate(base + 16), text_anchor="middle")
    yield element(
        "path", class_="axis", d=f"M{coordinate(LEFT)} {coordinate(TOP)}V{coordinate(base)}H{right}"
    )
    if chart.x_name:
        yield _text(chart.x_name, coordinate(LEFT - 8), coordinate(base + 16), text_anchor="end")


def _line(line: Line, index: int, chart: Chart, x_axis: Axis, y_axis: Axis) -> Iterator[Markup]:
    color, dashes = look(index)

    def place(at: float, value: float) -> str:
        return f"{coordinate(x_axis.place(at))} {coordinate(y_axis.place(value))}"

    if line.band:
        upper = [place(at, high) for at, _, high in line.band]
        lower = [place(at, low) for at, low, _ in reversed(line.band)]
        yield element("path", class_=f"band {color}", d=f"M{'L'.join([*upper, *lower])}Z")
    x = y = ""
    if not line.joined:
        radius = "3" if len(line.points) <= FEW_DOTS else "1.5"
        for each in line.points:
            if each[1] is not None:
                x, _, y = place(each[0], each[1]).partition(" ")
                yield element("circle", class_=f"dot {color}", cx=x, cy=y, r=radius)
    for stretch in stretches(line.points, chart.gap) if line.joined else ():
        places = [place(at, value) for at, value in stretch]
        x, _, y = places[-1].partition(" ")
        if len(places) == 1:
            yield element("circle", class_=f"dot {color}", cx=x, cy=y, r="2")
        else:
            yield element("path", class_=f"line {color}", d=f"M{'L'.join(places)}", stroke_dasharray=dashes)
    if x and len(chart.lines) > 1:
        yield element("text", line.letter or letter(index), class_=f"name {color}", x=x, y=y, dx="4", dy="4")


def _text(text: str, x: str, y: str, **attributes: str) -> Markup:
    return element("text", text, class_="tick", x=x, y=y, **attributes)


def stretches(points: Sequence[Point], gap: float | None) -> list[list[tuple[float, float]]]:
    """Return the parts of a line between its gaps."""
    found: list[list[tuple[float, float]]] = []
    before: float | None = None
    for at, value in points:
        if value is None:
            before = None
            continue
        if before is None or (gap is not None and at - before > gap):
            found.append([])
        found[-1].append((at, value))
        before = at
    return found


def label(value: float, unit: str) -> str:
    """Return a value with its unit."""
    match unit:
        case "%":
            return f"{value * 100:.3g} %"
        case "":
            return f"{value:.4g}"
        case _:
            return f"{value:.3g} {unit}"


def moment(value: float, span: float) -> str:
    """Return a moment (seconds since 1970) in UTC as an axis of this span shows it."""
    at = datetime.fromtimestamp(value, UTC)
    if span > CLOCK_BELOW_S:
        return f"{at.day} {at:%b %H:%M}"
    return f"{at:%H:%M:%S}" if span <= SECONDS_BELOW_S else f"{at:%H:%M}"
