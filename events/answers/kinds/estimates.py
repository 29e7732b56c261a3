"""What a run would probably take: its items, its time, its tokens and its cost, before it is submitted."""

from __future__ import annotations

from typing import Annotated

import msgspec

from events.answers.answer import Answer, Count

ITEMS_MAX = 10**12
TOKENS_MAX = 10**15
GUESS_MAX = 1e15
Guess = Annotated[float, msgspec.Meta(ge=0, le=GUESS_MAX)]


class EstimatedPart(Answer, frozen=True, kw_only=True):
    """One part of a run; what is not known of it is null. `basis` says what it rests on."""

    name: Annotated[str, msgspec.Meta(max_length=200)]
    items: Annotated[int, msgspec.Meta(ge=0, le=ITEMS_MAX)] | None = None
    seconds: Guess | None = None
    tokens: Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)] | None = None
    cost_usd: Guess | None = None
    basis: Annotated[str, msgspec.Meta(max_length=500)] = ""


class RunEstimate(Answer, frozen=True, kw_only=True):
    """What a run would take in all, and by its parts; what is not known is null.

    `is_least` says that a part of it is not known, so that it will be more. `exceeds_budget` says that its
    cost is above `max_cost_usd`, the budget in its specification; `words` say it all in a sentence.
    """

    kind: str
    items: Count | None
    seconds: Guess | None
    tokens: Count | None
    cost_usd: Guess | None
    is_least: bool
    basis: str
    parts: list[EstimatedPart]
    max_cost_usd: Guess | None
    exceeds_budget: bool
    words: str
