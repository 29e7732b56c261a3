"""What must hold of a comparison before its numbers say anything of the claim; pure.

Law: one thing differs between both arms and nothing else, it does something, and the arm without it is no straw
man. Where that fails nothing was measured, whatever the numbers are, and the reason has a code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from events.catalog import NotMeasuredCode
from events.kinds.space.metrics import Metric
from stages.bounds import Scores
from stages.kinds.experiment.statistics.validation import CAUGHT, MISSING, NEVER, Judgement, Reading

NO_EFFECT: Final[NotMeasuredCode] = "NOT_MEASURED: switch has no effect"
ARMS_DIFFER: Final[NotMeasuredCode] = "NOT_MEASURED: arms differ"
BASELINE: Final[NotMeasuredCode] = "NOT_MEASURED: baseline"
BEFORE_ALL: Final = frozenset({CAUGHT, MISSING, NEVER})  # reasons beside which nothing else matters
# Of what the best reference gains over a constant answer, the baseline must gain at least this share.
SHARE_MIN: Final = 2 / 3
# A paper types no number, so these have none.
_SAYS: Final[Mapping[NotMeasuredCode, str]] = {
    NO_EFFECT: "in every unit the program answers the same with the intervention and without it, to the last bit",
    ARMS_DIFFER: "something else than the intervention differs between both arms",
    BASELINE: "without the intervention the program stays far below plain reference models in the same units",
}


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why a comparison measured nothing: its code, and what was found, a line each."""

    code: NotMeasuredCode
    found: tuple[str, ...] = ()
    says: str = ""  # where the code has more than one meaning

    @property
    def reason(self) -> str:
        """Return the code and what it means."""
        return f"{self.code} ({self.says or _SAYS[self.code]})"


@dataclass(frozen=True, slots=True)
class Observed:
    """What the judge saw of a unit beside the scores: digests of both arms' answers, and the references' quality.

    A program that failed has no digest.
    """

    answers: tuple[str, str]
    references: Scores


def not_measured(
    judgements: Sequence[Judgement],
    baseline: Sequence[Reading],
    observed: Sequence[Observed],
    differences: Sequence[str],
    quality: Metric,
) -> NotMeasured | None:
    """Return why nothing was measured; None where the numbers are about the claim, each effect of which is judged.

    `differences` are those between both arms that are not the intervention, in words.
    """
    if any(each.reason in BEFORE_ALL for each in judgements):
        return None
    if differences:
        return NotMeasured(ARMS_DIFFER, tuple(differences))
    if all(each.plan.metric.of_answers for each in judgements) and _is_without_effect(observed):
        return NotMeasured(NO_EFFECT)
    return _far_below(baseline, observed, quality)


def unequal_effort(baseline: int, intervention: int) -> tuple[str, ...]:
    """Return that both arms did not get the same number of tries, in words."""
    if baseline == intervention:
        return ()
    return (f"tries: {baseline} without the intervention, {intervention} with it",)


def _is_without_effect(observed: Sequence[Observed]) -> bool:
    """Return whether both arms answered alike in every unit; where both failed nothing is known."""
    return all(one == other for one, other in (each.answers for each in observed)) and any(
        all(each.answers) for each in observed
    )


def reference_means(observed: Sequence[Observed]) -> dict[str, float]:
    """Return the mean quality of each reference model that was fitted in all units."""
    shared = [name for name in observed[0].references if all(name in each.references for each in observed)]
    return {name: fmean(each.references[name] for each in observed) for name in shared}


def _far_below(
    baseline: Sequence[Reading], observed: Sequence[Observed], quality: Metric
) -> NotMeasured | None:
    means = reference_means(observed)
    if not means:
        return None
    name = (max if quality.higher_is_better else min)(means, key=lambda each: means[each])
    naive = fmean(each.naive for each in baseline)
    reached = fmean(each.naive if each.scores is None else each.scores[quality.name] for each in baseline)
    if not is_far_below(reached, means[name], naive, quality):
        return None
    said = f"{quality.title} {reached:.4g} of the baseline, {means[name]:.4g} of {name.replace('_', ' ')}"
    return NotMeasured(BASELINE, (f"{said}, {naive:.4g} of a constant answer",))


def is_far_below(reached: float, reference: float, naive: float, quality: Metric) -> bool:
    """Return whether too little of what the reference gains over a constant answer is reached."""
    sign = 1.0 if quality.higher_is_better else -1.0
    gain = sign * (reference - naive)
    return gain > 0 and sign * (reached - naive) < SHARE_MIN * gain
