"""Finds the terms that a text mentions, and their places; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TEXT_MAX: Final = 20_000  # characters of a text that are read for words
_POINT: Final = "\N{MIDDLE DOT}"
_NUMBERS: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mention:
    """A term in a text; `inverse` where the words mean the opposite of the number."""

    start: int
    end: int
    name: str
    inverse: bool = False

    def overlaps(self, other: Mention) -> bool:
        """Return whether the two share a character."""
        return self.start < other.end and other.start < self.end


def plain(text: str) -> str:
    """Return `text` in lower case, its words parted by single spaces, its sentences by full stops."""
    folded = unicodedata.normalize("NFKC", text[:TEXT_MAX]).lower()
    folded = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", folded)
    folded = re.sub(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)e-?\d{1,2}(?!\w)", _written_out, folded)
    folded = re.sub(r"(?<=\d)\.(?=\d)|(?<![\w.])\.(?=\d)", _POINT, folded)  # 0.5 is no end of a sentence
    folded = re.sub(r"[.!?;\n]+", " . ", folded)
    folded = re.sub(rf"[^\w.%{_POINT}]|_", " ", folded)
    return " ".join(_NUMBERS.get(word, word) for word in folded.replace(_POINT, ".").split())


def mentions(words: str, text: str) -> Iterator[re.Match[str]]:
    """Yield where the regular expression `words` stands in a plain text, as whole words."""
    return re.finditer(rf"\b(?:{words})\b", text)


def _written_out(number: re.Match[str]) -> str:
    return f"{float(number[0]):.12f}".rstrip("0").rstrip(".")
