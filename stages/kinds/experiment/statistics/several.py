"""Several claims of one hypothesis: each judged among the others, and one conclusion of all; pure.

Law: what is concluded of each is corrected for their number, once for all that are supported and once for all
that are contradicted: Holm, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal
of Statistics 6, 1979). All together they are supported where each is, contradicted where one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from events.catalog import Conclusion
from stages.kinds.experiment.statistics.guards import NAIVE
from stages.kinds.experiment.statistics.validation import BOTH_SIDES, UNRESOLVED, Judgement, undecided

ALONE: Final = (
    "the interval would decide this claim alone, and does not as one of several (Holm’s correction)"
)

# What more units may decide.
OPEN: Final = frozenset({ALONE, BOTH_SIDES, NAIVE, UNRESOLVED})


def is_open(judgements: Sequence[Judgement]) -> bool:
    """Return whether nothing is concluded of all claims, and more units could change that."""
    return together(judgements) == "inconclusive" and any(each.reason in OPEN for each in judgements)


def corrected(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """Return the judgements, without a conclusion where their number forbids it."""
    if len(judgements) == 1:
        return tuple(judgements)
    supported, contradicted = (
        _adjusted([_p_value(each, conclusion) for each in judgements])
        for conclusion in ("supported", "contradicted")
    )
    chances = [
        contradicted[place] if each.conclusion == "contradicted" else supported[place]
        for place, each in enumerate(judgements)
    ]
    return tuple(
        undecided(
            replace(each, p_corrected=min(1.0, p_value)) if _has_p(each) else each,
            ALONE if each.conclusion != "inconclusive" and p_value >= each.plan.level else None,
        )
        for each, p_value in zip(judgements, chances, strict=True)
    )


def _has_p(judgement: Judgement) -> bool:
    return judgement.interval is not None and judgement.interval.p_value is not None


def p_of_all(judgements: Sequence[Judgement]) -> float | None:
    """Return the p-value of what is concluded of all claims; None where nothing is, or it is counted exactly."""
    conclusion = together(judgements)
    if conclusion == "inconclusive" or all(each.plan.is_exact for each in judgements):
        return None
    found = _adjusted([_p_value(each, conclusion) for each in judgements])
    decide = [p for p, each in zip(found, judgements, strict=True) if each.conclusion == conclusion]
    return max(decide) if conclusion == "supported" else min(decide)


def _p_value(judgement: Judgement, conclusion: str) -> float:
    """Return the p-value of a conclusion; what is counted exactly is certain."""
    interval = judgement.interval
    if interval is None:
        return 1.0
    found = interval.p_value if conclusion == "supported" else interval.p_against
    return found if found is not None else float(judgement.conclusion != conclusion)


def _adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for their number, in their order."""
    found, most = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        most = max(most, (len(p_values) - rank) * p_values[place])
        found[place] = most
    return found


def together(judgements: Sequence[Judgement]) -> Conclusion:
    """Return what is concluded of all claims."""
    found = {each.conclusion for each in judgements}
    if "contradicted" in found:
        return "contradicted"
    return "supported" if found == {"supported"} else "inconclusive"
