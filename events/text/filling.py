"""Texts with places for parameters: `--lr {lr}`; pure.

Law: `{{` and `}}` are braces. A text is filled once: what a value holds is never read for places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

Value = bool | int | float | str

NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_PLACE: Final = re.compile(rf"\{{\{{|\}}\}}|\{{({NAME})\}}|[{{}}]")


def filled(text: str, values: Mapping[str, Value]) -> str:
    """Return a text with values in their places. Raises `ValueError` that says what to do."""

    def put(found: re.Match[str]) -> str:
        if found[1] is not None:
            if found[1] not in values:
                known = ", ".join(values) or "none"
                raise ValueError(f"{found[0]} is no parameter, there are {known}; write {{{{ for a brace")
            return shown(values[found[1]])
        if len(found[0]) == 1:
            raise ValueError(f"a single {found[0]} at character {found.start() + 1}: write {2 * found[0]}")
        return found[0][0]

    return _PLACE.sub(put, text)


def places(text: str) -> set[str]:
    """Return the names of the places in a text."""
    return {found[1] for found in _PLACE.finditer(text) if found[1] is not None}


def shown(value: Value) -> str:
    """Return a value as it stands in a text: as JSON has it, a text as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
