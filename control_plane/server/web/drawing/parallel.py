"""Parallel coordinates as SVG text: an axis for each parameter, a line for each row, pure.

Law: a row without a value on an axis has a gap there. Rows are drawn in layers, the last on top of the
others; a layer is one element, however many rows it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from control_plane.model.views.boards.values import NONE, value_of
from control_plane.server.web.drawing.charts import Axis, drawn_value, label
from control_plane.server.web.drawing.svg import coordinate, element
from events.kinds.results import is_measured

CATEGORIES_MAX: Final = 12  # of an axis, each with its name; the others share a place
OTHERS: Final = "others"
LABEL_CHARS_MAX: Final = 14
DISTANCE: Final = 110.0  # between two axes
ACROSS: Final = 520.0  # from the first axis to the last, at least: letters keep their size
LEFT, TOP, BASE, HEIGHT = 60.0, 34.0, 214.0, 226.0
LOG_FROM: Final = 1_000.0  # positive values that reach over more have a logarithmic scale
BESIDE: Final = 5.0
MIDDLE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Track:
    """One axis: where each row stands on it, from 0 to 1, and its labels."""

    name: str
    places: Sequence[float | None]
    ticks: Sequence[tuple[float, str]]
    is_log: bool = False
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows that are drawn alike: a class of the style sheet, what they have in common, and their numbers."""

    look: str
    name: str
    rows: Sequence[int]


def track(name: str, values: Sequence[Any], *, is_log: bool | None = None) -> Track:
    """Return the axis of these values: of numbers if all are, else of categories.

    Without `is_log` positive numbers that reach far have a logarithmic scale.
    """
    told = [value_of(each).shown for each in values]
    numbers = [each for each in told if each is not None]
    if not all(is_measured(each) for each in numbers):
        return _categories(name, told)
    drawn = [drawn_value(each) if is_measured(each) else None for each in told]
    there = [each for each in drawn if each is not None]
    if not there:
        return Track(name, drawn, [])
    low, high = min(there), max(there)
    if is_log is None:
        is_log = low > 0 and high / low >= LOG_FROM
    if low <= 0:
        is_log = False
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return Track(name, [None if each is None else MIDDLE for each in drawn], [(MIDDLE, label(low, ""))])
    axis = Axis(low, high, 0.0, 1.0, is_log)
    ticks = [(axis.place(each), label(each, "")) for each in axis.ticks()]
    return Track(name, [None if each is None else axis.place(each) for each in drawn], ticks, is_log)


def _categories(name: str, told: Sequence[Any]) -> Track:
    ordered = sorted({value_of(each) for each in told} - {NONE})
    known = {each: number for number, each in enumerate(ordered[:CATEGORIES_MAX])}
    names = [_brief(each.shown) for each in known]
    if len(ordered) > len(known):
        names.append(OTHERS)
    places = [place / (len(names) - 1) if len(names) > 1 else MIDDLE for place in range(len(names))]
    return Track(
        name,
        [None if each is None else places[known.get(value_of(each), len(known))] for each in told],
        list(zip(places, names, strict=True)),
        is_number=False,
    )


def _brief(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LABEL_CHARS_MAX else f"{text[: LABEL_CHARS_MAX - 1]}…"


def parallel_picture(title: str, described: str, tracks: Sequence[Track], layers: Sequence[Layer]) -> Markup:
    """Return the picture, with its title and its description for who cannot see it."""
    gaps = max(1, len(tracks) - 1)
    apart = max(DISTANCE, ACROSS / gaps)
    width = 2 * LEFT + apart * gaps
    at = [LEFT + apart * number for number in range(len(tracks))]
    parts = [element("title", title, id="parallel-t"), element("desc", described, id="parallel-d")]
    for layer in layers:
        if drawn := " ".join(_line(tracks, at, row) for row in layer.rows).strip():
            parts.append(element("path", class_=f"row {layer.look}", d=drawn))
    for number, (each, x) in enumerate(zip(tracks, at, strict=True)):
        parts += _axis(each, x, number)
    many = "" if len(tracks) <= 5 else " many"
    return element(
        "svg", Markup("").join(parts), class_=f"parallel{many}", role="img",
        preserveAspectRatio="xMinYMin meet", viewBox=f"0 0 {coordinate(width)} {coordinate(HEIGHT)}",
        aria_labelledby="parallel-t parallel-d",
    )  # fmt: skip


def _line(tracks: Sequence[Track], at: Sequence[float], row: int) -> str:
    """Return the line of a row, with a gap where it has no value."""
    found, is_begun = "", False
    for each, x in zip(tracks, at, strict=True):
        place = each.places[row]
        if place is not None:
            found += f"{'L' if is_begun else 'M'}{coordinate(x)} {coordinate(_height(place))}"
        is_begun = place is not None
    return found


def _axis(each: Track, x: float, number: int) -> Iterator[Markup]:
    place = coordinate(x)
    yield element("path", class_="axis", d=f"M{place} {coordinate(TOP)}V{coordinate(BASE)}")
    # neighbours have their names in two rows: a long one would reach into the next
    y = coordinate(TOP - (22 if number % 2 else 10))
    yield element("text", _brief(each.name), class_="name", x=place, y=y, text_anchor="middle")
    for at, text in each.ticks:
        height = coordinate(_height(at))
        yield element("path", class_="axis", d=f"M{coordinate(x - 3)} {height}H{place}")
        yield element(
            "text", text, class_="tick", x=coordinate(x - BESIDE), y=height, dy="4", text_anchor="end"
        )


def _height(place: float) -> float:
    return BASE - place * (BASE - TOP)
