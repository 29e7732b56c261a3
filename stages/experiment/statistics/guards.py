"""Guards on a measured difference: the quality of answers, and the work that was really done.

Pure statistics. Law: of the two programs the one that does better by a claim's measure answers no worse than
the other, whatever the measure; the intervention answers better than one that always answers the same; and
where the measure is time, the processor was busy for it. Else the claim is not upheld.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from events.kinds.space.claim import Direction
from events.kinds.space.metrics import METRICS, QUALITY, Metric, Task
from stages.experiment.statistics.validation import Judgement, Pair, Reading, judge, pair_of

TIME: Final = METRICS["training_seconds"]
BUSY_MIN: Final = 0.25  # of a difference in time: the processor's part in it, beyond what chance may give
WORSE: Final = (
    "the program that does better by this measure answers significantly worse than the other, which whoever "
    "learns less can do"
)
NAIVE: Final = "the intervention is not shown to answer better than a program that always says the same"
IDLE: Final = "processor time does not show it, and a program that waits has done no more work than another"
UNKNOWN: Final = "processor time could not be measured, without which no claim about time is upheld"


@dataclass(frozen=True, slots=True)
class Arms:
    """What both programs gave from each fresh seed, and what the best constant answer gives."""

    baseline: Sequence[Reading]
    intervention: Sequence[Reading]
    naive: Reading


def guarded(judgement: Judgement, arms: Arms, metric: Metric, direction: Direction, task: Task) -> Judgement:
    """Return the judgement, a pass turned down where the difference was had at the price of something else."""
    if judgement.verdict == "fail":
        return judgement
    reason = _time_problem(judgement, arms, metric, direction) or _quality_problem(
        arms, metric, direction, QUALITY[task]
    )
    return judgement if reason is None else replace(judgement, verdict="fail", reason=reason)


def _quality_problem(arms: Arms, metric: Metric, direction: Direction, quality: Metric) -> str | None:
    if metric.name == quality.name:
        return None
    better: Direction = "increase" if quality.higher_is_better else "decrease"
    worse: Direction = "decrease" if quality.higher_is_better else "increase"
    is_gain = (direction == "increase") == metric.higher_is_better
    one, other = (arms.baseline, arms.intervention) if is_gain else (arms.intervention, arms.baseline)
    if _is_shown(one, other, quality, worse):
        return WORSE
    naive = [arms.naive] * len(arms.intervention)
    return None if _is_shown(naive, arms.intervention, quality, better) else NAIVE


def _is_shown(
    one: Sequence[Reading], other: Sequence[Reading], quality: Metric, direction: Direction
) -> bool:
    """Return whether the quality moves in `direction` from one program to another, beyond chance."""
    both = zip(map(_by_quality, one), map(_by_quality, other), strict=True)
    pairs = [pair_of(number, *each, quality.name) for number, each in enumerate(both)]
    return judge(pairs, direction).verdict == "pass"


def _by_quality(reading: Reading) -> Reading:
    return replace(reading, without=reading.quality)


def _time_problem(judgement: Judgement, arms: Arms, metric: Metric, direction: Direction) -> str | None:
    if metric.name != TIME.name:
        return None
    pairs = [
        Pair(number, one.processor_s, other.processor_s)
        for number, (one, other) in enumerate(zip(arms.baseline, arms.intervention, strict=True))
    ]
    busy = [pair.difference for pair in pairs if pair.difference is not None]
    if len(busy) < len(pairs):
        return UNKNOWN
    assert judgement.interval is not None, "a claim that passes has one"
    is_explained = abs(fmean(busy)) >= BUSY_MIN * abs(judgement.interval.mean)
    return None if is_explained and judge(pairs, direction).verdict == "pass" else IDLE
