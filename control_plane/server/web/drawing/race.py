"""The pictures of a race: how long each lane took, what its machine had in use, and the spread of laps; pure.

Law: no style attribute and no script; what is drawn also stands beside it in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from control_plane.server.web.drawing.charts import Axis, drawn_value, label
from control_plane.server.web.drawing.svg import coordinate, element

TRACK: Final = 1000.0  # units of the width of a track
TRACK_HEIGHT: Final = 14.0
BAR_MIN: Final = 4.0
SPARK_WIDTH: Final = 120.0
SPARK_HEIGHT: Final = 28.0
SPARK_POINTS: Final = 120
SPREAD_WIDTH: Final = 640.0
SPREAD_LEFT, SPREAD_RIGHT = 150.0, 70.0
SPREAD_ROW: Final = 30.0
SPREAD_FOOT: Final = 22.0
NAME_CHARS_MAX: Final = 22
DOTS_MAX: Final = 100  # laps of a lane that are drawn


@dataclass(frozen=True, slots=True)
class Spread:
    """A lane in the chart of spread: its mean, its interval where there is one, and its laps."""

    name: str
    mean: float
    low: float | None
    high: float | None
    laps: Sequence[float]


def track(start_s: float, end_s: float, whole_s: float, look: str, *, is_running: bool) -> Markup:
    """Return the bar of a lane on the axis of time of its race; one that runs grows in a browser."""
    whole = max(whole_s, 1e-9)
    left = TRACK * min(1.0, max(0.0, start_s) / whole)
    width = max(BAR_MIN, TRACK * min(1.0, max(0.0, end_s - start_s) / whole))
    bar = element(
        "rect", class_=f"ran {look}", x=coordinate(min(left, TRACK - BAR_MIN)), y="1",
        width=coordinate(width), height=coordinate(TRACK_HEIGHT - 2),
        data_from=f"{start_s:.3f}", data_to="" if is_running else f"{end_s:.3f}",
    )  # fmt: skip
    return element(
        "svg", bar, class_="track", viewBox=f"0 0 {coordinate(TRACK)} {coordinate(TRACK_HEIGHT)}",
        preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip


def sparkline(values: Sequence[float | None], name: str) -> Markup:
    """Return the latest values, each a share of one, as a line; `name` is a class of the style sheet."""
    path, pen = [], "M"
    latest = list(values)[-SPARK_POINTS:]
    step = SPARK_WIDTH / (SPARK_POINTS - 1)
    first = SPARK_POINTS - len(latest)
    for place, value in enumerate(latest):
        drawn = None if value is None else drawn_value(value)
        if drawn is None:
            pen = "M"
            continue
        y = SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 2) * min(1.0, max(0.0, drawn))
        path.append(f"{pen}{coordinate((first + place) * step)} {coordinate(y)}")
        pen = "L"
    line = element("path", class_="line c0", d="".join(path)) if path else Markup()
    box = f"0 0 {coordinate(SPARK_WIDTH)} {coordinate(SPARK_HEIGHT)}"
    return element("svg", line, class_=f"spark {name}", viewBox=box, aria_hidden="true", data_spark=name)


def spread_chart(title: str, lanes: Sequence[Spread]) -> Markup | None:
    """Return the means of the lanes as bars with their 95 % intervals and their laps; None without any."""
    there = [each for each in lanes if drawn_value(each.mean) is not None]
    values = [
        value
        for lane in there
        for each in (lane.mean, lane.low, lane.high, *lane.laps[:DOTS_MAX])
        if each is not None and (value := drawn_value(each)) is not None
    ]
    if not values:
        return None
    low, high = min(0.0, *values), max(0.0, *values)
    high = high if high > low else low + 1.0
    axis = Axis(low, high, SPREAD_LEFT, SPREAD_WIDTH - SPREAD_RIGHT)
    height = SPREAD_ROW * len(there) + SPREAD_FOOT
    parts = [element("title", title), element("desc", _described(there))]
    for tick in axis.ticks():
        x = coordinate(axis.place(tick))
        parts.append(element("path", class_="grid", d=f"M{x} 0V{coordinate(height - SPREAD_FOOT)}"))
        parts.append(
            element(
                "text", label(tick, ""), class_="tick", x=x, y=coordinate(height - 6), text_anchor="middle"
            )
        )
    for row, each in enumerate(there):
        parts += _row(each, axis, SPREAD_ROW * row)
    return element(
        "svg", Markup("").join(parts), class_="chart spread", role="img",
        viewBox=f"0 0 {coordinate(SPREAD_WIDTH)} {coordinate(height)}", aria_label=title,
    )  # fmt: skip


def _row(lane: Spread, axis: Axis, top: float) -> list[Markup]:
    zero, mean = axis.place(0.0), axis.place(lane.mean)
    middle = top + SPREAD_ROW / 2
    name = lane.name if len(lane.name) <= NAME_CHARS_MAX else f"{lane.name[: NAME_CHARS_MAX - 1]}…"
    bar = element(
        "rect", class_="band c0", x=coordinate(min(zero, mean)), y=coordinate(top + 5),
        width=coordinate(max(1.0, abs(mean - zero))), height=coordinate(SPREAD_ROW - 10),
    )  # fmt: skip
    parts = [
        element("text", name, class_="tick", x=coordinate(SPREAD_LEFT - 8), y=coordinate(middle + 4),
                text_anchor="end"),
        bar,
        element("text", label(lane.mean, ""), class_="tick", x=coordinate(SPREAD_WIDTH - SPREAD_RIGHT + 8),
                y=coordinate(middle + 4)),
    ]  # fmt: skip
    parts += [
        element("circle", class_="dot c0", cx=coordinate(axis.place(each)), cy=coordinate(middle), r="2")
        for each in lane.laps[:DOTS_MAX]
        if drawn_value(each) is not None
    ]
    if lane.low is not None and lane.high is not None:
        first, last = (coordinate(axis.place(each)) for each in (lane.low, lane.high))
        line = f"M{first} {coordinate(middle)}H{last}M{first} {coordinate(middle - 5)}v10M{last} "
        parts.append(element("path", class_="line c1", d=f"{line}{coordinate(middle - 5)}v10"))
    return parts


def _described(lanes: Sequence[Spread]) -> str:
    words = [
        f"{each.name}: {each.mean:.4g}"
        + (
            ""
            if each.low is None or each.high is None
            else f", 95 % interval {each.low:.4g} to {each.high:.4g}"
        )
        for each in lanes
    ]
    return "; ".join(words)
