"""Reads whole numbers that are written in English words, pure."""

from __future__ import annotations

import re
from typing import Final

_ONES: Final = (
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL: Final = {word: value for value, word in enumerate(_ONES)} | {
    word: 10 * value for value, word in enumerate(_TENS, 2)
}
SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD: Final = re.compile(r"[\s-]*(?:and\s+)?([a-z]+)", re.IGNORECASE)


def number_in_words(text: str) -> tuple[int, str] | None:
    """Return the number with which a text begins, and what follows it; None where it begins otherwise."""
    total = part = place = 0
    last = ""
    while (match := _WORD.match(text, place)) is not None:
        word = match[1].lower()
        if not (found := _with(total, part, word, last)):
            break
        total, part = found
        place, last = match.end(), word
    return (total + part, text[place:]) if last else None


def _with(total: int, part: int, word: str, last: str) -> tuple[int, int] | None:
    """Return the number with one word more; None where the word does not go on with it."""
    if word in SMALL:
        value = SMALL[word]
        follows_tens = last in _TENS and 0 < value < 10
        return (total, part + value) if not last or follows_tens or last in ("hundred", *SCALES) else None
    if word == "hundred" and 0 < part < 10:
        return total, part * 100
    if word in SCALES and part:
        return total + part * SCALES[word], 0
    return None
