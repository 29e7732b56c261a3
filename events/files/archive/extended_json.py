"""Stored documents as canonical extended JSON, which keeps the types of their values, pure.

It is MongoDB's format, without what no document of a run has: who reads it makes numbers, moments, texts,
lists and mappings of it, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from events.runtime.errors import Rejected

DEPTH_MAX: Final = 100  # as the verifier reads documents
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
INT_BITS: Final = 31
LONG_BITS: Final = 63
NOT_KEPT: Final = "not_archivable"
BAD: Final = "bad_document"
_WHOLE: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})\Z")
_DOUBLE: Final = re.compile(r"(-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,5})?|-?Infinity|NaN)\Z")


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return a document as one line without its end; its own fields in the order of their names.

    Raises `Rejected` (`not_archivable`) for a value that no document of a run has.
    """
    return msgspec.json.encode({name: _encoded(document[name], 1) for name in sorted(document)})


def _encoded(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise Rejected(NOT_KEPT, f"a document is nested deeper than {DEPTH_MAX} levels")
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case int():
            name = "$numberInt" if -(1 << INT_BITS) <= value < 1 << INT_BITS else "$numberLong"
            return {name: str(int(value))}
        case float():
            words = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
            return {"$numberDouble": words.get(repr(value), repr(value))}
        case datetime() if value.tzinfo is not None:
            return {"$date": {"$numberLong": str((value - EPOCH) // MILLISECOND)}}
        case list():
            return [_encoded(each, depth + 1) for each in value]
        case Mapping() if not any(str(name).startswith("$") for name in value):
            return {str(name): _encoded(each, depth + 1) for name, each in value.items()}
    raise Rejected(NOT_KEPT, f"a document holds a {type(value).__name__} that no archive has")


def decoded(line: bytes) -> dict[str, Any]:
    """Return the document of a line. Raises `Rejected` (`bad_document`)."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(BAD, f"a line is no JSON: {error}") from error
    if not isinstance(value, dict) or any(name.startswith("$") for name in value):
        raise Rejected(BAD, "a line is no document")
    return {name: _decoded(each, 1) for name, each in value.items()}


def _decoded(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise Rejected(BAD, f"a document is nested deeper than {DEPTH_MAX} levels")
    match value:
        case None | bool() | str():
            return value
        case list():
            return [_decoded(each, depth + 1) for each in value]
        case dict():
            if not any(name.startswith("$") for name in value):
                return {name: _decoded(each, depth + 1) for name, each in value.items()}
            if len(value) == 1:
                return _typed(*next(iter(value.items())))
    raise Rejected(BAD, "a document holds a value without its type, or of a type that no archive has")


def _typed(name: str, said: Any) -> Any:
    match name, said:
        case "$numberInt", str() if (whole := _whole(said, INT_BITS)) is not None:
            return whole
        case "$numberLong", str() if (whole := _whole(said, LONG_BITS)) is not None:
            return whole
        case "$numberDouble", str() if _DOUBLE.match(said):
            return float(said.replace("Infinity", "inf"))
        case "$date", {"$numberLong": str(text)} if len(said) == 1:
            whole = _whole(text, LONG_BITS)
            try:
                return EPOCH + MILLISECOND * (1 << LONG_BITS if whole is None else whole)
            except OverflowError as error:
                raise Rejected(BAD, "a document holds a moment that no calendar has") from error
    raise Rejected(BAD, f"a document holds a {name[:20]!r} that no archive has")


def _whole(text: str, bits: int) -> int | None:
    if not _WHOLE.match(text):
        return None
    number = int(text)
    return number if -(1 << bits) <= number < 1 << bits else None
