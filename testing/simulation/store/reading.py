"""What a read does with the documents it found: order, projection, aggregation stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from testing.simulation.store.expressions import Scope, evaluate
from testing.simulation.store.matching import is_operators, matches
from testing.simulation.store.order import MISSING, key
from testing.simulation.store.paths import assign, evaluated, found, remove
from testing.simulation.store.updates import with_fields

Document = dict[str, Any]
Order = Sequence[tuple[str, int]]


def ordered(documents: Iterable[Document], order: Order) -> list[Document]:
    """Return the documents in `order`; what is equal stays in the order of insertion."""
    result = list(documents)
    for document in result:
        if sum(isinstance(evaluated(document, path.split(".")), list) for path, _ in order) > 1:
            raise NotImplementedError("an order by two arrays")
    for path, direction in reversed(order):
        parts = path.split(".")
        result.sort(key=lambda each: _sort_key(each, parts, direction), reverse=direction < 0)
    return result


def _sort_key(document: Document, parts: Sequence[str], direction: int) -> tuple[Any, ...]:
    values = [each for each in found(document, parts) if not isinstance(each, list)]
    keys = [key(None if each is MISSING else each) for each in values] or [key(None)]
    return max(keys) if direction < 0 else min(keys)


def projected(document: Document, projection: Mapping[str, Any] | Sequence[str] | None) -> Document:
    """Return the part of `document` that a `find` asks for."""
    if not projection:
        return document
    if not isinstance(projection, Mapping):
        projection = dict.fromkeys(projection, 1)
    if not all(isinstance(each, int | float) for each in projection.values()):
        raise NotImplementedError(f"a projection by expression in find: {projection}")
    return _chosen(document, projection)


def _chosen(document: Document, projection: Mapping[str, Any]) -> Document:
    wanted = {name: bool(each) for name, each in projection.items() if name != "_id"}
    if not any(wanted.values()):
        for name in [*wanted, *(["_id"] if not projection.get("_id", 1) else [])]:
            if wanted or not projection.get("_id", 1):
                remove(document, name)
        return document if wanted or not projection.get("_id", 1) else {"_id": document["_id"]}
    result = {"_id": document["_id"]} if projection.get("_id", 1) and "_id" in document else {}
    for name in wanted:
        value = evaluated(document, name.split("."))
        if value is not MISSING:
            assign(result, name, value)
    return result


def aggregated(
    documents: Iterable[Document],
    stages: Sequence[Mapping[str, Any]],
    now: datetime,
    beside: Callable[[Mapping[str, Any]], list[Document]] = lambda _: [],
) -> list[Document]:
    """Return what an aggregation makes of the documents; `beside` are those that a union begins with."""
    result = list(documents)
    for stage in stages:
        (operator, argument), *_ = stage.items()
        match operator:
            case "$match":
                result = [each for each in result if matches(each, argument, now)]
            case "$project":
                result = [_computed(each, argument, now) for each in result]
            case "$set":
                result = [with_fields(each, argument, Scope(each, now)) for each in result]
            case "$group":
                result = _grouped(result, argument, now)
            case "$sort":
                result = ordered(result, list(argument.items()))
            case "$limit":
                result = result[:argument]
            case "$unionWith":
                result += aggregated(beside(argument), argument["pipeline"], now)
            case _:
                raise NotImplementedError(f"the aggregation stage {operator}")
    return result


def _computed(document: Document, fields: Mapping[str, Any], now: datetime) -> Document:
    plain = {name: each for name, each in fields.items() if isinstance(each, int | float)}
    if len(plain) == len(fields):
        return _chosen(document, fields)
    if any(not each for name, each in plain.items() if name != "_id"):
        raise NotImplementedError(f"a projection that excludes and computes: {fields}")
    result = _chosen(document, {"_id": plain.get("_id", 1), **plain, "": 1})
    scope = Scope(document, now)
    for name, expression in fields.items():
        if name in plain:
            continue
        if isinstance(expression, dict) and not is_operators(expression):
            raise NotImplementedError(f"a nested projection: {name}")
        value = evaluate(expression, scope)
        if value is not MISSING:
            assign(result, name, value)
    return result


def _grouped(documents: Sequence[Document], fields: Mapping[str, Any], now: datetime) -> list[Document]:
    groups: dict[tuple[Any, ...], tuple[Any, list[Document]]] = {}
    for document in documents:
        identity = evaluate(fields["_id"], Scope(document, now))
        groups.setdefault(key(identity), (None if identity is MISSING else identity, []))[1].append(document)
    return [
        {
            "_id": identity,
            **{
                name: _accumulated(accumulator, members, now)
                for name, accumulator in fields.items()
                if name != "_id"
            },
        }
        for identity, members in groups.values()
    ]


def _accumulated(accumulator: Mapping[str, Any], members: Sequence[Document], now: datetime) -> Any:
    (operator, expression), *_ = accumulator.items()
    plain = members if operator != "$firstN" else ()
    values = [evaluate(expression, Scope(each, now)) for each in plain]
    known = [each for each in values if each is not MISSING and each is not None]
    match operator:
        case "$sum":
            return sum(each for each in known if isinstance(each, int | float) and not isinstance(each, bool))
        case "$min":
            return min(known, key=key) if known else None
        case "$max":
            return max(known, key=key) if known else None
        case "$first":
            return None if values[0] is MISSING else values[0]
        case "$firstN":
            return [None if each is MISSING else each for each in _inputs(expression, members, now)]
        case "$push":
            return [each for each in values if each is not MISSING]
    raise NotImplementedError(f"the accumulator {operator}")


def _inputs(wanted: Mapping[str, Any], members: Sequence[Document], now: datetime) -> list[Any]:
    return [evaluate(wanted["input"], Scope(each, now)) for each in members[: wanted["n"]]]
