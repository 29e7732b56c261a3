"""The shares of projects: which project's runs a pod asks for first, and which it leaves, pure.

A claim goes to the project that has used least for its weight. The control plane writes what each has used
into one document (`upkeep/fair_sharer.py`); whoever claims reads it at most once a second.
Law: without that document, and for what it does not name, every project is as new: nothing is passed over.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT: Final = "default"
MARK: Final = "@"  # before the name in a class; no label begins with it
NAME: Final = "[a-z][a-z0-9_-]{0,31}"
NAME_WORDS: Final = "a lower-case letter, then at most 31 of a-z, 0-9, _ and -"
FLEET: Final = "fleet"  # the id of the one document
PROJECTS_MAX: Final = 200
# What a claim counts at once, in GPU seconds: runs that begin together shall not all be of one project.
CLAIM_S: Final = 60.0
# How long whoever claimed counts its claims besides: until the control plane has seen them.
NOTED_S: Final = 6.0
BELIEVED_S: Final = 1.0
NOTED_MAX: Final = 10_000

Noted = tuple[float, str, int]  # when, of which project, and with how many GPUs


@dataclass(frozen=True, slots=True)
class Share:
    """What a project has used, in GPU seconds of which older ones count less, and its weight.

    No pod claims for one that is `closed`, for that reason. `free` is how many GPUs its runs may have besides
    those that they have; None where there is no limit.
    """

    weight: float = 1.0
    used: float = 0.0
    closed: str | None = None
    free: int | None = None


NEW: Final = Share()


@dataclass(slots=True)
class Shares:
    """The shares as one process knows them, with its own claims of the last seconds."""

    _of: Mapping[str, Share] = field(default_factory=dict)
    _read_s: float = -math.inf
    _claims: deque[Noted] = field(default_factory=deque)

    def is_fresh(self, now_s: float) -> bool:
        """Return whether they were read a moment ago."""
        return now_s - self._read_s <= BELIEVED_S

    def read(self, document: Mapping[str, Any] | None, now_s: float) -> None:
        """Take the shares from the stored document."""
        self._of, self._read_s = shares_in(document), now_s
        while self._claims and now_s - self._claims[0][0] > NOTED_S:
            self._claims.popleft()

    def note(self, project: str, gpus: int, now_s: float) -> Noted:
        """Count a claim that is about to be made."""
        noted = (now_s, project, gpus)
        if len(self._claims) < NOTED_MAX:
            self._claims.append(noted)
        return noted

    def forget(self, noted: Noted) -> None:
        """Count a claim no more, which found no run."""
        with suppress(ValueError):
            self._claims.remove(noted)

    def used(self, project: str) -> float:
        """Return what a project has used for its weight: who has used less is asked first."""
        share = self._of.get(project, NEW)
        noted = sum(max(1, gpus) for _, name, gpus in self._claims if name == project)
        return (share.used + CLAIM_S * noted) / share.weight

    def may_claim(self, project: str, gpus: int) -> bool:
        """Return whether a run of this project, with so many GPUs, may be claimed."""
        share = self._of.get(project, NEW)
        if share.closed is not None:
            return False
        if share.free is None or not gpus:
            return True
        noted = sum(each for _, name, each in self._claims if name == project)
        return gpus <= share.free - noted


def shares_in(document: Mapping[str, Any] | None) -> dict[str, Share]:
    """Return the shares in the stored document; what is odd in it counts as new."""
    listed = document.get("projects") if isinstance(document, Mapping) else None
    found: dict[str, Share] = {}
    for each in listed[:PROJECTS_MAX] if isinstance(listed, list) else ():
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            continue
        closed, free = each.get("closed"), each.get("free")
        found[each["name"]] = Share(
            weight=_number(each.get("weight"), 1.0) or 1.0,
            used=_number(each.get("used"), 0.0),
            closed=closed if isinstance(closed, str) and closed else None,
            free=free if isinstance(free, int) and not isinstance(free, bool) else None,
        )
    return found


def _number(value: Any, otherwise: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    return otherwise
