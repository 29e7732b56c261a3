"""Dotted paths through documents and the arrays inside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pymongo.errors import WriteError

from testing.simulation.store.order import MISSING

PATH_NOT_VIABLE: Final = 28


def found(value: Any, parts: Sequence[str]) -> Iterator[Any]:
    """Yield what a filter sees at a path: every element of an array on the way counts."""
    if not parts:
        yield value
        if isinstance(value, list):
            yield from value
        return
    first, rest = parts[0], parts[1:]
    if isinstance(value, dict):
        yield from found(value.get(first, MISSING), rest)
    elif isinstance(value, list):
        if first.isdigit():
            raise NotImplementedError(f"a position in an array: {first}")
        for each in value:
            if isinstance(each, dict):
                yield from found(each, parts)
    else:
        yield MISSING


def evaluated(value: Any, parts: Sequence[str]) -> Any:
    """Return what an expression sees at a path: through an array, the array of what its elements have."""
    for number, part in enumerate(parts):
        if isinstance(value, list):
            inner = [evaluated(each, parts[number:]) for each in value if isinstance(each, dict | list)]
            return [each for each in inner if each is not MISSING]
        if not isinstance(value, dict):
            return MISSING
        value = value.get(part, MISSING)
    return value


def assign(document: dict[str, Any], path: str, value: Any) -> None:
    """Set a path as a classic update does; what stands in the way is an error."""
    *way, last = path.split(".")
    for part in way:
        inner = document.setdefault(part, {})
        if not isinstance(inner, dict):
            if isinstance(inner, list):
                raise NotImplementedError(f"an update through an array: {path}")
            message = f"Cannot create field {last!r} in element {{{part}: {inner!r}}}"
            raise WriteError(message, PATH_NOT_VIABLE, {"code": PATH_NOT_VIABLE, "errmsg": message})
        document = inner
    document[last] = value


def remove(document: dict[str, Any], path: str) -> None:
    """Take a path away, if it is there."""
    *way, last = path.split(".")
    for part in way:
        inner = document.get(part)
        if isinstance(inner, list):
            raise NotImplementedError(f"a removal through an array: {path}")
        if not isinstance(inner, dict):
            return
        document = inner
    document.pop(last, None)
