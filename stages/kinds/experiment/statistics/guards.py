"""Guards on a measured difference: the quality of answers, and the work that was really done.

Pure statistics. Law: of the two programs the one that does better by a claim's measure answers no worse than
the other, whatever the measure; the intervention answers better than one that always answers the same; and
where the measure is time, the processor was busy for it. Else nothing is concluded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from events.catalog import Conclusion
from events.kinds.space.effect import Direction
from events.kinds.space.metrics import METRICS, Metric
from stages.kinds.experiment.statistics.region import Region, superior
from stages.kinds.experiment.statistics.validation import (
    Judgement,
    Reading,
    Registration,
    estimate_of,
    undecided,
)

TIME: Final = METRICS["training_seconds"]
BUSY_MIN: Final = 0.25  # of a difference in time: the processor's part in it, beyond what chance may give
WORSE: Final = (
    "the program that does better by this measure answers significantly worse than the other, which whoever "
    "learns less can do"
)
NAIVE: Final = "the intervention is not shown to answer better than a program that always says the same"
IDLE: Final = "processor time does not show it, and a program that waits has done no more work than another"
UNKNOWN: Final = "processor time could not be measured, without which nothing is concluded about time"


@dataclass(frozen=True, slots=True)
class Arms:
    """What both programs gave in each unit."""

    baseline: Sequence[Reading]
    intervention: Sequence[Reading]


def guarded(judgement: Judgement, arms: Arms, quality: Metric) -> Judgement:
    """Return the judgement, without a conclusion where the difference was had at the price of something else."""
    if judgement.conclusion == "inconclusive":
        return judgement
    reason = _time_problem(judgement, arms) or _quality_problem(judgement, arms, quality)
    return undecided(judgement, reason)


def _quality_problem(judgement: Judgement, arms: Arms, quality: Metric) -> str | None:
    plan = judgement.plan
    if plan.metric.name == quality.name:
        return None
    better: Direction = "increase" if quality.higher_is_better else "decrease"
    worse: Direction = "decrease" if quality.higher_is_better else "increase"
    is_better = is_gain(judgement)
    baseline, intervention = (
        [_quality(each, quality) for each in arm] for arm in (arms.baseline, arms.intervention)
    )
    one, other = (baseline, intervention) if is_better else (intervention, baseline)
    if is_better is not None and _is_shown(one, other, plan, superior(worse)):
        return WORSE
    naive = [each.naive for each in arms.intervention]
    return None if _is_shown(naive, intervention, plan, superior(better)) else NAIVE


def is_gain(judgement: Judgement) -> bool | None:
    """Return whether the intervention is what does well by this measure, and not the baseline; None for neither.

    Of a claim that no effect fulfils as well, the side that it opens to counts.
    """
    region, higher = judgement.plan.region, judgement.plan.metric.higher_is_better
    if judgement.conclusion == "supported" and region.holds(0.0):
        is_open = math.isinf(region.high if higher else region.low)
        return is_open or math.isfinite(region.high - region.low)
    if judgement.interval is not None and judgement.interval.mean == 0:
        return None
    return (judgement.direction == "increase") == higher


def _quality(reading: Reading, quality: Metric) -> float:
    """Return how good the answers are; a program that failed is as good as one that learns nothing."""
    return reading.naive if reading.scores is None else reading.scores[quality.name]


def _is_shown(
    one: Sequence[float],
    other: Sequence[float],
    plan: Registration,
    region: Region,
    conclusion: Conclusion = "supported",
) -> bool:
    """Return whether the move of a number from one program to another is in a region, or not, beyond chance."""
    differences = [after - before for before, after in zip(one, other, strict=True)]
    found = estimate_of(differences, plan)
    if found is None:
        holds = region.holds(fmean(differences))  # the same in every unit: then it is no chance
        return holds == (conclusion == "supported")
    return region.concluded(float(found.low), float(found.high)) == conclusion


def _time_problem(judgement: Judgement, arms: Arms) -> str | None:
    if judgement.plan.metric.name != TIME.name:
        return None
    both = zip(arms.baseline, arms.intervention, strict=True)
    busy = [(one.processor_s, other.processor_s) for one, other in both]
    known = [(one, other) for one, other in busy if one is not None and other is not None]
    if len(known) < len(busy):
        return UNKNOWN
    assert judgement.interval is not None, "a conclusion has one"
    baseline, intervention = [one for one, _ in known], [other for _, other in known]
    interval, region = judgement.interval, judgement.plan.region
    moved = abs(fmean(intervention) - fmean(baseline))
    is_of_none = judgement.conclusion == "supported" and region.holds(0.0)
    is_difference = not is_of_none and not interval.low <= 0 <= interval.high
    is_explained = not is_difference or moved >= BUSY_MIN * abs(interval.mean)
    is_shown = _is_shown(baseline, intervention, judgement.plan, region, judgement.conclusion)
    return None if is_explained and is_shown else IDLE
