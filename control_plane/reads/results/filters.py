"""What is asked of a result set: filters such as `score<=0.5`, a search, an order, pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from control_plane.store.results import Sorted
from events.kinds.results import (
    COLUMN_NAME,
    OF_EVERY_ROW,
    SORT_CHARS_MAX,
    TEXT_BYTES_MAX,
    Column,
    ResultSet,
    Value,
)
from events.runtime.errors import Rejected

FILTERS_MAX: Final = 8
SEARCH_CHARS_MAX: Final = 200
OPERATORS: Final = {"=": "$eq", "!=": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}
BAD_FILTER: Final = "bad_filter"
_FORM: Final = re.compile(rf"({COLUMN_NAME})\s*(<=|>=|!=|=|<|>)(.*)", re.DOTALL)
_TEXT_COLUMNS: Final = {name: Column(name, type="text") for name in OF_EVERY_ROW}


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on a column; the value is of the column's type, or null."""

    column: Column
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class Chosen:
    """The order of the rows, and the conditions that are looked at row by row."""

    sorted_by: Sorted | None
    is_descending: bool
    residual: dict[str, Any]


def chosen(wanted: ResultSet, sort: str | None, filters: Sequence[str], search: str | None) -> Chosen:
    """Return how rows are chosen. Raises `Rejected` that names the columns that there are."""
    if len(filters) > FILTERS_MAX:
        raise Rejected(BAD_FILTER, f"`filter` is given {len(filters)} times, {FILTERS_MAX} are the most")
    found = [parsed(wanted, each) for each in filters]
    name, is_descending = _order(wanted, sort, found)
    place, column = wanted.sort_name(name), wanted.column(name)
    leading = [each for each in found if place and each.column.name == name and _leads(each)]
    conditions = [_residual(each) for each in found if each not in leading]
    conditions += [_search(wanted, search)] if search else []
    residual = {"$and": conditions} if conditions else {}
    if place is None or column is None:
        return Chosen(None, is_descending, residual)
    bounds: dict[str, Any] = {}
    for each in leading:
        _narrow(bounds, each)
    return Chosen(Sorted(place, column.type, is_descending, bounds), is_descending, residual)


def _order(wanted: ResultSet, sort: str | None, filters: Sequence[Filter]) -> tuple[str, bool]:
    """Return the column of the order, and whether it is against it; without one a filter leads."""
    if sort is None:
        leading = [each.column.name for each in filters if _leads(each)]
        return next((name for name in leading if wanted.sort_name(name)), "key"), False
    name = sort.removeprefix("-")
    if name != "key" and wanted.sort_name(name) is None:
        known = ", ".join(sortable(wanted))
        raise Rejected("bad_sort", f"{wanted.name} is not sorted by {name[:80]!r}; it is by {known}")
    return name, sort.startswith("-")


def sortable(wanted: ResultSet) -> list[str]:
    """Return the columns by which an index sorts a set."""
    return ["key", *(each.name for each in wanted.columns if wanted.sort_name(each.name))]


def parsed(wanted: ResultSet, text: str) -> Filter:
    """Return a filter such as `score>=0.5`. Raises `Rejected`."""
    form = _FORM.fullmatch(text)
    if form is None or len(text.encode("utf-8", "replace")) > 2 * TEXT_BYTES_MAX:
        raise Rejected(
            BAD_FILTER, f"{text[:80]!r} is no filter: write column>=0.5, column=text or column!=null"
        )
    name, operator, given = form.groups()
    column = wanted.column(name) or _TEXT_COLUMNS.get(name)
    if column is None:
        known = ", ".join([*_TEXT_COLUMNS, *(each.name for each in wanted.columns)])
        raise Rejected("unknown_column", f"{wanted.name} has no column {name!r}; it has {known}")
    value = _value(column, given.strip())
    if (value is None or column.type == "bool") and operator not in ("=", "!="):
        raise Rejected(BAD_FILTER, f"{name} is compared by = or != with {given.strip()[:80]!r}")
    if "\0" in text:
        raise Rejected(BAD_FILTER, f"the filter of {name} holds the character NUL, which no value holds")
    return Filter(column, operator, value)


def _value(column: Column, given: str) -> Value:
    if given == "null":
        return None
    if column.type == "text":
        return given
    if column.type == "bool":
        if given not in ("true", "false"):
            raise Rejected(BAD_FILTER, f"{column.name} is true or false, not {given[:80]!r}")
        return given == "true"
    try:
        number = float(given)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise Rejected(BAD_FILTER, f"{column.name} is a number, not {given[:80]!r}")
    return number


def _leads(filter: Filter) -> bool:
    """Say whether an index of the column finds what a filter wants."""
    is_exact = filter.column.type != "text" or (
        isinstance(filter.value, str) and filter.operator == "=" and len(filter.value) < SORT_CHARS_MAX
    )
    return filter.value is not None and filter.operator != "!=" and is_exact


def _narrow(bounds: dict[str, Any], filter: Filter) -> None:
    """Add a condition to those on the column of the order; of two on one side the narrower stays."""
    name, value = OPERATORS[filter.operator], filter.value
    if name not in bounds:
        bounds[name] = value
    elif name == "$eq" and bounds[name] != value:
        bounds["$in"] = []  # nothing equals both
    elif name != "$eq":
        bounds[name] = (max if name in ("$gt", "$gte") else min)(bounds[name], value)


def _residual(filter: Filter) -> dict[str, Any]:
    field = filter.column.name if filter.column.name in OF_EVERY_ROW else f"values.{filter.column.name}"
    if filter.operator == "!=":
        return {field: {"$nin": [filter.value, None]}}
    return {field: {OPERATORS[filter.operator]: filter.value}}


def _search(wanted: ResultSet, search: str) -> dict[str, Any]:
    if len(search) > SEARCH_CHARS_MAX or "\0" in search:
        raise Rejected("bad_search", f"`q` is longer than {SEARCH_CHARS_MAX} characters, or holds a NUL")
    matches = {"$regex": re.escape(search), "$options": "i"}
    texts = [f"values.{each.name}" for each in wanted.columns if each.type == "text"]
    return {"$or": [{name: matches} for name in (*OF_EVERY_ROW, *texts)]}
