"""Filters: whether a document is what a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import NoneType
from typing import Any, Final

from testing.simulation.store.expressions import Scope, evaluate
from testing.simulation.store.order import MISSING, TYPE_NAMES, is_true, key, rank
from testing.simulation.store.paths import found

Condition = Mapping[str, Any]

_PLAIN: Final = frozenset({str, int, float, bool, datetime, NoneType})
_NUMBERS: Final = frozenset({int, float})  # a boolean is no number


def matches(document: Mapping[str, Any], query: Condition, now: datetime) -> bool:
    """Say whether `document` matches `query`, of which `$$NOW` is `now`."""
    for name, wanted in query.items():  # a loop, since half of a history's time is spent here
        if name.startswith("$"):
            if not _holds(document, name, wanted, now):
                return False
        elif not _suits(_values(document, name), wanted):
            return False
    return True


def _holds(document: Mapping[str, Any], operator: str, wanted: Any, now: datetime) -> bool:
    match operator:
        case "$and":
            return all(matches(document, each, now) for each in wanted)
        case "$or":
            return any(matches(document, each, now) for each in wanted)
        case "$nor":
            return not any(matches(document, each, now) for each in wanted)
        case "$expr":
            return is_true(evaluate(wanted, Scope(document, now)))
    raise NotImplementedError(f"the query operator {operator}")


def _suits(values: list[Any], wanted: Any) -> bool:
    if is_operators(wanted):
        return all(_satisfies(values, operator, operand) for operator, operand in wanted.items())
    return _equals(values, wanted)


def _values(document: Mapping[str, Any], name: str) -> list[Any]:
    """Return what a filter sees at a path; most paths are one field, whose value is no array."""
    if "." in name:
        return list(found(document, name.split(".")))
    value = document.get(name, MISSING)
    return [value, *value] if isinstance(value, list) else [value]


def is_operators(wanted: Any) -> bool:
    """Say whether a condition consists of operators, and is no value to be equal to."""
    if type(wanted) in _PLAIN:
        return False
    return isinstance(wanted, Mapping) and any(name.startswith("$") for name in wanted)


def satisfies(value: Any, condition: Any, now: datetime) -> bool:
    """Say whether one element of an array is what `$pull` asks for."""
    if isinstance(condition, dict) and not is_operators(condition):
        return isinstance(value, dict) and matches(value, condition, now)
    return matches({"element": value}, {"element": condition}, now)


def _satisfies(values: list[Any], operator: str, operand: Any) -> bool:
    match operator:
        case "$eq":
            return _equals(values, operand)
        case "$ne":
            return not _equals(values, operand)
        case "$in":
            return any(_equals(values, each) for each in operand)
        case "$nin":
            return not any(_equals(values, each) for each in operand)
        case "$exists":
            return any(each is not MISSING for each in values) is bool(operand)
        case "$type":
            return any(rank(each) in TYPE_NAMES[operand] for each in values)
        case "$not":
            return not all(_satisfies(values, name, each) for name, each in operand.items())
    compare = _COMPARISONS.get(operator)
    if compare is None:
        raise NotImplementedError(f"the query operator {operator}")
    limit = key(operand)
    # Only values of the same type are comparable in a filter.
    return any(rank(each) == limit[0] and compare(key(each), limit) for each in values)


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}


def _equals(values: list[Any], wanted: Any) -> bool:
    if wanted is None:
        return any(each is None or each is MISSING for each in values)
    if isinstance(wanted, str):
        return wanted in values
    if type(wanted) is int:
        return any(each == wanted and type(each) in _NUMBERS for each in values)
    wanted_key = key(wanted)
    return any(key(each) == wanted_key for each in values)
