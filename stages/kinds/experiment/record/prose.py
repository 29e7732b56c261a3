"""The words of a paper: sections of paragraphs that name numbers by reference, never by digits.

A reference is `{key}` with a key of `Numbers`; a paragraph that types a number of its own is
refused where a model wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SECTIONS: Final = (
    "abstract", "introduction", "related_work", "method", "results", "ablations", "validation", "limitations",
    "conclusion",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """The paragraphs of each section of `SECTIONS` in plain text; `author` is who wrote them.

    `cited` are the numbers, counted from 0, of the works in the record that the text refers to.
    """

    sections: dict[str, Sequence[str]]
    author: str
    cited: tuple[int, ...] = ()
