"""How figures look, and how they become files: the same data give the same bytes.

Law: no figure is written that shows nothing, and none without the rows that drew it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")  # draws into files; a pod has no display

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from events.files.open_beneath import place_beneath, write_beneath
from events.files.paths import RunPath
from events.text.escaping import for_spreadsheet
from stages.kinds.experiment.plots.glyphs import LABELS, has_glyph
from stages.kinds.experiment.plots.picture import FORMS, TABLE, Picture

DPI: Final = 144
BASELINE: Final = "#4477aa"
INTERVENTION: Final = "#cc6633"
QUIET: Final = "#999999"
BUGGY: Final = "#bb2222"
STAGE_COLOURS: Final = ("#4477aa", "#228833", "#cc6633", "#aa3377", "#66ccee", "#bbbbbb")
STYLE: Final[Mapping[str, object]] = {
    "font.size": 9,
    "font.family": "DejaVu Sans",  # carried by matplotlib: the same letters everywhere
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "podfleet",
    "svg.fonttype": "none",
    "path.simplify": True,
    "text.parse_math": False,  # names and errors hold dollar signs that mean nothing
}
NO_DATES: Final[Mapping[str, Mapping[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}
LABEL_MAX: Final = 40

Row = Sequence[object]


def kept(figure: Figure, folder: Path, name: str, table: tuple[Row, Iterable[Row]], caption: str) -> Picture:
    """Write the picture in its three forms and, beside it, the rows that drew it."""
    header, rows = table[0], list(table[1])
    assert rows, f"{name} has no data"
    for axes in figure.axes:
        assert _shows_something(axes), f"{name} has empty axes"
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)  # once, so that all forms look the same
        figure.set_layout_engine(None)  # with a placeholder each form is drawn twice
    images = []
    for form in FORMS:
        image = place_beneath(folder, RunPath(f"{name}.{form}"))
        figure.savefig(image, dpi=DPI, format=form, metadata=dict(NO_DATES[form]))
        images.append(image)
    data = RunPath(f"{name}.{TABLE}")
    with write_beneath(folder, data) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        for row in (header, *rows):
            writer.writerow([for_spreadsheet(cell) if isinstance(cell, str) else cell for cell in row])
    return Picture(name, caption, tuple(images), folder / data)


def _shows_something(axes: Axes) -> bool:
    """Return whether the axes hold a mark at a finite place, or words."""
    if any(text.get_text().strip() for text in axes.texts) or axes.patches:
        return True
    if any(_is_finite(value) for line in axes.lines for value in _heights(line)):
        return True
    return any(_is_finite(value) for each in axes.collections for value in _places(each))


def _heights(line: Any) -> list[float]:
    return [float(value) for value in line.get_ydata()]


def _places(collection: Any) -> list[float]:
    return [float(value) for place in collection.get_offsets() for value in place]


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that can be drawn."""
    return [value for value in values if value is not None and math.isfinite(value)]


def label_of(text: str, limit: int = LABEL_MAX, font: str = LABELS) -> str:
    """Return a text as a label: on one line, bounded, in signs that the font has."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    clean = "".join(char if has_glyph(char, font) else "□" for char in clean)
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def short_id(node: str) -> str:
    """Return a node's id as it fits a mark, such as `2.3` for `Stage_2/3`."""
    return label_of(node.removeprefix("Stage_").replace("/", "."), 12)


def log_where_positive(axes: Axes, values: Sequence[float]) -> None:
    """Use a logarithmic scale where the values allow it and spread enough to want it."""
    if not values or min(values) <= 0 or max(values) <= 3 * min(values):
        return
    axes.set_yscale("log")
    is_wide = max(values) > 100 * min(values)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # the usual one speaks TeX
    axes.yaxis.set_minor_formatter(NullFormatter())
