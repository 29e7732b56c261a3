"""Results: the rows that runs of a kind record, and their headline numbers, as a kind declares them, pure.

Law: the first `SORTED_MAX` columns of a set are sorted by an index. A stored row has them beside its values,
in the order of the declaration, so new columns are added at the end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Annotated, Final, Literal, TypeGuard

import msgspec

SETS_MAX: Final = 8
COLUMNS_MAX: Final = 64
SORTED_MAX: Final = 8
# Of an attempt; each row counts as `ROW_BYTES_MIN` at least, one that is said again counts again.
ROWS_MAX: Final = 100_000
RESULT_BYTES_MAX: Final = 256_000_000
ROW_BYTES_MIN: Final = RESULT_BYTES_MAX // ROWS_MAX
NORMAL_95: Final = 1.959963984540054  # of a normal distribution, for 95 % within both sides
TITLE_CHARS_MAX: Final = 100
UNIT_CHARS_MAX: Final = 20
KEY_BYTES_MAX: Final = 200
TEXT_BYTES_MAX: Final = 1024
STATUS_CHARS_MAX: Final = 40
SORT_CHARS_MAX: Final = 64  # of a text by which rows are sorted
FLOAT_MAX: Final = sys.float_info.max
WHOLE_MAX: Final = 2**53  # a larger whole number is another one in many programs
SORT_NAMES: Final = tuple(f"c{number}" for number in range(SORTED_MAX))
SET_NAME: Final = "[a-z][a-z0-9_]{0,39}"
COLUMN_NAME: Final = "[A-Za-z][A-Za-z0-9_-]{0,63}"
# What a row has beside its values, and a filter may name.
OF_EVERY_ROW: Final = ("key", "status")

Value = Annotated[int, msgspec.Meta(ge=-WHOLE_MAX, le=WHOLE_MAX)] | float | str | bool | None
ColumnType = Literal["number", "text", "bool"]
Direction = Literal["higher", "lower"]
# `$` would let a line break follow, and a set gives its name to the file of an export.
SetName = Annotated[str, msgspec.Meta(pattern=rf"\A{SET_NAME}\Z")]
ColumnName = Annotated[str, msgspec.Meta(pattern=rf"\A{COLUMN_NAME}\Z")]
Values = Annotated[dict[ColumnName, Value], msgspec.Meta(max_length=COLUMNS_MAX)]

_FORMAT: Final = re.compile(r"|\+?,?d|\+?,?\.[0-9][efg%]")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"number": (int, float), "text": (str,), "bool": (bool,)}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the type of its values, their unit, which direction is better, and their format.

    `format` is a format of Python for numbers: `.3f`, `.1%`, `.4g` or `d`; empty is the shortest form.
    A headline number that is a share names the one that counts what it is a share of: `share_of`.
    """

    name: str
    type: ColumnType = "number"
    unit: str = ""
    direction: Direction | None = None
    format: str = ""
    share_of: str = ""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The board that a kind proposes: headline numbers by the field `rows`, others `beside` each cell."""

    title: str
    rows: str
    cells: tuple[str, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the rows of a set end, so that their ends are counted, and two runs compared item by item.

    `column` has one of `values`: `right` is success, those of `none` are no answer at all. The columns of
    `item` name what was asked, once or several times; `same` is equal where two runs have asked the same.
    """

    column: str
    values: tuple[str, ...]
    right: str
    none: tuple[str, ...]
    item: tuple[str, ...]
    same: str


@dataclass(frozen=True, slots=True)
class ResultSet:
    """Rows that a run records, which people sort, filter and compare; each has a key of its own.

    One that no kind declares, as a pod may make it up, is sorted by its key alone.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    is_declared: bool = True
    outcome: Outcome | None = None

    def column(self, name: str) -> Column | None:
        """Return the column of this name."""
        return next((each for each in self.columns if each.name == name), None)

    def sort_name(self, name: str) -> str | None:
        """Return the field of a row by which an index sorts a column; None without one."""
        names = [each.name for each in self.columns[:SORTED_MAX] if self.is_declared]
        return SORT_NAMES[names.index(name)] if name in names else None


def set_named(sets: Sequence[ResultSet], name: str) -> ResultSet | None:
    """Return the set of this name."""
    return next((each for each in sets if each.name == name), None)


def is_of(column: Column, value: Value) -> bool:
    """Say whether a value is of a column's type; a boolean is no number."""
    return isinstance(value, _TYPES[column.type]) and isinstance(value, bool) == (column.type == "bool")


