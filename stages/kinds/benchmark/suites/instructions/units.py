"""Divides a text into words, sentences and paragraphs, pure."""

from __future__ import annotations

import re
from typing import Final

_ABBREVIATIONS: Final = frozenset(
    (
        *(
            "mr",
            "mrs",
            "ms",
            "dr",
            "prof",
            "sr",
            "jr",
            "st",
            "vs",
            "etc",
            "inc",
            "ltd",
            "co",
            "corp",
            "dept",
            "est",
        ),
        *("fig", "vol", "approx", "gen", "col", "capt", "lt", "rev", "hon", "e.g", "i.e", "a.m", "p.m"),
    )
)
_END: Final = re.compile(
    r"[.!?\u2026\u3002\uff01\uff1f\u0964]+[\"'\u201d\u2019)\]*_]*(?=\s|\Z)|[\u3002\uff01\uff1f\u0964]"
)
_LAST_WORD: Final = re.compile(r"([A-Za-z.]+)\.[\"'”’)\]*_]*\Z")
_LIST_NUMBER: Final = re.compile(r"(?:\A|\n)\s*\d{1,3}\.\Z")
_INITIAL: Final = re.compile(r"(?:\A|[\s(])[A-Z]\.\Z")


def words(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores."""
    return re.findall(r"\w+", text)


def sentences(text: str) -> list[str]:
    """Return the sentences; what follows the last end mark is one if it has a word."""
    found, start = [], 0
    for end in _END.finditer(text):
        piece = text[start : end.end()]
        if not _is_abbreviation(piece[-40:], text[end.end() : end.end() + 3]):
            found.append(piece)
            start = end.end()
    found.append(text[start:])
    return [piece.strip() for piece in found if re.search(r"\w", piece)]


def parts(text: str, divider: str) -> list[str]:
    """Return what stands between dividers, which are a regular expression, trimmed."""
    return [piece.strip() for piece in re.split(divider, text)]


def _is_abbreviation(tail: str, after: str) -> bool:
    """Return whether a sentence goes on behind the point with which `tail` ends."""
    if not after.strip():
        return False
    if _LIST_NUMBER.search(tail) or _INITIAL.search(tail):
        return True
    last = _LAST_WORD.search(tail)
    return last is not None and last[1].lower() in _ABBREVIATIONS
