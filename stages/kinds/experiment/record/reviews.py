"""A review of a paper: the form with its ranges, and the decision of an ensemble; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, Final, Literal

import msgspec

ENSEMBLE: Final = 3  # reviews of one paper
SCORES: Final[Mapping[str, int]] = {
    "originality": 4, "quality": 4, "clarity": 4, "significance": 4, "soundness": 4, "presentation": 4,
    "contribution": 4, "overall": 10, "confidence": 5,
}  # fmt: skip

Words = Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
Four = Annotated[int, msgspec.Meta(ge=1, le=4)]
Five = Annotated[int, msgspec.Meta(ge=1, le=5)]
Ten = Annotated[int, msgspec.Meta(ge=1, le=10)]
Decision = Literal["accept", "reject"]


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One review, in the form of the machine-learning conferences."""

    summary: Words
    strengths: Annotated[list[Words], msgspec.Meta(max_length=20)]
    weaknesses: Annotated[list[Words], msgspec.Meta(max_length=20)]
    questions: Annotated[list[Words], msgspec.Meta(max_length=20)] = []
    limitations: Annotated[list[Words], msgspec.Meta(max_length=20)] = []
    originality: Four
    quality: Four
    clarity: Four
    significance: Four
    soundness: Four
    presentation: Four
    contribution: Four
    overall: Ten
    confidence: Five
    decision: Decision


def meta_review(reviews: Sequence[Review]) -> dict[str, Any]:
    """Return the mean of each score, and the decision of the majority; a draw rejects."""
    assert reviews
    accepted = sum(each.decision == "accept" for each in reviews)
    means = {name: round(fmean(getattr(each, name) for each in reviews), 3) for name in SCORES}
    decision: Decision = "accept" if 2 * accepted > len(reviews) else "reject"
    return {"reviews": len(reviews), "accepted": accepted, "decision": decision, "scores": means}
