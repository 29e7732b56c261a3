"""Requests independent reviews of a finished paper from a model; a failed one is left out and logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stages.kinds.experiment.record.reviews import Review
from stages.kinds.experiment.research.modelled import prompt
from stages.kinds.experiment.research.modelled.failure_policy import ANSWER_TROUBLES
from stages.models.model import Model, ModelError, Question
from stages.models.structured import ask_for
from stages.ports import Say

PAPER_MAX: Final = 60_000  # characters of the paper that a reviewer reads
HARSH: Final = 1  # which of the reviewers, counted from 0, looks for faults first
_NEUTRAL_STANCE: Final = "Be fair: neither kind nor hard."
_HARSH_STANCE: Final = "Be hard: look first for what is wrong, missing or claimed without ground."
COOLEST: Final = 0.4  # the first reviewer's temperature; each one after it is a step warmer
STEP: Final = 0.2
HOTTEST: Final = 1.0


def ask_reviews(model: Model, paper: str, count: int, say: Say) -> Sequence[Review]:
    """Return at most `count` reviews of the text `paper`; none where the model cannot be asked."""
    text = prompt.fenced("paper", paper, PAPER_MAX)
    reviews: list[Review] = []
    for number in range(count):
        question = Question(
            purpose="review",
            system=prompt.system("review", stance=_HARSH_STANCE if number == HARSH else _NEUTRAL_STANCE),
            text=f"{text}\n\nReview this paper.",
            temperature=min(HOTTEST, COOLEST + STEP * number),
        )
        try:
            reviews.append(ask_for(model, question, Review))
        except ModelError as error:
            say(f"review {number + 1} of {count} is left out ({error.trouble}): {error.message}")
            if error.trouble not in ANSWER_TROUBLES:
                break  # the next one would meet the same
    return tuple(reviews)
