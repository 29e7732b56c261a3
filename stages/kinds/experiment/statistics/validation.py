"""The conclusion of a validation: does the claim hold over the registered units?

Pure statistics. Law: a claim is supported or contradicted only by the interval of the mean difference over
as many units as were registered; whatever is missing, without spread, or below what the rows that judge can
resolve decides nothing. Only what is counted exactly, and so differs alike in all units, needs no spread.
A unit in which a program failed counts with the worst score, and no failure helps a claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from events.catalog import Conclusion, Verdict
from events.kinds.space.effect import Direction
from events.kinds.space.metrics import Metric
from stages.bounds import Number, Scores
from stages.kinds.experiment.statistics.estimate import LEVEL, Estimate, estimate, overlap
from stages.kinds.experiment.statistics.looks import Look
from stages.kinds.experiment.statistics.region import Region

WITHOUT_ERROR: Final = 1e-9
SHARE_MIN: Final = 0.05  # of the baseline's error: whoever leaves less is believed only when it is replicated
TOO_GOOD: Final = (
    "this is too good to be believed of one run: it asks for replication from other units on another pod, "
    "and nothing is concluded until then"
)
CAUGHT: Final = "a program answers what nobody can know, so it has read what judges it"
SUPPORTED: Final = "the interval lies wholly where the claim holds"
CONTRADICTED: Final = "the interval lies wholly where the claim does not hold"
BOTH_SIDES: Final = (
    "the interval includes effects with which the claim holds and others with which it does not"
)
MISSING: Final = "fewer units gave a result than were registered"
NEVER: Final = "one of the programs failed in every unit"
COUNTED: Final = "the number is counted exactly, and its difference is the same in all units"
NO_SPREAD: Final = (
    "the difference is the same in all units, so that nothing shows how far chance would move it"
)
UNRESOLVED: Final = "the mean difference is less than one row, of those that judge a unit, from where the claim begins to hold"
FEWER: Final = "fewer than were wanted, for the data have no more moments that could judge one each"
FAILED: Final = "the difference rests on units in which the program failed that would have had to be beaten"


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one arm in one unit; `scores` are None where its program failed.

    `naive` is the quality of the best constant answer there. `is_caught` is whether the answers were known,
    and `processor_s` the processor time of all processes of the training; None where it could not be measured.
    """

    scores: Scores | None
    naive: Number = 0.0
    is_caught: bool = False
    processor_s: Number | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms in the unit of one seed; None where nothing was measured that can be counted.

    `failed` says of baseline and intervention whether the number is the worst score, for a failed program.
    """

    seed: int
    baseline: float | None
    intervention: float | None
    failed: tuple[bool, bool] = (False, False)
    is_caught: bool = False

    @property
    def difference(self) -> float | None:
        """Return intervention minus baseline, where both were measured."""
        if self.baseline is None or self.intervention is None:
            return None
        return self.intervention - self.baseline


@dataclass(frozen=True, slots=True)
class Registration:
    """What was registered before the intervention was tried; `rows` are all that a unit is drawn from.

    `units` and `level` are those of the look at which is judged, one of `looks` where there are several.
    `pieces` are those that judge and those that there are where not rows are drawn, but groups of them, or
    where units follow time. `class_rows` is where a measure counts the rows of a class for how many, at least. So many
    units were `wanted`, where the data allow fewer.
    """

    metric: Metric
    region: Region
    units: int
    rows: int
    test_rows: int
    pieces: tuple[int, int] | None = None
    class_rows: int | None = None
    wanted: int = 0
    level: float = LEVEL
    looks: tuple[Look, ...] = ()

    @property
    def look(self) -> int:
        """Return which look it is, counted from 1."""
        return 1 + sum(each.units < self.units for each in self.looks)

    @property
    def further(self) -> Registration | None:
        """Return what is judged by more units; None where this is the last look."""
        later = next((each for each in self.looks if each.units > self.units), None)
        return None if later is None else replace(self, units=later.units, level=later.level)

    @property
    def shared(self) -> float:
        """Return how much the units have in common."""
        return overlap(*(self.pieces or (self.test_rows, self.rows)))

    @property
    def judging(self) -> int:
        """Return how many judge a unit of which one tells nothing of another: rows, or fewer pieces."""
        return min(self.test_rows, self.pieces[0]) if self.pieces else self.test_rows

    @property
    def is_exact(self) -> bool:
        """Return whether the measure is a count of which every unit gives the same."""
        return not self.metric.of_answers and not self.metric.noisy

    @property
    def resolution(self) -> float:
        """Return the least difference that the rows of a unit can show; 0 where there is none."""
        if self.class_rows is not None:
            return 1 / self.class_rows
        return 1 / self.test_rows if self.metric.counts_rows else 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over units with its interval, the p-values of the claim and of its opposite, and what could be seen.

    `seen` is how far from a bound of the claim an effect must be. What is counted exactly has none of these.
    """

    mean: float
    low: float
    high: float
    p_value: float | None = None
    p_against: float | None = None
    seen: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conclusion with what it rests on; no interval where nothing can be estimated.

    `p_corrected` is the p-value of the claim, or of its opposite where that is concluded, as one of several.
    """

    conclusion: Conclusion
    reason: str
    interval: Interval | None
    pairs: tuple[Pair, ...]
    plan: Registration
    p_corrected: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict: only what is supported passes."""
        return "pass" if self.conclusion == "supported" else "fail"

    @property
    def in_test_rows(self) -> float | None:
        """Return the mean difference in rows of those that judge a unit; None where it is not one of rows."""
        is_of_rows = self.interval is not None and self.plan.metric.counts_rows
        return self.interval.mean / self.plan.resolution if self.interval and is_of_rows else None

    @property
    def direction(self) -> Direction:
        """Return where the measure was found to move."""
        return "increase" if self.interval is not None and self.interval.mean > 0 else "decrease"


