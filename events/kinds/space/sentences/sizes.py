"""The size of an effect, and its negation, where they stand at the words for it; pure.

Law: a size or a negation that may belong to another word has no meaning here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from events.kinds.space.sentences.items import Item
from events.kinds.space.sentences.statement import Margin

# What is about so much, or exactly, bounds nothing.
_BOUNDS: Final[dict[str, Literal["least", "most"]]] = {
    "at least": "least", "more than": "least", "over": "least", "no less than": "least", "or more": "least",
    "at most": "most", "less than": "most", "no more than": "most", "not more than": "most",
    "fewer than": "most", "under": "most",
}  # fmt: skip
_WORDS: Final = {"half a": 0.5, "half an": 0.5, "one": 1.0, "a": 1.0, "an": 1.0}
_SKIPPED: Final = "_DF"
_MOVES: Final = "EZeb"
_OF_MOVES: Final = ("not", "no", "fail to", "fails to", "failed to")


def margin_of(items: Sequence[Item]) -> Margin | None:
    """Return the size that a claim says; one without a number where it is no size, or not placed."""
    sizes = [each for each in items if each.sign == "m" or each.meaning.endswith("*")]
    if not sizes:
        return None
    words, parts = " ".join(each.words for each in sizes), sizes[0].parts
    if len(sizes) > 1 or "size" not in parts or not _is_placed(items, items.index(sizes[0])):
        return Margin(words)
    size, unit = parts["size"], parts.get("unit", "")
    number = _WORDS[size] if size in _WORDS else float(size)
    return Margin(words, _BOUNDS.get(parts.get("bound", ""), ""), number, unit.removesuffix("s"))


def is_negated(items: Sequence[Item]) -> bool:
    """Return whether a claim has one negation, and that of its move."""
    places = [place for place, each in enumerate(items) if each.sign == "n"]
    if len(places) != 1:
        return False
    (place,) = places
    if items[place].words.startswith("it is "):
        return all(each.sign in _SKIPPED for each in items[:place])
    return items[place].words in _OF_MOVES and _next(items[place + 1 :], "_m") in (*_MOVES,)


def _is_placed(items: Sequence[Item], place: int) -> bool:
    """Return whether a size stands behind the move, or before it; without a unit nothing may be between."""
    before = _next(reversed(items[:place]), _SKIPPED)
    if before in (*_MOVES, "M") or _next(items[place + 1 :], "_") in (*_MOVES,):
        return True
    return "unit" in items[place].parts and any(each.sign in _MOVES for each in items[:place])


def _next(items: Iterable[Item], skipped: str) -> str:
    return next((each.sign for each in items if each.sign not in skipped), "")