def is_measured(value: object) -> TypeGuard[int | float]:
    """Say whether a headline number, or what stands in its place, is a finite number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= FLOAT_MAX


def wilson(value: float, count: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of `count` of which `value` are right; partly right ones count so.

    E. B. Wilson: Probable inference, the law of succession, and statistical inference, Journal of the
    American Statistical Association 22 (1927), 209-212.
    """
    share, square = value / count, NORMAL_95 * NORMAL_95
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = NORMAL_95 * sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def sort_values(result_set: ResultSet, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the fields of a row by which indexes sort it: null for a value that is of another type."""
    found: dict[str, Value] = {}
    for name, column in zip(SORT_NAMES, result_set.columns, strict=False):
        value = values.get(column.name)
        if isinstance(value, str):
            value = value[:SORT_CHARS_MAX]
        found[name] = value if is_of(column, value) else None
    return found


def problem_with_values(values: Mapping[str, Value]) -> str | None:
    """Return why values cannot be stored; None if they can."""
    for name, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            return f"{name} is {value}, which is no finite number"
        if isinstance(value, str) and len(value.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
            return f"the text of {name} is longer than {TEXT_BYTES_MAX} bytes"
    return None


def problem_with_key(key: str) -> str | None:
    """Return why a row cannot have this key; None if it can."""
    size = len(key.encode("utf-8", "replace"))
    return None if 1 <= size <= KEY_BYTES_MAX else f"a key has 1 to {KEY_BYTES_MAX} bytes, not {size}"


def unlike(columns: Sequence[Column], values: Mapping[str, Value]) -> str | None:
    """Return in what values differ from their declaration; None if in nothing."""
    known = {each.name: each for each in columns}
    for name, value in values.items():
        column = known.get(name)
        if column is None:
            return f"there is no column {name!r}; there are {', '.join(known) or 'none'}"
        if value is not None and not is_of(column, value):
            return f"{name} is a {column.type}, not {type(value).__name__}"
    return None


def misdeclared(results: Sequence[ResultSet], headline: Sequence[Column]) -> Iterator[str]:
    """Yield what is wrong with the results that a kind declares, as text."""
    if len(results) > SETS_MAX:
        yield f"it has {len(results)} result sets, {SETS_MAX} are the most"
    yield from _repeated("result set", [each.name for each in results])
    for each in results:
        if not re.fullmatch(SET_NAME, each.name):
            yield f"the result set {each.name!r} is not made of a-z, 0-9 and _, or is over 40 characters"
        if len(each.title) > TITLE_CHARS_MAX:
            yield f"the title of {each.name!r} is over {TITLE_CHARS_MAX} characters"
        yield from _columns(each.name, each.columns)
        named = [] if each.outcome is None else [each.outcome.column, each.outcome.same, *each.outcome.item]
        for name in named:
            if each.column(name) is None:
                yield f"the outcome of {each.name!r} names {name!r}, which is no column of it"
        for name in OF_EVERY_ROW:
            if each.column(name) is not None:
                yield f"{each.name!r} has a column {name!r}, which every row has"
    yield from _columns("headline", headline)


def _columns(where: str, columns: Sequence[Column]) -> Iterator[str]:
    if len(columns) > COLUMNS_MAX:
        yield f"{where!r} has {len(columns)} columns, {COLUMNS_MAX} are the most"
    yield from _repeated(f"column of {where!r}", [each.name for each in columns])
    for each in columns:
        if not re.fullmatch(COLUMN_NAME, each.name):
            yield f"the column {each.name!r} of {where!r} has a name that no column can have"
        if each.type not in _TYPES or each.direction not in (None, "higher", "lower"):
            yield f"the column {each.name!r} of {where!r} has an unknown type or direction"
        if not _FORMAT.fullmatch(each.format) or len(each.unit) > UNIT_CHARS_MAX:
            yield f"the column {each.name!r} of {where!r} has an unknown format, or a long unit"


def _repeated(what: str, names: Sequence[str]) -> Iterator[str]:
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield f"it has more than one {what} {name!r}"
