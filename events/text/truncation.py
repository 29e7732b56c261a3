"""Cuts shown text to a size, because its author decided its length, pure.

Law: a cut text states what was left out, so that a part is never taken for the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, Final

import msgspec

FIELD_CHARS_MAX: Final = 32 * 1024
FIELDS_MAX: Final = 64
NAME_CHARS_MAX: Final = 200
VALUE_CHARS: Final = 8  # what a number, a date, or a place in a list counts as
ESCAPED: Final = (b"&", b"<", b">", b"'", b'\\"')  # in JSON: of each a page makes five characters
ESCAPED_MORE: Final = 4
SHORT: Final = frozenset({NoneType, bool, int, float, datetime})


def brief(value: Any, chars_max: int = FIELD_CHARS_MAX) -> Any:
    """Return a JSON value of about `chars_max` characters at most, each cut marked in its place."""
    kind = type(value)
    if kind in SHORT or (kind is str and len(value) <= chars_max):  # nearly all of what is told
        return value
    return _Budget(chars_max).cut(value)


def brief_fields(document: Mapping[str, Any], chars_max: int = FIELD_CHARS_MAX) -> dict[str, Any]:
    """Return a document with all its fields, each brief."""
    return {name: brief(value, chars_max) for name, value in document.items()}


def brief_data(data: Mapping[str, Any], known: Iterable[str], chars_max: int) -> dict[str, Any]:
    """Return at most `FIELDS_MAX` fields, the `known` ones first, each brief."""
    first = dict.fromkeys(name for name in known if name in data)
    names = [*first, *(name for name in data if name not in first)]
    shown = {name: brief(data[name], chars_max) for name in names[:FIELDS_MAX]}
    if len(names) > FIELDS_MAX:
        shown["…"] = f"{len(names) - FIELDS_MAX:,} more fields"
    return shown


def brief_list(items: Sequence[Mapping[str, Any]], bytes_max: int) -> list[dict[str, Any]]:
    """Return the first items, each brief, as long as all take `bytes_max` on a page; one in any case."""
    kept: list[dict[str, Any]] = []
    left = bytes_max
    for item in items:
        small = brief_fields(item)
        left -= _weight(msgspec.json.encode(small, enc_hook=_plain))
        if left < 0 and kept:
            break
        kept.append(small)
    return kept


def _weight(encoded: bytes) -> int:
    """Return what a page takes of this JSON: beyond its bytes, those that escape its texts."""
    return len(encoded) + ESCAPED_MORE * sum(map(encoded.count, ESCAPED))


def _plain(value: Any) -> Any:
    """Return as JSON knows it what BSON has of its own: whole numbers of 64 bits, ids."""
    return int(value) if isinstance(value, int) else str(value)


class _Budget:
    """The characters that are left for one value."""

    def __init__(self, chars: int) -> None:
        self.left = chars

    def cut(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping() | list() | tuple() if value and self.left <= 0:
                return f"… {len(value):,} more"
            case Mapping():
                return self._mapping(value)
            case list() | tuple():
                return self._list(value)
            case _:
                self.left -= VALUE_CHARS
                return value

    def _text(self, text: str) -> str:
        kept = text[: max(self.left, 0)]
        self.left -= len(text)
        return text if len(kept) == len(text) else f"{kept}… {len(text) - len(kept):,} more characters"

    def _list(self, values: list[Any] | tuple[Any, ...]) -> list[Any]:
        kept: list[Any] = []
        for each in values:
            if self.left <= 0:
                kept.append(f"… {len(values) - len(kept):,} more")
                break
            self.left -= VALUE_CHARS
            kept.append(self.cut(each))
        return kept

    def _mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields, `FIELDS_MAX` of them in any case: who reads them knows them by name."""
        kept: dict[str, Any] = {}
        for name, each in values.items():
            if self.left <= 0 and len(kept) >= FIELDS_MAX:
                kept["…"] = f"{len(values) - len(kept):,} more fields"
                break
            shown = name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}…"
            self.left -= len(shown)
            kept[shown] = self.cut(each)
        return kept
