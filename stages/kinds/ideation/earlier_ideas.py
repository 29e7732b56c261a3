"""Finds the ideas that a request calls old: marked lines of its context, and lists below them; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from events.kinds.idea import Idea

EARLIER_MAX: Final = 100
PART_MIN: Final = 8  # characters; a shorter part says no idea
PART_MAX: Final = 1_000
_OLD: Final = re.compile(
    r"\b(?:already|earlier|previous(?:ly)?|tried|tested|published|known (?:ideas?|results?|claims?)|not again"
    r"|avoid|exclude)\b",
    re.IGNORECASE,
)
_BULLET: Final = re.compile(r"^\s*(?:[-*\N{BULLET}]|\d{1,3}[.)])\s+")


def earlier_ideas(context: str) -> list[Idea]:
    """Return what `context` names as tried, known or not wanted, an idea for each part of such a line."""
    return [Idea(short_hypothesis=part) for part in _parts(context)][:EARLIER_MAX]


def _parts(context: str) -> Iterator[str]:
    for line in _old_lines(context):
        text = _BULLET.sub("", line)
        head, colon, rest = text.partition(":")
        text = rest if colon and _OLD.search(head) else text
        for part in re.split(r"[;\n]|(?<=[^\W\d])\.\s", text):
            if len(part.strip()) >= PART_MIN:
                yield part.strip()[:PART_MAX]


def _old_lines(context: str) -> Iterator[str]:
    """Yield the lines that are marked as old, and those of a list whose heading is."""
    is_below = False
    for line in context.splitlines():
        if not line.strip():
            is_below = False
        elif _OLD.search(line):
            is_below = line.rstrip().endswith(":")
            if not is_below:
                yield line
        elif is_below:
            yield line
