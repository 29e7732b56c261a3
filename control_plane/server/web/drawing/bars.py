"""Bars for a column of numbers, as SVG that the server draws, pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

WIDTH: Final = 160
HEIGHT: Final = 12
LEAST: Final = 1.5  # what is not nothing can be seen

PICTURE: Final = Markup(
    '<svg class="bar {0}" width="{1}" height="{2}" viewBox="0 0 {1} {2}" aria-hidden="true">'
    '<rect width="{3}" height="{2}" rx="2"></rect></svg>'
)


def bars(values: Sequence[float], name: str) -> list[Markup]:
    """Return one bar for each value; the largest is as wide as the picture. No values give an empty picture.

    `name` is a class of the style sheet. The number is beside the bar, so screen readers skip the picture.
    """
    most = max(values, default=0.0)
    return [_bar(WIDTH * (value / most) if most > 0 else 0.0, name) for value in values]


def _bar(width: float, name: str) -> Markup:
    shown = max(width, LEAST) if width > 0 else 0.0
    return PICTURE.format(name, WIDTH, HEIGHT, f"{shown:.1f}")
