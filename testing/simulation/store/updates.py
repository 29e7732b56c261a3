"""Updates: a classic one field by field, a pipeline stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from pymongo.errors import WriteError

from testing.simulation.store.expressions import Scope, evaluate
from testing.simulation.store.matching import is_operators, satisfies
from testing.simulation.store.order import MISSING, key
from testing.simulation.store.paths import assign, evaluated, remove

Update = Mapping[str, Any] | Sequence[Mapping[str, Any]]
IMMUTABLE_FIELD: Final = 66
BAD_VALUE: Final = 2


@dataclass(frozen=True, slots=True)
class Moment:
    """When an update happens, and whether its document is only made by it."""

    now: datetime
    is_insert: bool = False


def updated(document: dict[str, Any], update: Update, moment: Moment) -> dict[str, Any]:
    """Return `document` after `update`; the argument is used up."""
    identity = document.get("_id", MISSING)
    if isinstance(update, list):
        document = _pipeline(document, update, moment.now)
    else:
        _classic(document, cast("Mapping[str, Any]", update), moment)
    if identity is not MISSING and key(document.get("_id", MISSING)) != key(identity):
        message = "Performing an update on the path '_id' would modify the immutable field '_id'"
        raise WriteError(message, IMMUTABLE_FIELD, {"code": IMMUTABLE_FIELD, "errmsg": message})
    return document


def seed(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document from which an upsert starts: what the query says by equality."""
    document: dict[str, Any] = {}
    for path, value in _equalities(query):
        assign(document, path, value)
    return document


def _equalities(query: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, wanted in query.items():
        if name == "$and":
            for each in wanted:
                yield from _equalities(each)
        elif name.startswith("$"):
            continue
        elif not is_operators(wanted):
            yield name, wanted
        elif "$eq" in wanted:
            yield name, wanted["$eq"]


def _classic(document: dict[str, Any], update: Mapping[str, Any], moment: Moment) -> None:
    for operator, fields in update.items():
        for path, operand in fields.items():
            _apply(document, operator, path, operand, moment)


def _apply(document: dict[str, Any], operator: str, path: str, operand: Any, moment: Moment) -> None:
    before = evaluated(document, path.split("."))
    match operator:
        case "$set":
            assign(document, path, operand)
        case "$setOnInsert":
            if moment.is_insert:
                assign(document, path, operand)
        case "$unset":
            remove(document, path)
        case "$currentDate" if operand is True:
            assign(document, path, moment.now)
        case "$inc":
            assign(document, path, operand if before is MISSING else before + operand)
        case "$max":
            if before is MISSING or key(operand) > key(before):
                assign(document, path, operand)
        case "$push":
            _push(document, path, before, operand)
        case "$pull":
            _pull(document, path, before, operand, moment.now)
        case _:
            raise NotImplementedError(f"the update operator {operator} with {operand!r}")


def _push(document: dict[str, Any], path: str, before: Any, operand: Any) -> None:
    match operand:
        case {"$each": added, "$slice": most, **more} if not more and most < 0:
            assign(document, path, [*([] if before is MISSING else before), *added][most:])
        case Mapping() if any(name.startswith("$") for name in operand):
            raise NotImplementedError(f"the update operator $push with {operand!r}")
        case _:
            assign(document, path, [*([] if before is MISSING else before), operand])


def _pull(document: dict[str, Any], path: str, before: Any, condition: Any, now: datetime) -> None:
    if before is MISSING:
        return
    if not isinstance(before, list):
        message = "Cannot apply $pull to a non-array value"
        raise WriteError(message, BAD_VALUE, {"code": BAD_VALUE, "errmsg": message})
    assign(document, path, [each for each in before if not satisfies(each, condition, now)])


def _pipeline(document: dict[str, Any], stages: Sequence[Mapping[str, Any]], now: datetime) -> dict[str, Any]:
    for stage in stages:
        (operator, argument), *_ = stage.items()
        match operator:
            case "$set":
                document = with_fields(document, argument, Scope(document, now))
            case "$unset":
                document = dict(document)
                for path in [argument] if isinstance(argument, str) else argument:
                    remove(document, path)
            case _:
                raise NotImplementedError(f"the update stage {operator}")
    return document


def with_fields(target: Mapping[str, Any], fields: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return `target` with `fields`, all of them evaluated on the document before the stage."""
    result = dict(target)
    for path, expression in fields.items():
        first, _, rest = path.partition(".")
        result[first] = _placed(result.get(first, MISSING), {rest: expression} if rest else expression, scope)
        if result[first] is MISSING:
            del result[first]
    return result


def _placed(before: Any, expression: Any, scope: Scope) -> Any:
    is_bare = isinstance(expression, dict) and not is_operators(expression)
    if not is_bare or not expression:
        return evaluate(expression, scope)
    # A bare document is merged into the one that stands there, and into each of an array.
    if isinstance(before, list):
        return [_placed(each, expression, scope) for each in before]
    return with_fields(before if isinstance(before, dict) else {}, expression, scope)
