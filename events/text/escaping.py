"""Escapes foreign text that a terminal or a spreadsheet would execute, pure."""

from __future__ import annotations

import re
from typing import Final

# What a spreadsheet reads as the beginning of a formula; some read the wide forms alike.
FORMULA: Final = re.compile(r"[=+\-@\t\r＝＋－＠]")  # noqa: RUF001 - the wide forms are meant
STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def for_spreadsheet(text: str) -> str:
    """Return `text` as a cell that is no formula: an apostrophe before what could begin one, but a number."""
    return f"'{text}" if len(text) > 1 and FORMULA.match(text) and not is_number(text) else text


def spreadsheet_cell(value: str | int | float | bool | None) -> str:
    """Return a value as a cell that no spreadsheet executes, as JSON says it; nothing is empty."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return for_spreadsheet(value)
        case _:
            return repr(value)


def for_terminal(text: str) -> str:
    """Return `text` with its lines, and each character that steers a terminal by its number."""
    return STEERING.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def is_number(text: str) -> bool:
    """Return whether a cell holds a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
