"""Which round of a group the tick of a schedule began, pure.

A round keeps the tick that began it, in the same write: a tick that is asked for again finds its round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Tick:
    """A slot of a schedule."""

    schedule: str
    slot: datetime

    def stored(self) -> dict[str, Any]:
        """Return it as a group keeps it."""
        return {"schedule": self.schedule, "slot": self.slot}


@dataclass(frozen=True, slots=True)
class Begun:
    """The number of a round; `is_new` where it was begun just now."""

    number: int
    is_new: bool


def round_of(group: Mapping[str, Any], tick: Tick) -> int | None:
    """Return the round that a tick of its schedule began, or a later one did; None where none has."""
    for each in (group, *reversed(group["rounds"])):
        known = each.get("tick")
        if known is not None and known["schedule"] == tick.schedule and known["slot"] >= tick.slot:
            number: int = each["round"]
            return number
    return None
