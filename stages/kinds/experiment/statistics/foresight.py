"""Which effect a validation will be able to show, as far as the baseline alone foretells it; pure.

Law: two bounds, and no forecast. At best only the chance in training moves the difference of two programs, which
the finalists of the baseline show from seed to seed; at worst both programs err on rows of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from stages.kinds.experiment.statistics.estimate import seen_of_spread
from stages.kinds.experiment.statistics.looks import Look
from stages.kinds.experiment.statistics.validation import Registration


@dataclass(frozen=True, slots=True)
class Foresight:
    """The smallest effects that will be seen at best and at worst; None where nothing foretells them."""

    at_best: float | None = None
    at_worst: float | None = None


def foreseen(plan: Registration, score: float | None, by_seed: Sequence[Sequence[float]]) -> Foresight:
    """Return what the baseline foretells: by its `score`, and by scores of such programs from several seeds."""
    spreads = [variance(values) for values in by_seed if len(values) > 1]
    best = math.sqrt(2 * fmean(spreads)) if spreads else 0.0
    worst = 0.0
    if score is not None and plan.metric.counts_rows:
        worst = math.sqrt(2 * score * (1 - score) / plan.judging)
    return Foresight(_seen(best, plan), _seen(worst, plan))


def _seen(spread: float, plan: Registration) -> float | None:
    last = plan.looks[-1] if plan.looks else Look(plan.units, plan.level)
    return seen_of_spread(spread, last.units, plan.shared, last.level) if spread > 0 else None
