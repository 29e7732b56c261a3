"""A sparkline as SVG text: the last values of one measure, true to time; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from control_plane.server.web.drawing.svg import coordinate, element

WIDTH: Final = 240.0
HEIGHT: Final = 32.0
KEPT: Final = 120  # samples

Point = tuple[float, float]  # a moment in seconds, and the value then


def sparkline(points: Sequence[Point], *, high: float, gap_s: float, span_s: float) -> Markup:
    """Return the last `KEPT` points of the last `span_s`, from 0 up to `high`; a wider step is a gap.

    The latest value stands beside it, so screen readers skip the picture.
    """
    kept = points[-KEPT:]
    last = kept[-1][0] if kept else 0.0
    drawn, before = [], None
    for at, value in kept:
        if last - at > span_s:
            continue
        x = coordinate(WIDTH * (1 - (last - at) / span_s))
        y = coordinate(HEIGHT * (1 - min(1.0, max(0.0, value / high if high > 0 else 0.0))))
        drawn.append(f"{'L' if before is not None and at - before <= gap_s else 'M'}{x} {y}")
        before = at
    return element(
        "svg",
        element("path", d=" ".join(drawn), class_="spark"),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        class_="sparkline",
        aria_hidden="true",
        preserveAspectRatio="none",
    )
