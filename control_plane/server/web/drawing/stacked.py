"""One bar of several parts, as SVG that the server draws, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

WIDTH: Final = 220
HEIGHT: Final = 12

PICTURE: Final = Markup(
    '<svg class="stack" width="{0}" height="{1}" viewBox="0 0 {0} {1}" aria-hidden="true">{2}</svg>'
)
PART: Final = Markup('<rect class="{0}" x="{1}" width="{2}" height="{3}"></rect>')


def stacked(values: Mapping[str, float], most: float) -> Markup:
    """Return a bar whose parts lie end to end; one of `most` is as wide as the picture.

    The names are classes of the style sheet. The numbers are beside the bar, so screen readers skip it.
    """
    parts, at = Markup(), 0.0
    for name, value in values.items():
        width = WIDTH * value / most if most > 0 else 0.0
        if width > 0:
            parts += PART.format(name, f"{at:.1f}", f"{width:.1f}", HEIGHT)
        at += width
    return PICTURE.format(WIDTH, HEIGHT, parts)
