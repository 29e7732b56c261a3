"""The verdict: does the claimed difference hold over fresh seeds?

Pure statistics. Law: the claim is supported only if the confidence interval of the mean paired difference
lies wholly on the claimed side of zero; everything else refutes it. Seeds and the rows that judge are both
samples, and the interval is as wide as both make it: agreement of seeds gives no information about rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Annotated, Final

from msgspec import Meta
from scipy.special import stdtrit

from events.catalog import Verdict
from events.kinds.space.claim import Direction
from events.kinds.space.metrics import Metric
from stages.bounds import Number, Scores, Word
from stages.experiment.statistics.jackknife import GROUPS_MAX, standard_error

CONFIDENCE: Final = 0.95
SEEDS_MIN: Final = 3
WITHOUT_ERROR: Final = 1e-9
SHARE_MIN: Final = 0.05  # of the baseline's error: whoever leaves less is believed only when it is replicated
TOO_GOOD: Final = (
    "this is too good to be believed of one run: it asks for replication from another seed on another pod, "
    "and counts as refuted until then"
)
SAME: Final = "a program gives the same answers for several seeds, so that these are one measurement"
CAUGHT: Final = "a program answers what nobody can know, so it has read what judges it"


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a training from a fresh seed, by the claim's measure; `scores` are None without a result.

    `without` is the measure without each group of the rows that judge, and `answers` stands for the answers;
    both are empty for a measure of which no answers are. `is_caught` is whether the answers were known,
    `quality` is the quality of the answers without each group of rows, whatever the claim's measure is, and
    `processor_s` the processor time of all processes of the training; None where it could not be measured.
    """

    scores: Scores | None
    without: Annotated[tuple[Number, ...], Meta(max_length=GROUPS_MAX)] = ()
    answers: Word = ""
    is_caught: bool = False
    quality: Annotated[tuple[Number, ...], Meta(max_length=GROUPS_MAX)] = ()
    processor_s: Number | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms trained from one fresh seed; None where a training gave no result.

    `others` is the difference without each group of the rows that judge; `answers` stand for those of each arm.
    """

    seed: int
    baseline: float | None
    intervention: float | None
    others: tuple[float, ...] = ()
    answers: tuple[str, str] = ("", "")
    is_caught: bool = False

    @property
    def difference(self) -> float | None:
        """Return intervention minus baseline, where both were measured."""
        if self.baseline is None or self.intervention is None:
            return None
        return self.intervention - self.baseline


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its two-sided confidence interval, and the share of the rows that judge in it.

    `rows_error` is the standard error of the mean over other rows, from so many groups of them; none: not known.
    """

    mean: float
    low: float
    high: float
    rows_error: float = 0.0
    groups: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict with what it rests on; no interval where too few pairs were measured."""

    verdict: Verdict
    reason: str
    interval: Interval | None
    pairs: tuple[Pair, ...]


def pair_of(seed: int, baseline: Reading, intervention: Reading, metric: str) -> Pair:
    """Return what both arms gave from one seed."""
    return Pair(
        seed,
        (baseline.scores or {}).get(metric),
        (intervention.scores or {}).get(metric),
        tuple(
            other - one
            for one, other in zip(baseline.without, intervention.without, strict=False)  # or one gave nothing
        ),
        (baseline.answers, intervention.answers),
        baseline.is_caught or intervention.is_caught,
    )


def mean_interval(
    values: Sequence[float], others: Sequence[float] = (), confidence: float = CONFIDENCE
) -> Interval:
    """Return the mean of at least two values with Student's t interval.

    `others` are the means without each group of the rows behind the values: their variance adds to that of
    the values, and degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946).
    """
    assert len(values) >= 2
    assert 0.0 < confidence < 1.0
    mean, groups = fmean(values), len(others)
    parts = [(stdev(values) / math.sqrt(len(values)), len(values) - 1)]
    rows_error = standard_error(others) if groups else 0.0
    if groups:
        parts.append((rows_error, groups - 1))
    error = math.hypot(*(part for part, _ in parts))
    if error == 0.0:
        return Interval(mean, mean, mean, rows_error, groups)
    freedom = 1.0 / sum((part / error) ** 4 / free for part, free in parts)
    reach = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    return Interval(mean, mean - reach, mean + reach, rows_error, groups)


def doubted(judgement: Judgement, metric: Metric, *, is_replication: bool = False) -> Judgement:
    """Return the judgement; a pass that cannot be relied on is turned down."""
    doubt = (
        _doubt(judgement.pairs, metric, is_replication=is_replication)
        if judgement.verdict == "pass"
        else None
    )
    return judgement if doubt is None else replace(judgement, verdict="fail", reason=doubt)


def _doubt(pairs: Sequence[Pair], metric: Metric, *, is_replication: bool) -> str | None:
    """Return whether next to no error is left of what the baseline has, or seeds are no replication."""
    if metric.perfect is not None and not is_replication:
        baseline, intervention = (
            fmean(abs((getattr(pair, arm) or 0.0) - metric.perfect) for pair in pairs)
            for arm in ("baseline", "intervention")
        )
        if intervention <= max(SHARE_MIN * baseline, WITHOUT_ERROR):
            return TOO_GOOD
    arms = zip(*(pair.answers for pair in pairs), strict=True)
    return SAME if any(each[0] and len({*each}) < len(each) for each in arms) else None


def judge(pairs: Sequence[Pair], direction: Direction) -> Judgement:
    """Return whether `pairs` show the claimed direction."""
    assert len(pairs) >= SEEDS_MIN
    differences = [pair.difference for pair in pairs if pair.difference is not None]
    others = zip(*(pair.others for pair in pairs if pair.difference is not None), strict=True)
    means = [fmean(each) for each in others]
    interval = mean_interval(differences, means) if len(differences) >= SEEDS_MIN else None
    kept = tuple(pairs)
    if any(pair.is_caught for pair in pairs):
        return Judgement("fail", CAUGHT, interval, kept)
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
