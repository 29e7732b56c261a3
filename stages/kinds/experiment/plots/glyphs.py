"""The characters that can be printed: those of the libraries' fonts, the same on every machine."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.ft2font import FT2Font

LABELS: Final = "DejaVuSans"  # the font of every figure
LAST_RESORT: Final = (
    "DejaVuSansMono"  # Typst carries it too, and takes it where the paper's own font lacks a sign
)


def has_glyph(char: str, font: str) -> bool:
    """Return whether `font` can print the sign, and it is one that is seen."""
    return char.isprintable() and ord(char) in _signs(font)


@cache
def _signs(font: str) -> frozenset[int]:
    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    return frozenset(FT2Font(str(path)).get_charmap())
