"""When a claim is judged: after so many units, and again after twice as many while nothing is decided; pure.

A group-sequential rule: Pocock, "Group sequential methods in the design and analysis of clinical trials"
(Biometrika 64, 1977); Lan and DeMets, "Discrete sequential boundaries for clinical trials" (Biometrika 70,
1983). Units share rows, so that later looks repeat much of what earlier ones saw: the levels come from
simulation (docs/decisions/0069, tests/statistics).

Law: how often a claim may be judged, after how many units and at which levels, is registered before any unit is
measured. Where units follow time, more of them would be other ones: then there is one look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stages.kinds.experiment.statistics.estimate import LEVEL

UNITS: Final = 10  # at the first look; at each further one there are twice as many
# Windows that roll along time learn from each other's rows, and what drifts moves all of them: at the level of random
# splits five or ten of them would support 4 to 6 % of null claims.
LEVEL_BY_TIME: Final = 0.007
# By the number of looks: of each side, at each look.
LEVELS: Final[Mapping[int, tuple[float, ...]]] = {1: (LEVEL,), 2: (0.01, 0.0125), 3: (0.008, 0.008, 0.01)}


@dataclass(frozen=True, slots=True)
class Look:
    """One time that a claim is judged: after how many units, and at which level of a side."""

    units: int
    level: float


def looks_of(count: int) -> tuple[Look, ...]:
    """Return so many looks, in their order."""
    return tuple(Look(UNITS << place, level) for place, level in enumerate(LEVELS[count]))


def units_of(count: int) -> int:
    """Return how many units so many looks take at most."""
    return looks_of(count)[-1].units
