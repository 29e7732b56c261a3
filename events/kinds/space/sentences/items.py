"""The items of a text: phrases of the lexicon, and the words that it does not have; pure.

Law: every word of the text is in exactly one item. The longest phrase at a place wins, then the one that the
lexicon has first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from events.kinds.space.sentences.lexicon import ENTRIES, Entry

UNKNOWN: Final = "?"


@dataclass(frozen=True, slots=True)
class Item:
    """A phrase with its sign and meaning; `parts` are what the phrase leaves open, such as a number."""

    sign: str
    meaning: str
    words: str
    parts: dict[str, str] = field(default_factory=dict)


def items_of(text: str, entries: Sequence[Entry] = ENTRIES) -> list[Item]:
    """Return the items of a plain text in order."""
    return list(_items(text, entries))


def _items(text: str, entries: Sequence[Entry]) -> Iterator[Item]:
    at = 0
    while at < len(text):
        best, end = None, at
        for each in entries:
            found = each.words.match(text, at)
            if found is not None and found.end() > end:
                best, end = (each, found), found.end()
        if best is None:
            end = text.find(" ", at)
            end = len(text) if end < 0 else end
            yield Item(UNKNOWN, "", text[at:end])
        else:
            parts = {name: said for name, said in best[1].groupdict().items() if said is not None}
            yield Item(best[0].sign, best[0].meaning, text[at:end], parts)
        at = end + 1
