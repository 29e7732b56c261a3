"""Workers that have ended, folded: of each pod and slot where none lives now the last one, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from events.text.worker_id import place_of


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a worker, and whether it still reports."""

    id: str
    is_live: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The last start of a place where no worker lives, and how many starts it has had."""

    id: str
    starts: int


def folded(starts: Iterable[Start]) -> list[Ended]:
    """Return what has ended, in the order of `starts`, which begin with the last."""
    known = [*starts]
    living = {place_of(each.id) for each in known if each.is_live}
    found: dict[tuple[str, ...], list[str]] = {}
    for each in known:
        place = place_of(each.id)
        if place not in living:
            found.setdefault(place, []).append(each.id)
    return [Ended(ids[0], len(ids)) for ids in found.values()]
