"""Values of fields as keys of a table: in one order whatever their types, and of bounded length; pure.

Law: the order is nothing, booleans, numbers, texts, then lists and objects as JSON. Two values are one key
if they are equal; a long text is cut, and the digest behind it keeps it apart from others that begin alike.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from control_plane.model.presentation import plain
from events.kinds.results import WHOLE_MAX

KEY_CHARS_MAX: Final = 120
DIGEST_CHARS: Final = 8

Shown = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Value:
    """A value that sorts among others of any type; `shown` is as people and programs read it."""

    rank: int
    sorted_by: Any
    shown: Shown = field(compare=False)


NONE: Final = Value(0, 0, None)


def value_of(stored: Any) -> Value:
    """Return a stored value as a key."""
    told = plain(stored)  # what JSON cannot say is nothing
    match told:
        case None:
            return NONE
        case bool():
            return Value(1, int(told), told)
        case int():
            return Value(2, told, told)
        case float():
            number = int(told) if told.is_integer() and abs(told) <= WHOLE_MAX else told  # 1.0 is 1
            return Value(2, number, number)
        case str():
            return Value(3, bounded(told), bounded(told))
        case _:
            text = bounded(msgspec.json.encode(told, order="sorted").decode())
            return Value(4, text, text)


def bounded(text: str) -> str:
    """Return a text of at most `KEY_CHARS_MAX` characters that no other text becomes."""
    if len(text) <= KEY_CHARS_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGEST_CHARS]
    return f"{text[: KEY_CHARS_MAX - DIGEST_CHARS - 2]}… {digest}"
