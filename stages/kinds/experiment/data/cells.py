"""Text cells that become a column, chunk by chunk: numbers, truths, times or names; pure.

Law: each reading is kept until one cell refutes it, so one pass decides what a column is, and a
column that is nothing of all this is forgotten while it is read.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stages.kinds.experiment.data.columns import CATEGORIES_MAX, Column, Names, Numbers, Unusable, shown

MISSING: Final = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?"})
MISSING_MARK: Final = 0
TRUTHS: Final = frozenset({"true", "false"})
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?", re.ASCII)


class NameColumn:
    """Text values as codes; where they are too many to be categories, only what tells them apart is kept."""

    def __init__(self) -> None:
        self.codes = array("i")
        self.seen: dict[str, int] = {}
        self.excess: str | None = None
        self.marks = array("q")  # of cells, where values are too many

    def add(self, cells: Sequence[str | None]) -> None:
        """Take the next cells, None where one is missing."""
        if self.excess is not None:
            self.marks.extend(map(_mark, cells))
            return
        for cell in sorted({cell for cell in cells if cell is not None}):
            if cell not in self.seen and len(self.seen) == CATEGORIES_MAX:
                known = [*map(_mark, self.seen), MISSING_MARK]
                self.marks.extend([known[code] for code in self.codes])
                self.marks.extend(map(_mark, cells))
                self.excess, self.codes, self.seen = cell, array("i"), {}
                return
            self.seen.setdefault(cell, len(self.seen))
        self.codes.extend([-1 if cell is None else self.seen[cell] for cell in cells])

    def finished(self, name: str) -> Names | Unusable:
        """Return the column, its values sorted so that the order of the rows does not matter."""
        if self.excess is not None:
            reason = f"is text with more than {CATEGORIES_MAX} different values, such as {shown(self.excess)}"
            return Unusable(name, reason, _numbered(np.frombuffer(self.marks, dtype=np.int64)))
        values = sorted(self.seen)
        place = np.array([*np.argsort([self.seen[value] for value in values]), -1], dtype=np.int32)
        return Names(name, place[np.frombuffer(self.codes, dtype=np.int32)], tuple(values))


class TextColumn:
    """A column of a text file, whose type is not declared."""

    def __init__(self, name: str, *, decimal_comma: bool) -> None:
        self.name = name
        self.numbers: array[float] | None = array("d")
        self.seconds: array[float] | None = array("d")
        self.names = NameColumn()
        self._number: Callable[[str], float] = _comma_number if decimal_comma else _number

    def add(self, cells: Sequence[str]) -> None:
        """Take the next cells, already without the blanks around them."""
        known = self.numbers
        if known is not None:
            self.numbers = _extended(known, cells, self._number)
            if self.numbers is None and self.names.excess is not None:
                self.names.marks = array(
                    "q", [MISSING_MARK if math.isnan(x) else _mark(str(x)) for x in known]
                )
        if self.seconds is not None:
            self.seconds = _extended(self.seconds, cells, _seconds)
        if self.names.excess is None or self.numbers is None:
            self.names.add([None if cell.casefold() in MISSING else cell for cell in cells])

    def finished(self) -> Column:
        """Return what the column has turned out to hold."""
        if self.numbers is not None:
            return Numbers(self.name, np.frombuffer(self.numbers))
        if self.seconds is not None:
            return Numbers(self.name, np.frombuffer(self.seconds), "time")
        names = self.names.finished(self.name)
        if isinstance(names, Names) and {value.casefold() for value in names.values} <= TRUTHS:
            truth = np.array([*(value.casefold() == "true" for value in names.values), math.nan])
            return Numbers(self.name, truth[names.codes], "truth")
        return names


def _mark(cell: str | None) -> int:
    return MISSING_MARK if cell is None else hash(cell) or 1


def _numbered(marks: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return each mark as the number of its first row, −1 where a cell is missing: marks differ by process."""
    _, first, places = np.unique(marks, return_index=True, return_inverse=True)
    return np.where(marks == MISSING_MARK, -1, first[places]).astype(np.int32)


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number that a heading would not be."""
    try:
        return math.isfinite(_comma_number(cell))
    except ValueError:
        return False


def _extended(known: array[float], cells: Sequence[str], read: Callable[[str], float]) -> array[float] | None:
    """Return `known` with what `read` makes of the cells; None as soon as it refuses one."""
    try:
        # Built before it is appended: a cell that is refused must not leave half a chunk behind.
        known.extend([read(cell) for cell in cells])
    except ValueError:
        return None
    return known


def _number(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        if cell.casefold() in MISSING:
            return math.nan
        raise
    if "_" in cell:  # Python reads 1_2 as 12; in a table it is a name
        raise ValueError(cell)
    return value


def _comma_number(cell: str) -> float:
    return _number(cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell)


def _seconds(cell: str) -> float:
    if _TIME.fullmatch(cell) is None:
        if cell.casefold() in MISSING:
            return math.nan
        raise ValueError(cell)
    moment = datetime.fromisoformat(cell)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()
