"""What some histories are about besides: drawn from the seed apart, so that the others stay what they are."""

from __future__ import annotations

from random import Random
from typing import Final

ROWS: Final = "rows"
SICKNESS: Final = "sickness"
KILLED: Final = "killed by themselves"  # runs whose programs do it, at another place each time
THEMES: Final = (ROWS, SICKNESS, KILLED)
PART: Final = 0.15  # of the histories have each theme by themselves


def own_themes(seed: int) -> list[str]:
    """Return the themes of a seed."""
    return [each for each in THEMES if Random(f"{each}/{seed}").random() < PART]