def undecided(judgement: Judgement, reason: str | None) -> Judgement:
    """Return the judgement, without a conclusion where there is a reason."""
    return judgement if reason is None else replace(judgement, conclusion="inconclusive", reason=reason)


def pairs_of(
    seeds: Sequence[int], baseline: Sequence[Reading], intervention: Sequence[Reading], metric: Metric
) -> tuple[Pair, ...]:
    """Return both arms in each unit; a failed program has the worst score of the measure."""
    worst = _worst([*baseline, *intervention], metric)

    def value(reading: Reading) -> float | None:
        return worst if reading.scores is None else reading.scores.get(metric.name)

    return tuple(
        Pair(
            seed,
            value(one),
            value(other),
            (one.scores is None, other.scores is None),
            one.is_caught or other.is_caught,
        )
        for seed, one, other in zip(seeds, baseline, intervention, strict=True)
    )


def _worst(readings: Sequence[Reading], metric: Metric) -> float | None:
    """Return the worst score; where a measure has no end, the worst that was measured or is naive there."""
    if not metric.of_answers:
        return None  # of time, or of size, nothing is the worst
    if metric.higher_is_better:
        return 0.0
    if math.isfinite(metric.most):
        return metric.most
    values = [each.scores[metric.name] for each in readings if each.scores is not None]
    return max((*values, *(each.naive for each in readings)))


def estimate_of(differences: Sequence[float], plan: Registration) -> Estimate | None:
    """Return the mean over units; None where there are fewer than registered, or they have no spread."""
    if len(differences) < plan.units:
        return None
    found = estimate(differences, plan.shared, plan.level)
    return found if found.spread > 0 else None


def judge(pairs: Sequence[Pair], plan: Registration) -> Judgement:
    """Return what the units say of the claim."""
    kept = tuple(pairs)
    differences = [pair.difference for pair in pairs if pair.difference is not None]
    found = estimate_of(differences, plan)
    interval = None if found is None else _interval(found, plan.region)
    is_counted = interval is None and plan.is_exact and len({*differences}) == 1
    if is_counted:
        interval = Interval(*[differences[0]] * 3)
    judgement = Judgement("inconclusive", BOTH_SIDES, interval, kept, plan)
    if any(pair.is_caught for pair in pairs):
        return undecided(judgement, CAUGHT)
    if len(differences) < plan.units:
        return undecided(judgement, MISSING)
    if any(all(pair.failed[arm] for pair in pairs) for arm in (0, 1)):
        return undecided(judgement, NEVER)
    if interval is None:
        return undecided(judgement, NO_SPREAD)
    if is_counted:
        holds = plan.region.holds(interval.mean)
        return replace(judgement, conclusion="supported" if holds else "contradicted", reason=COUNTED)
    conclusion = plan.region.concluded(interval.low, interval.high)
    if conclusion == "inconclusive":
        return judgement
    bounds = plan.region.decisive(conclusion, interval.mean)
    if any(abs(interval.mean - bound) < plan.resolution for bound in bounds):
        return undecided(judgement, UNRESOLVED)
    reason = SUPPORTED if conclusion == "supported" else CONTRADICTED
    judgement = replace(judgement, conclusion=conclusion, reason=reason)
    return undecided(judgement, _failure(judgement, bounds))


def _interval(found: Estimate, region: Region) -> Interval:
    return Interval(
        float(found.mean),
        float(found.low),
        float(found.high),
        float(region.p_value(found)),
        float(region.p_against(found)),
        float(found.smallest_seen(sum(map(math.isfinite, (region.low, region.high))))),
    )


def _failure(judgement: Judgement, bounds: Sequence[float]) -> str | None:
    """Return whether a failed program moves the mean to its side of a bound that decides.

    Only a claim that is contradicted may owe that to its own intervention.
    """
    assert judgement.interval is not None, "a conclusion has one"
    is_worse_lower = judgement.plan.metric.higher_is_better
    for bound in bounds:
        # The baseline's failure raises the difference where worse is lower, the intervention's lowers it.
        helping = 0 if (judgement.interval.mean > bound) == is_worse_lower else 1
        is_own = judgement.conclusion == "contradicted" and helping == 1
        if not is_own and any(pair.failed[helping] for pair in judgement.pairs):
            return FAILED
    return None


def doubted(judgement: Judgement, metric: Metric) -> Judgement:
    """Return the judgement; what leaves next to no error of the baseline's is not believed of one run."""
    if judgement.conclusion != "supported" or metric.perfect is None:
        return judgement
    baseline, intervention = (
        fmean(abs((getattr(pair, arm) or 0.0) - metric.perfect) for pair in judgement.pairs)
        for arm in ("baseline", "intervention")
    )
    is_too_good = intervention <= max(SHARE_MIN * baseline, WITHOUT_ERROR)
    return undecided(judgement, TOO_GOOD if is_too_good else None)
