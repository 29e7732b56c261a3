"""Finds the problems of all fields of an object; the library reports only one at a time. Pure."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from events.kinds.declaring.fields import NOT_OF_PATTERN, PATTERN_CHARS_MAX

Path = tuple[str, ...]

# ` - at `$.nodes.Stage_1``, and ` - at `key` in `$.rates`` for the name of an entry
_PLACE: Final = re.compile(r" - at (`key` in )?`\$((?:\.[^`.\[]+)*)([^`]*)`\Z")
_LONG_PATTERN: Final = re.compile(rf"Expected `str` matching regex .{{{PATTERN_CHARS_MAX},}}\Z")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")


def complaints(form: type[msgspec.Struct], raw: Mapping[str, Any]) -> dict[Path, str]:
    """Return the problems by the path of their fields; a problem of no field has an empty path."""
    found = dict[Path, str]()
    for field in msgspec.structs.fields(form):
        name = field.encode_name
        if name in raw:
            for path, words in _of_value(field.type, raw[name]).items():
                found[(name, *path)] = f"`$.{name}".join(words.rsplit("`$", 1))
    if not found:
        try:
            msgspec.convert(dict(raw), form)
        except msgspec.ValidationError as error:
            path, words = placed(str(error))
            found[path] = words
    return found


def _of_value(kind: Any, value: Any) -> dict[Path, str]:
    """Return the problems of a value: an invalid part is left out, and the rest is read again."""
    left, found = copy.deepcopy(value), dict[Path, str]()
    while True:
        try:
            msgspec.convert(left, kind)
        except msgspec.ValidationError as error:
            path, words = placed(str(error))
            if path in found:  # it is missing now
                return found
            found[path] = words
            if not _drop(left, path):
                return found
        else:
            return found


def placed(message: str) -> tuple[Path, str]:
    """Return the field and the problem that a message of the library names."""
    place = _PLACE.search(message)
    path = tuple(place[2].split(".")[1:]) if place else ()
    is_whole = place is not None and not place[1] and not place[3]
    words = message[: place.start()] if place is not None and is_whole else message
    if missing := _MISSING.match(message):
        path = (*path, missing[1])
    return path, NOT_OF_PATTERN if _LONG_PATTERN.match(words) else words


def _drop(raw: Any, path: Path) -> bool:
    """Remove the field at `path` from an object; return whether there was one."""
    for name in path[:-1]:
        raw = raw.get(name) if isinstance(raw, dict) else None
    if not path or not isinstance(raw, dict) or path[-1] not in raw:
        return False
    del raw[path[-1]]
    return True
