"""For which effects a claim holds, and what an interval says of it: three conclusions; pure.

A claim of superiority holds beyond a margin, one of non-inferiority from the margin on the other side of
zero, one of equivalence between both. Equivalence is shown by two one-sided tests: Schuirmann (Journal of
Pharmacokinetics and Biopharmaceutics 15, 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from events.catalog import Conclusion
from events.kinds.space.effect import Direction, Effect
from stages.kinds.experiment.statistics.estimate import Estimate, Values


@dataclass(frozen=True, slots=True)
class Region:
    """The effects for which a claim holds: all between `low` and `high`, these two excluded."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def has_margin(self) -> bool:
        """Return whether the claim is about more than the direction."""
        return any(each != 0 and math.isfinite(each) for each in (self.low, self.high))

    def holds(self, effect: float) -> bool:
        """Return whether the claim is true of `effect`."""
        return self.low < effect < self.high

    def concluded(self, low: float, high: float) -> Conclusion:
        """Return what the interval from `low` to `high` says of the claim."""
        if self.low < low and high < self.high:
            return "supported"
        return "contradicted" if high < self.low or self.high < low else "inconclusive"

    def p_value(self, found: Estimate) -> Values:
        """Return the p-value of the claim: small where the data would be unlikely outside of the region."""
        return np.maximum(
            found.p_above(self.low) if math.isfinite(self.low) else 0.0,
            found.p_below(self.high) if math.isfinite(self.high) else 0.0,
        )

    def p_against(self, found: Estimate) -> Values:
        """Return the p-value of the claim's opposite: small where the data would be unlikely inside."""
        return np.minimum(
            found.p_below(self.low) if math.isfinite(self.low) else 1.0,
            found.p_above(self.high) if math.isfinite(self.high) else 1.0,
        )

    def decisive(self, conclusion: Conclusion, mean: float) -> tuple[float, ...]:
        """Return the bounds that an interval around `mean` must lie beyond, or within, for a conclusion."""
        finite = tuple(each for each in (self.low, self.high) if math.isfinite(each))
        if conclusion == "supported":
            return finite
        return tuple(each for each in finite if (mean < each) == (each == self.low))


def region_of(effect: Effect) -> Region:
    """Return the effects for which a claim of a measure holds."""
    if effect.kind == "equivalent":
        return equivalent(effect.margin)
    if effect.kind == "not_inferior":
        return not_inferior(effect.direction, effect.margin)
    return superior(effect.direction, effect.margin)


def superior(direction: Direction, margin: float = 0.0) -> Region:
    """Return where a measure moves in `direction` by more than `margin`."""
    assert margin >= 0
    return Region(low=margin) if direction == "increase" else Region(high=0.0 - margin)  # never -0.0


def not_inferior(direction: Direction, margin: float) -> Region:
    """Return where a measure that should move in `direction` moves the other way by less than `margin`."""
    assert margin > 0
    return Region(low=-margin) if direction == "increase" else Region(high=margin)


def equivalent(margin: float) -> Region:
    """Return where a measure moves by less than `margin` in either direction."""
    assert margin > 0
    return Region(-margin, margin)
