"""The mean difference over units that share rows: its interval, its p-value, and what it could show; pure.

A unit is one random split of the data, on which both arms are trained. Units share rows, so the variance of
their mean is larger than of independent ones: Nadeau and Bengio, "Inference for the generalization error"
(Machine Learning 52, 2003). Skewness moves the bounds as in Johnson, "Modified t tests and confidence
intervals for asymmetrical populations" (JASA 73, 1978), in the monotone form of Hall, "On the removal of
skewness by transformation" (JRSS B 54, 1992), and never makes an interval narrower. The constants come from
simulation (docs/research.md, tests/statistics).

Law: whatever is computed here holds for arrays whose last axis are the units, so that what is simulated is
what decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

CONFIDENCE: Final = 0.95  # what the interval promises of normal, heavy-tailed, skewed and tied differences
LEVEL: Final = 0.0175  # of each side, for normal ones: at 0.025 heavy tails are beyond the promise
SKEW_SHARE: Final = 0.5  # of the skewness that is corrected for: all of it, from ten units, is mostly noise
UNITS_MIN: Final = 3  # fewer have no skewness
POWER: Final = 0.8
POWER_TERM: Final = 1.8  # of the effect that can be seen: what the correction for skewness costs, times units
FAR: Final = (
    1e100  # in spreads: the cube of a larger distance leaves double precision, and nothing is nearer to 0
)
SPREAD_MIN: Final = 1e-9  # of the largest difference: less is rounding, and no spread
RULE_OF_THREE: Final = 3.0

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Means with their bounds; `spread` is 0 where all units agree, `error` the standard error of the mean."""

    units: int
    mean: Values
    low: Values
    high: Values
    spread: Values
    error: Values
    skew: Values  # the share of it that is corrected for
    level: float = LEVEL  # of each side of the interval

    def p_above(self, threshold: float) -> Values:
        """Return how likely such a mean is, or a higher one, where the effect is `threshold`."""
        return self._p(self.mean - threshold, self.skew)

    def p_below(self, threshold: float) -> Values:
        """Return how likely such a mean is, or a lower one, where the effect is `threshold`."""
        return self._p(threshold - self.mean, -self.skew)

    def _p(self, beyond: Values, skew: Values) -> Values:
        spread = np.where(self.spread > 0, self.spread, np.nan)
        root = self.error / spread
        plain = np.clip(beyond / spread, -FAR, FAR)
        moved = plain + skew * root**2 / 6 + skew / 3 * plain**2 + (skew / 3) ** 2 * plain**3 / 3
        p: Values = stdtr(self.units - 1, -np.minimum(plain, moved) / root)
        return p

    def smallest_seen(self, bounds: int = 1) -> Values:
        """Return how far beyond each of so many bounds an effect must lie to be shown in `POWER` of such runs."""
        return _reach(self.units, bounds, self.level) * self.error


def overlap(test_rows: int, rows: int) -> float:
    """Return rows that judge a unit for each row that does not: from it follows how much units have in common."""
    assert 0 < test_rows < rows
    return test_rows / (rows - test_rows)


def estimate(differences: Any, shared: float, level: float = LEVEL) -> Estimate:
    """Return the mean over the units, the last axis of `differences`; `shared` is their `overlap`."""
    values = np.asarray(differences, dtype=np.float64)
    units = values.shape[-1]
    assert units >= UNITS_MIN
    mean = values.mean(axis=-1)
    spread = values.std(axis=-1, ddof=1)
    spread = np.where(spread > SPREAD_MIN * np.abs(values).max(axis=-1), spread, 0.0)
    scale = np.where(spread > 0, spread, 1.0)
    cubes = (((values - mean[..., None]) / scale[..., None]) ** 3).sum(axis=-1)
    skew = np.where(spread > 0, SKEW_SHARE * cubes * units / ((units - 1) * (units - 2)), 0.0)
    root = float(np.sqrt(1 / units + shared))
    reach = float(stdtrit(units - 1, 1 - level)) * root
    return Estimate(
        units=units,
        mean=mean,
        low=mean - spread * np.maximum(reach, _unmoved(reach, skew, root)),
        high=mean + spread * np.maximum(reach, _unmoved(reach, -skew, root)),
        spread=spread,
        error=spread * root,
        skew=skew,
        level=level,
    )


def seen_of_spread(spread: float, units: int, shared: float, level: float = LEVEL) -> float:
    """Return the smallest effect that would be shown in `POWER` of runs whose units have this deviation."""
    return _reach(units, 1, level) * spread * float(np.sqrt(1 / units + shared))


def _reach(units: int, bounds: int, level: float) -> float:
    """Return how many standard errors beyond each of so many bounds an effect is shown in `POWER` of cases."""
    free = units - 1
    reach = stdtrit(free, 1 - level) + stdtrit(free, 1 - (1 - POWER) / bounds)
    return float(reach) * (1 + POWER_TERM / units)


def rate_not_excluded(units: int) -> float:
    """Return the rate of failures that so many units without one cannot exclude (the rule of three)."""
    return min(1.0, RULE_OF_THREE / units)


def _unmoved(reach: float, skew: Values, root: float) -> Values:
    """Return how far, in deviations of a unit, a mean lies above an effect that it just shows."""
    third = np.where(np.abs(skew) > SPREAD_MIN, skew / 3, 1.0)
    wanted = reach - skew * root**2 / 6
    bent = (np.cbrt(1 + 3 * third * wanted) - 1) / third
    return np.where(np.abs(skew) > SPREAD_MIN, bent, wanted)
