"""Compares an idea with earlier ones by the words that carry meaning; pure.

Two claims of the declared space that differ in intervention, measure or data set are two ideas, however
alike their sentences are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from events.kinds.idea import Idea, idea_of
from events.kinds.space.understanding import understand
from events.runtime.errors import NotMeasurable

SAME: Final = 0.7  # from this similarity on, two ideas are one
TITLE_WORDS_MIN: Final = 3  # a shorter title says too little to tell ideas apart
TEXT_MAX: Final = 4_000  # characters that are compared

# Words that tell no idea from another, parted by spaces.
_EMPTY: Final = (
    " a an and are as at be become becomes becoming by can do does for from has have how if in into is it its"
    " more of on only or our than that the their then there these this those to under use used using we when"
    " where whether which will with would idea hypothesis model models network networks "
)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The earlier idea that comes closest, and whether the two are one idea."""

    title: str
    similarity: float
    is_the_same: bool


def nearest(idea: Idea, earlier: Sequence[Idea]) -> Nearest | None:
    """Return the earlier idea nearest to `idea`; None where there is none."""
    found = [_compared(idea, each) for each in earlier]
    return max(found, key=lambda each: (each.is_the_same, each.similarity), default=None)


def same_as(idea: Idea, earlier: Sequence[Idea]) -> Nearest | None:
    """Return the earlier idea that `idea` is the same as; None where it is new."""
    found = nearest(idea, earlier)
    return found if found is not None and found.is_the_same else None


def _compared(idea: Idea, other: Idea) -> Nearest:
    alike = similarity(idea, other)
    is_the_same = alike >= SAME and not _claim_different_things(idea, other)
    return Nearest(other.title or other.short_hypothesis, alike, is_the_same)


def _claim_different_things(one: Idea, other: Idea) -> bool:
    """Return whether both can be read as claims, and as different ones; the direction is the answer."""
    try:
        first, second = (understand(idea_of(each.short_hypothesis)) for each in (one, other))
    except NotMeasurable:
        return False
    read = [
        (each.intervention, each.claim.metric, each.claim.data, each.claim.train_examples)
        for each in (first, second)
    ]
    return read[0] != read[1]


def similarity(one: Idea, other: Idea) -> float:
    """Return how much two ideas agree, from 0 to 1: in what they claim, or in what they are called."""
    claims = _shared(words(one.short_hypothesis), words(other.short_hypothesis))
    titles = words(one.title), words(other.title)
    if min(map(len, titles)) < TITLE_WORDS_MIN:
        return claims
    return max(claims, _shared(*titles))


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    left, right = _parted(one, other), _parted(other, one)
    return len(left & right) / len(left | right) if left and right else 0.0


def _parted(found: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    """Return `found` with a compound in two words where `other` writes it so: mix-up, mixup, mix up."""
    parts: set[str] = set()
    for word in found:
        cuts = range(1, len(word)) if word not in other else ()
        halves = ({word[:at], word[at:]} for at in cuts if word[:at] in other and word[at:] in other)
        parts |= next(halves, {word})
    return frozenset(parts)


def words(text: str) -> frozenset[str]:
    """Return the words of `text` that carry meaning, each in one form."""
    plain = unicodedata.normalize("NFKD", text[:TEXT_MAX]).lower()
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = re.sub(r"(?<=\w)[-'\N{RIGHT SINGLE QUOTATION MARK}](?=\w)", "", plain)  # mix-up is mixup
    found = re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", plain)
    return frozenset(_stem(word) for word in found if f" {word} " not in _EMPTY)


def _stem(word: str) -> str:
    """Return a word without the endings of number and tense, roughly: both sides lose the same."""
    for ending in ("ing", "ies", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word[:-1] if len(word) >= 4 and word.endswith("s") and not word.endswith("ss") else word
