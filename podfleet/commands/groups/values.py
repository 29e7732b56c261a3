"""The values of a sweep: `KEY=1,2,3` varies, `KEY=1` is fixed, pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from podfleet.parameters import Unreadable, put, value_of


def fixed_and_varied(spec: dict[str, Any], pairs: Sequence[str]) -> dict[str, list[Any]]:
    """Put parameters with one value into `spec`; return the others, each with its values.

    Raises `Unreadable`.
    """
    varied: dict[str, list[Any]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not all(name.split(".")):
            raise Unreadable(f"-p {pair!r} is not key=values, such as -p seconds=1,2,3")
        values = values_of(text)
        if len(values) == 1:
            put(spec, pair)
        elif name in varied:
            raise Unreadable(f"-p {name} is given twice")
        else:
            varied[name] = values
    return varied


def values_of(text: str) -> list[Any]:
    """Return the values in a text: JSON values by commas, else texts by commas."""
    try:
        found = json.loads(f"[{text}]")
    except ValueError:
        return [value_of(part.strip()) for part in text.split(",")]
    return found if isinstance(found, list) and found else [text]
