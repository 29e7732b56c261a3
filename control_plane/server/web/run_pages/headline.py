"""The headline numbers of a run beside those of the run that it repeats, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from events.kinds.results import is_measured

NUMBERS_MAX: Final = 12  # on the first screen of a run

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Headline:
    """One value of a run, that of the run before it, and by how much the first is greater."""

    name: str
    value: Any
    before: Any = None
    change: float | None = None


def headline(summary: Json | None, before: Json | None) -> list[Headline]:
    """Return the first `NUMBERS_MAX` values of a run's summary, each beside that of the run before it."""
    if not isinstance(summary, Mapping):
        return []
    earlier = before if isinstance(before, Mapping) else {}
    return [_row(name, value, earlier.get(name)) for name, value in list(summary.items())[:NUMBERS_MAX]]


def _row(name: str, value: Any, before: Any) -> Headline:
    change = value - before if is_measured(value) and is_measured(before) else None
    return Headline(name, value, before, change if is_measured(change) else None)
