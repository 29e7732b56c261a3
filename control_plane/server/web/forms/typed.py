"""Parses the text in a field of a specification into a value, and writes a value as such a text, pure.

Law: an empty field is not sent, so that the current default is used. Limits are checked where the
specification is read, not here.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from events.kinds.declaring.fields import Field

DEPTH_MAX: Final = 64
NULL: Final = "null"
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
_TYPES: Final = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def value_of(field: Field, text: str) -> Any:
    """Return the value of `text`, which is not empty, in `field`. Raises `ValueError` with advice."""
    match field.shape:
        case "choice":
            return _choice(field, text)
        case "integer" | "number" if text == NULL and field.is_nullable:
            return None
        case "integer":
            if not _WHOLE.fullmatch(text):
                raise ValueError("a whole number")
            return int(text)
        case "number":
            return _number(text)
        case "text":
            return text
        case "either":
            return _either(field, text)
        case _ if field.has_pairs and not text.startswith("{"):
            return dict(map(_pair, filter(None, map(str.strip, text.splitlines()))))
        case _:
            return read_json(text)


def text_of(field: Field, value: Any) -> str:
    """Return the text that says `value` in `field`."""
    if field.has_pairs and isinstance(value, dict) and value and all(map(_is_line, value, value.values())):
        return "\n".join(f"{name}={each}" for name, each in value.items())
    is_text = isinstance(value, str) and field.shape != "json"
    return value if is_text else json.dumps(value, ensure_ascii=False)


def read_json(text: str) -> Any:
    """Return the value in a text area. Raises `ValueError` with the position at which it is no JSON."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError):  # a number of too many digits; brackets in brackets without end
        raise ValueError("no JSON that can be read") from None
    if _is_deeper(found, DEPTH_MAX - 1):
        raise ValueError(f"deeper than {DEPTH_MAX} levels")
    return found


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        raise ValueError(f"lines such as NAME=value; {line[:40]!r} is none")
    return name.strip(), value.strip()


def _is_line(name: str, value: object) -> bool:
    """Say whether a line can say a value by its name."""
    is_plain = isinstance(value, str) and name and "=" not in name and not name.startswith("{")
    return (
        bool(is_plain)
        and _pair(f"{name}={value}") == (name, value)
        and len(f"{name}={value}".splitlines()) == 1
    )


def _choice(field: Field, text: str) -> Any:
    choices = dict(zip(field.texts, field.choices, strict=True))
    if text not in choices:
        raise ValueError(f"one of {', '.join(choices)}")
    return choices[text]


def _number(text: str) -> int | float:
    if _WHOLE.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError("a number")
    return float(text)


def _either(field: Field, text: str) -> Any:
    """Return the value of JSON text if the field accepts its type, else the text."""
    opens = {"{": "object", "[": "array"}.get(text[0])
    try:
        found = read_json(text)
    except ValueError as error:
        if opens in field.takes:
            raise ValueError(f"{error}; text does not begin with {text[0]}") from None
        return text
    types = {name for kind, name in _TYPES if type(found) is kind} or {NULL}
    if "integer" in types:
        types.add("number")
    return found if types & field.takes else text


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(each, levels - 1) for each in inner)
