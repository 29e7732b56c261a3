"""Finds the typed numbers in a text; pure.

Law: a number in a paper is a reference to a measurement. A digit counts as part of a name only where the
name begins with letters and is short, such as L2, F1 or ReLU6.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

SPELLED_MAX: Final = 8  # words of a spelled number: without a bound a text of nothing else takes hours
_NAME: Final = re.compile(r"(?:[A-Z][A-Za-z]{0,15}-?|[a-z])[0-9]{1,3}[A-Za-z]{0,8}")
_EDGES: Final = "()[]{}<>.,;:!?'\"“”’*~/|"
_SPELLED: Final = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|"
    r"million)(?:[- ](?:one|two|three|four|five|six|seven|eight|nine|point|hundred|thousand))"
    rf"{{0,{SPELLED_MAX - 1}}}[- ](?:per ?cent|percent\w*|points?\b|fold\b|times\b)",
    re.IGNORECASE,
)


def typed_numbers(text: str) -> list[str]:
    """Return the numbers in `text`, each as it stands there, in their order."""
    found = [part for part in text.split() if _has_number(part)]
    return found + [match.group(0) for match in _SPELLED.finditer(text)]


def _has_number(part: str) -> bool:
    """Return whether a word holds a number that is no part of a name."""
    pieces = (piece.strip(_EDGES) for piece in re.split(r"[/,;()\[\]–—]", part))
    return any(_is_numeric(piece) and not _NAME.fullmatch(piece) for piece in pieces)


def _is_numeric(piece: str) -> bool:
    return any(unicodedata.numeric(char, None) is not None for char in piece)
