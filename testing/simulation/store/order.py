"""How MongoDB compares any two values: by type first, then within the type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final


class Absent(Enum):
    """What stands at a path that a document does not have."""

    MISSING = "missing"


MISSING: Final = Absent.MISSING

_MISSING, _NULL, _NUMBER, _TEXT, _OBJECT, _ARRAY, _BYTES, _BOOLEAN, _DATE = range(9)
TYPE_NAMES: Final[Mapping[str, frozenset[int]]] = {
    "null": frozenset({_NULL}),
    "number": frozenset({_NUMBER}),
    "string": frozenset({_TEXT}),
    "object": frozenset({_OBJECT}),
    "array": frozenset({_ARRAY}),
    "bool": frozenset({_BOOLEAN}),
    "date": frozenset({_DATE}),
}


def rank(value: Any) -> int:
    """Return the place of the value's type among the types."""
    match value:
        case bool():
            return _BOOLEAN
        case int() | float():
            return _NUMBER
        case str():
            return _TEXT
        case None:
            return _NULL
        case datetime():
            return _DATE
        case dict():
            return _OBJECT
        case list() | tuple():
            return _ARRAY
        case bytes():
            return _BYTES
        case Absent():
            return _MISSING
    raise NotImplementedError(f"a value of type {type(value).__name__}")


def key(value: Any) -> tuple[Any, ...]:
    """Return a key that orders, and equals, as MongoDB does: `1` is `1.0`, and `True` is no number."""
    place = rank(value)
    if place == _NUMBER:
        return (place, 0, 0) if math.isnan(value) else (place, 1, value)
    if place == _OBJECT:
        return (place, tuple((rank(each), name, key(each)) for name, each in value.items()))
    if place == _ARRAY:
        return (place, tuple(key(each) for each in value))
    return (place,) if place in (_MISSING, _NULL) else (place, value)


def is_true(value: Any) -> bool:
    """Say whether an expression's value counts as true."""
    return not (value is MISSING or value is None or (rank(value) in (_NUMBER, _BOOLEAN) and not value))
