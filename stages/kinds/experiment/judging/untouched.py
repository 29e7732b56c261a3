"""The tuned baseline, from before the switch was put into it, beside both arms; pure.

Law: a gain counts only over the better of two programs without the intervention: the one with its switch off, and
the one that had no switch yet. Who answers worse on purpose where the own strength is 0 gains over the first alone.
Both must be shown, so no level is corrected for it (Berger 1982, intersection-union tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from stages.kinds.experiment.judging.preconditions import BASELINE, NotMeasured
from stages.kinds.experiment.statistics.guards import is_gain
from stages.kinds.experiment.statistics.region import Region
from stages.kinds.experiment.statistics.validation import Judgement, Reading, estimate_of, pairs_of

SAYS: Final = (
    "the claim is not shown to hold over the tuned baseline that the program was made from, only over that program "
    "without the intervention"
)


def gains(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """Return what is concluded because the intervention does better than the program without it.

    Of time and of size the tuned baseline says nothing: its other choices decide these.
    """
    return tuple(
        each
        for each in judgements
        if each.conclusion != "inconclusive" and each.plan.metric.of_answers and is_gain(each)
    )


def spoilt(
    judgements: Sequence[Judgement], untouched: Sequence[Reading], intervention: Sequence[Reading]
) -> NotMeasured | None:
    """Return that a gain is none over the tuned baseline, in the same units; None where all are."""
    found = tuple(
        told
        for each in gains(judgements)
        if (told := _Beside(each, tuple(untouched), tuple(intervention)).problem()) is not None
    )
    return NotMeasured(BASELINE, found, SAYS) if found else None


@dataclass(frozen=True, slots=True)
class _Beside:
    """One judgement, and what the tuned baseline and the intervention gave in its units."""

    judgement: Judgement
    untouched: tuple[Reading, ...]
    intervention: tuple[Reading, ...]

    def problem(self) -> str | None:
        """Return why the gain is none over the tuned baseline, in words."""
        metric, plan = self.judgement.plan.metric, self.judgement.plan
        if failed := sum(each.scores is None for each in self.untouched):
            return f"the tuned baseline failed in {failed} of {len(self.untouched)} units"
        seeds = [each.seed for each in self.judgement.pairs]
        pairs = pairs_of(seeds, self.untouched, self.intervention, metric)
        differences = [each.difference for each in pairs if each.difference is not None]
        if self._holds(differences):
            return None
        means = [
            fmean(value for value in values if value is not None)
            for values in (
                [each.baseline for each in pairs],
                [each.intervention for each in pairs],
                [each.baseline for each in self.judgement.pairs],
            )
        ]
        return (
            f"{metric.title} {means[0]:.4g} of the tuned baseline, {means[1]:.4g} with the intervention, "
            f"{means[2]:.4g} of the same program without it ({plan.units} units)"
        )

    def _holds(self, differences: Sequence[float]) -> bool:
        found, region = estimate_of(differences, self.judgement.plan), _beyond(self.judgement)
        if found is None:  # the same in every unit: then it is no chance
            return bool(differences) and region.holds(fmean(differences))
        return region.concluded(float(found.low), float(found.high)) == "supported"


def _beyond(judgement: Judgement) -> Region:
    """Return the effects that are at least as good as the worst with which the conclusion holds."""
    region, is_higher = judgement.plan.region, judgement.plan.metric.higher_is_better
    is_lower_bound = is_higher == (judgement.conclusion == "supported")
    bound = region.low if is_lower_bound else region.high
    assert math.isfinite(bound), "a gain lies beyond a bound"
    return Region(low=bound) if is_higher else Region(high=bound)
