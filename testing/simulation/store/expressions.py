"""Aggregation expressions, as far as the product uses them; any other is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from bson.int64 import Int64
from pymongo.errors import OperationFailure

from testing.simulation.store.order import MISSING, is_true, key
from testing.simulation.store.paths import evaluated

_UNITS: Final = {
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression can see: its document, the store's clock, and variables."""

    root: Mapping[str, Any]
    now: datetime
    variables: Mapping[str, Any] = field(default_factory=dict)


def evaluate(expression: Any, scope: Scope) -> Any:
    """Return the value of `expression`, `MISSING` where it has none."""
    match expression:
        case str():
            return _text(expression, scope)
        case dict() if len(expression) == 1 and next(iter(expression)).startswith("$"):
            (operator, argument), *_ = expression.items()
            return _operate(operator, argument, scope)
        case dict():
            _check_names(expression)
            fields = {name: evaluate(each, scope) for name, each in expression.items()}
            return {name: each for name, each in fields.items() if each is not MISSING}
        case list() | tuple():
            return [_or_null(evaluate(each, scope)) for each in expression]
    return expression


def _text(expression: str, scope: Scope) -> Any:
    if expression.startswith("$$"):
        name, *rest = expression[2:].split(".")
        known = {"NOW": scope.now, "ROOT": scope.root, "REMOVE": MISSING, **scope.variables}
        if name not in known:
            raise NotImplementedError(f"the variable $${name}")
        return evaluated(known[name], rest)
    if expression.startswith("$"):
        return evaluated(scope.root, expression[1:].split("."))
    return expression


def _check_names(fields: Mapping[str, Any]) -> None:
    for name in fields:
        if name.startswith("$") or "." in name:
            raise OperationFailure(f"Invalid field name in an expression: {name}", 16410)


def _or_null(value: Any) -> Any:
    return None if value is MISSING else value


def _operate(operator: str, argument: Any, scope: Scope) -> Any:
    if operator == "$literal":
        return argument
    if operator in _LAZY:
        return _LAZY[operator](argument, scope)
    eager = _EAGER.get(operator)
    if eager is None:
        raise NotImplementedError(f"the expression operator {operator}")
    arguments = argument if isinstance(argument, list | tuple) else [argument]
    return eager([evaluate(each, scope) for each in arguments])


def _filter(argument: Mapping[str, Any], scope: Scope) -> Any:
    array = evaluate(argument["input"], scope)
    if array is MISSING or array is None:
        return None
    name = argument.get("as", "this")
    return [
        each
        for each in array
        if is_true(evaluate(argument["cond"], Scope(scope.root, scope.now, {**scope.variables, name: each})))
    ]


def _map(argument: Mapping[str, Any], scope: Scope) -> Any:
    array = evaluate(argument["input"], scope)
    if array is MISSING or array is None:
        return None
    name = argument.get("as", "this")
    return [
        _or_null(evaluate(argument["in"], Scope(scope.root, scope.now, {**scope.variables, name: each})))
        for each in array
    ]


def _condition(argument: Any, scope: Scope) -> Any:
    if isinstance(argument, dict):
        argument = [argument["if"], argument["then"], argument["else"]]
    condition, then, otherwise = argument
    return evaluate(then if is_true(evaluate(condition, scope)) else otherwise, scope)


def _shifted(sign: int) -> Callable[[Mapping[str, Any], Scope], Any]:
    def shift(argument: Mapping[str, Any], scope: Scope) -> Any:
        start = evaluate(argument["startDate"], scope)
        amount = evaluate(argument["amount"], scope)
        if any(each is MISSING or each is None for each in (start, amount)):
            return None
        if not isinstance(start, datetime):
            raise OperationFailure("$dateAdd requires startDate to be convertible to a date", 5166403)
        return start + sign * amount * _UNITS[argument["unit"]]

    return shift


_LAZY: Final[Mapping[str, Callable[[Any, Scope], Any]]] = {
    "$filter": _filter,
    "$map": _map,
    "$cond": _condition,
    "$dateAdd": _shifted(1),
    "$dateSubtract": _shifted(-1),
}


def _add(values: Sequence[Any]) -> Any:
    if any(each is MISSING or each is None for each in values):
        return None
    if any(isinstance(each, bool | str | dict | list) for each in values):
        raise OperationFailure("$add only supports numeric or date types", 14)
    dates = [each for each in values if isinstance(each, datetime)]
    numbers = [each for each in values if not isinstance(each, datetime)]
    total = sum(numbers)
    if dates:
        (start,) = dates
        return start + timedelta(milliseconds=total)
    return Int64(total) if any(isinstance(each, Int64) for each in numbers) else total


def _merge(values: Sequence[Any]) -> Any:
    merged: dict[str, Any] = {}
    for each in values:
        if each is MISSING or each is None:
            continue
        if not isinstance(each, dict):
            raise OperationFailure("$mergeObjects requires object inputs", 40400)
        merged |= each
    return merged


def _concatenate(values: Sequence[Any]) -> Any:
    if any(each is MISSING or each is None for each in values):
        return None
    if not all(isinstance(each, list) for each in values):
        raise OperationFailure("$concatArrays only supports arrays", 28664)
    return [each for array in values for each in array]


def _extreme(choose: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
    def extreme(values: Sequence[Any]) -> Any:
        given = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        known = [each for each in given if each is not MISSING and each is not None]
        return choose(known, key=key) if known else None

    return extreme


def _if_null(values: Sequence[Any]) -> Any:
    return next((each for each in values if each is not MISSING and each is not None), values[-1])


def _size(values: Sequence[Any]) -> Any:
    (array,) = values
    if not isinstance(array, list):
        raise OperationFailure("The argument to $size must be an array", 17124)
    return len(array)


def _compare(compare: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any]], bool]:
    def judge(values: Sequence[Any]) -> bool:
        left, right = values
        return compare(key(left), key(right))

    return judge


_EAGER: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "$add": _add,
    "$mergeObjects": _merge,
    "$concatArrays": _concatenate,
    "$max": _extreme(max),
    "$min": _extreme(min),
    "$ifNull": _if_null,
    "$slice": lambda values: values[0][: values[1]] if values[1] > 0 else values[0][values[1] :],
    "$size": _size,
    "$eq": _compare(lambda one, other: bool(one == other)),
    "$ne": _compare(lambda one, other: bool(one != other)),
    "$lt": _compare(lambda one, other: bool(one < other)),
    "$lte": _compare(lambda one, other: bool(one <= other)),
    "$gt": _compare(lambda one, other: bool(one > other)),
    "$gte": _compare(lambda one, other: bool(one >= other)),
    "$and": lambda values: all(is_true(each) for each in values),
    "$or": lambda values: any(is_true(each) for each in values),
    "$not": lambda values: not is_true(values[0]),
    "$in": lambda values: any(key(values[0]) == key(each) for each in values[1]),
}
