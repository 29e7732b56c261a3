"""Reads the fields of a record by name and type, pure; case and blanks of a name do not count."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stages.kinds.benchmark.suites.item import Record, Unfit

TEXT_CHARS_MAX: Final = 1 << 20


def text(record: Record, *names: str) -> str:
    """Return the first of these fields that says something, as text. Raises `Unfit` where none does."""
    found = optional_text(record, *names)
    if not found.strip():
        raise Unfit(f"it has no {' or '.join(names)}")
    return found


def optional_text(record: Record, *names: str) -> str:
    """Return the first of these fields that is there, as text; empty where none is. Raises `Unfit`."""
    for name in names:
        value = _value(record, name)
        if value is None or isinstance(value, bool | list | dict):
            continue
        told = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if len(told) > TEXT_CHARS_MAX:
            raise Unfit(f"{name} has more than {TEXT_CHARS_MAX} characters")
        return told
    return ""


def long_text(record: Record, name: str) -> str:
    """Return a field that may be of any length. Raises `Unfit` where it is no text."""
    value = _value(record, name)
    if not isinstance(value, str):
        raise Unfit(f"{name} is no text")
    return value


def texts(record: Record, name: str) -> list[str]:
    """Return a field that is a list of texts, or JSON text of one. Raises `Unfit`."""
    value = listed(record, name)
    if not all(isinstance(each, str | int | float) for each in value):
        raise Unfit(f"{name} is no list of texts")
    return [str(each) for each in value]


def listed(record: Record, name: str) -> Sequence[Any]:
    """Return a field that is a list, or JSON text of one. Raises `Unfit`."""
    value = _value(record, name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Unfit(f"{name} is no list") from error
    if not isinstance(value, list):
        raise Unfit(f"{name} is no list")
    return value


def whole(record: Record, name: str) -> int | None:
    """Return a field that is a whole number; None where it is missing. Raises `Unfit`."""
    value = _value(record, name)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool) or int(value) != float(value):
            raise ValueError
        return int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise Unfit(f"{name} is no whole number") from error


def id_text(told: str) -> str:
    """Return the text as an id: every run of other characters becomes one `-`."""
    return re.sub(r"[^A-Za-z0-9._/:+@-]+", "-", told.strip()).strip("-")


def _value(record: Record, name: str) -> Any:
    if name in record.fields:
        return record.fields[name]
    return _folded(record.fields).get(_fold(name))


def _folded(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {_fold(key): value for key, value in fields.items()}


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())
