"""The verdict: does the claimed difference hold over fresh seeds?

Pure statistics. Law: the claim is supported only if the confidence interval of the mean paired
difference lies wholly on the claimed side of zero; everything else refutes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Final

from scipy.special import stdtrit

from events.catalog import Verdict
from stages.space.claim import Direction
from stages.space.metrics import Metric

CONFIDENCE: Final = 0.95
SEEDS_MIN: Final = 3


WITHOUT_ERROR: Final = 1e-9
SHARE_MIN: Final = 0.05  # of the baseline's error: whoever leaves less is believed only when it is replicated
TOO_GOOD: Final = (
    "this is too good to be believed of one run: it asks for replication from another seed on another pod, "
    "and counts as refuted until then"
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms trained from one fresh seed; None where a training gave no result."""

    seed: int
    baseline: float | None
    intervention: float | None

    @property
    def difference(self) -> float | None:
        """Return intervention minus baseline, where both were measured."""
        if self.baseline is None or self.intervention is None:
            return None
        return self.intervention - self.baseline


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its two-sided confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with what it rests on; no interval where too few pairs were measured."""

    verdict: Verdict
    reason: str
    interval: Interval | None
    pairs: tuple[Pair, ...]


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of at least two values with Student's t interval."""
    assert len(values) >= 2
    assert 0.0 < confidence < 1.0
    mean = fmean(values)
    reach = float(stdtrit(len(values) - 1, 0.5 + confidence / 2)) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def doubted(judgement: Judgement, metric: Metric) -> Judgement:
    """Return the judgement, a pass turned down where next to no error is left of what the baseline has."""
    whole = [pair for pair in judgement.pairs if pair.difference is not None]
    if judgement.verdict != "pass" or metric.perfect is None or not whole:
        return judgement
    baseline, intervention = (
        fmean(abs((getattr(pair, arm) or 0.0) - metric.perfect) for pair in whole)
        for arm in ("baseline", "intervention")
    )
    if intervention > max(SHARE_MIN * baseline, WITHOUT_ERROR):
        return judgement
    return replace(judgement, verdict="fail", reason=TOO_GOOD)


def judge(pairs: Sequence[Pair], direction: Direction) -> Judgement:
    """Return whether `pairs` show the claimed direction."""
    assert len(pairs) >= SEEDS_MIN
    differences = [pair.difference for pair in pairs if pair.difference is not None]
    interval = mean_interval(differences) if len(differences) >= SEEDS_MIN else None
    kept = tuple(pairs)
    lost = len(pairs) - len(differences)
    if lost or interval is None:
        return Judgement("fail", f"{lost} of {len(pairs)} pairs of trainings gave no result", interval, kept)
    supported = interval.low > 0 if direction == "increase" else interval.high < 0
    if supported:
        return Judgement("pass", "the interval lies wholly on the claimed side of zero", interval, kept)
    contrary = interval.high < 0 if direction == "increase" else interval.low > 0
    reason = (
        "the interval lies wholly on the side opposite to the claim"
        if contrary
        else "the interval includes zero"
    )
    return Judgement("fail", reason, interval, kept)
