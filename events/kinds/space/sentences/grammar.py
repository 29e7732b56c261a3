"""Which sentences are claims: patterns over the signs of items, and what each place of a pattern is; pure.

Law: a sentence is read whole or not at all. Beside fillers, data, numbers of rows, negations, hedges and
margins, every item has a place in the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, cast

from events.kinds.space.sentences.arms import Place, arms_in, value_of
from events.kinds.space.sentences.items import UNKNOWN, Item
from events.kinds.space.sentences.sizes import is_negated, margin_of
from events.kinds.space.sentences.statement import Arm, Bound, Measure, Move, Role, Statement

ASIDE: Final = "_DFnhm"
LEFT_OUT_MAX: Final = 6  # items in a row that may be the ones which make a sentence unreadable
ARM_ITEMS_MAX: Final = 4  # two arms, each named twice
ITEMS_MAX: Final = 40  # of one claim; a longer text is none
CLAIMS_MAX: Final = 4  # in one sentence
LOWER_IS_BETTER: Final = (
    "ece", "nll", "brier", "rmse", "training_seconds", "parameters", "error", "loss",
)  # fmt: skip
_SIZES: Final = ("wider", "narrower", "deeper", "shallower")
_BEING: Final = frozenset({"is", "are", "was", "were", "be", "been", "being", "gets", "get"})
_DONE: Final = re.compile(r"\w+ed|hurt|cut")
_ADDED: Final = re.compile(r"\b(?:add\w*|introduc\w+)\b")
_THRESHOLD: Final = re.compile(r"M.*(c)q*N")
_THAN: Final = ("than", "over", "against", "relative to")
_TIME: Final = Measure("training_seconds")
_ROLES: Final[dict[str, Role]] = {
    "I": "intervention", "N": "intervention", "q": "intervention", "u": "intervention",
    "U": "intervention", "x": "intervention", "X": "intervention", "w": "intervention", "f": "intervention",
    "t": "intervention", "c": "comparator", "C": "comparator", "b": "direction", "s": "comparator",
    "r": "comparator", "R": "comparator", "o": "comparator", "M": "metric", "i": "metric", "E": "direction",
    "e": "direction", "Z": "direction", "j": "filler", "k": "filler", "_": "filler", "D": "data",
    "F": "condition", "n": "negation", "h": "hedge", "m": "margin",
}  # fmt: skip

_EFFECT: Final = "(?:EM|Z|E|ME)"
_SAID: Final = "(?:ME|EM|Z|E)"
_VERSUS: Final = "(?:c[wu]*(?:A|q*N)|cxA?|CA)"
# A is an arm, then the other one; where the other comes first, the pattern is in the second row.
_PATTERNS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[wu]*A{_VERSUS}?j?{_EFFECT}",  # with dropout accuracy rises; Adam instead of SGD improves accuracy
        rf"[wu]*A(?:EM|ME|Z|E){_VERSUS}",  # Adam has a higher accuracy than SGD
        rf"[wu]*AE(?:{_VERSUS}iM|iM{_VERSUS}?)",  # Adam is better than SGD in accuracy
        rf"{_SAID}[wu]+A{_VERSUS}?",  # accuracy is higher with Adam than with SGD
        rf"Mw+AE{_VERSUS}?",  # accuracy with Adam is higher than with SGD
        rf"MeA{_VERSUS}?",  # calibration benefits from label smoothing
        r"[wu]*Ab(?:A|q*N)(?:iM)?",  # LayerNorm beats BatchNorm in accuracy
    )
)
_TURNED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:c[wu]*|C)A[wu]*A{_EFFECT}",  # compared with SGD, Adam has a higher accuracy
        rf"sfAtAj?{_EFFECT}",  # switching from SGD to Adam improves accuracy
        rf"rA[wo]Aj?{_EFFECT}",  # replacing SGD with Adam improves accuracy
        rf"w?ARAj?{_EFFECT}",  # SGD is replaced by Adam
        rf"{_SAID}w*(?:sfAtA|rA[wo]A|ARA)",
    )
)
_REMOVED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[wu]*(?:xu?A|AX)j?{_EFFECT}(?:cw+A?)?",  # without dropout accuracy is lower
        rf"{_SAID}w*(?:xu?A|AX)(?:cw+A?)?",  # accuracy falls when dropout is removed
    )
)


@dataclass(frozen=True, slots=True)
class Unread:
    """A text that is no claim: the words that are not understood, or too many for one claim."""

    words: tuple[str, ...]
    is_known: bool = False


def statement_of(items: Sequence[Item]) -> Statement | Unread:
    """Return what the items of a sentence say together, or the words that make it no claim."""
    runs = groupby(items, key=lambda each: each.sign == UNKNOWN)
    unknown = tuple(_words(run) for is_unknown, run in runs if is_unknown)
    if unknown:
        return Unread(unknown)
    if len(items) > ITEMS_MAX:
        return Unread((_words(items),), is_known=True)
    found = _read(items) or _several(items)
    return found if found is not None else Unread(_surplus(items), is_known=True)


def readable_part(items: Sequence[Item]) -> Statement | None:
    """Return what the items say without those that are not understood; None where nothing is left."""
    known = [each for each in items if each.sign != UNKNOWN]
    if len(known) > ITEMS_MAX:
        return None
    whole = _read(known)
    if whole is not None:
        return whole
    return next((found for found, _ in _without_some(known)), None)


def _surplus(items: Sequence[Item]) -> tuple[str, ...]:
    """Return the words in a row without which the items are a claim; all where there are none."""
    found = next((words for _, words in _without_some(items)), None)
    return (found or _words(items),) if items else ()


def _without_some(items: Sequence[Item]) -> Iterator[tuple[Statement, str]]:
    """Yield what the items say without some in a row: a second part first, then the fewest."""
    sizes = range(1, min(LEFT_OUT_MAX, len(items)) + 1)
    windows = [(start, start + size) for size in sizes for start in range(len(items) - size, -1, -1)]
    windows.sort(key=lambda window: items[window[0]].sign != "j")
    for start, end in windows:
        if not all(each.sign in ASIDE for each in items[start:end]):
            found = _read([*items[:start], *items[end:]])
            if found is not None:
                yield found, _words(items[start:end])


def _read(items: Sequence[Item]) -> Statement | None:
    signs = "".join(each.sign for each in items)
    if (
        signs.count("M") > 1
        or sum(map(signs.count, "EZeb")) not in (1, 2, 3)
        or signs.count("I") > ARM_ITEMS_MAX
    ):
        return None  # at once: no pattern has as many
    places = arms_in([each for each in items if each.sign not in ASIDE])
    code = "".join(each.sign for each in places)
    if any(each.fullmatch(code) for each in _PATTERNS):
        return _stated(items, places, code)
    if any(each.fullmatch(code) for each in _TURNED):
        return _stated(items, places, code, is_turned=True)
    if any(each.fullmatch(code) for each in _REMOVED):
        return _stated(items, places, code, is_removed=True)
    return None


def _stated(
    items: Sequence[Item],
    places: Sequence[Place],
    code: str,
    *,
    is_turned: bool = False,
    is_removed: bool = False,
) -> Statement | None:
    aside = {sign: [each for each in items if each.sign == sign] for sign in "DFnhm"}
    if len({each.meaning for each in aside["D"]}) > 1 or len(aside["F"]) > 1:
        return None
    arms = [each.arm for each in places if each.arm is not None]
    main, *rivals = reversed(arms) if is_turned else arms
    if (is_removed or "cx" in code or "C" in code) and rivals:
        if rivals != [Arm(main.name)]:
            return None  # better with dropout than without weight decay
        rivals = []
    number = next((value_of(each.items[0]) for each in places if each.sign == "N"), None)
    if is_removed:
        main = Arm(main.name, main.value, main.from_value, is_removed=True)
    effect = next(each.items[0] for each in places if each.sign in "EZeb")
    measured = next((each.items[0] for each in places if each.sign == "M"), None)
    if measured is None and effect.sign == "E" and effect.meaning.rstrip("*") in ("up", "down"):
        return None  # of what?
    if effect.meaning.endswith("?") and measured is not None and measured.meaning in LOWER_IS_BETTER:
        return None  # a negative effect on the error
    if _is_of_the_arm(effect, items, code) or _is_counted(main, places, items) or _is_threshold(places, code):
        return None
    if not _is_sequence(places, code):
        return None
    condition = aside["F"][0].parts if aside["F"] else {}
    return Statement(
        arm=main,
        against=rivals[0] if rivals else number,
        measure=_TIME if effect.sign == "Z" else _measure(measured) if measured else None,
        move=cast("Move", effect.meaning.rstrip("*?")),
        margin=margin_of(items),
        rows=int(condition["rows"]) if "rows" in condition else None,
        share=float(condition["share"]) if "share" in condition else None,
        data=aside["D"][0].meaning if aside["D"] else "",
        negation=_words(aside["n"]),
        is_negated=is_negated(items),
        hedge=_words(aside["h"]),
        bound=tuple(Bound(_ROLES[each.sign], each.words) for each in items),
    )


def _several(items: Sequence[Item]) -> Statement | None:
    """Return what a sentence says of several measures with the same arms, which its parts need not repeat."""
    joints = [place for place, each in enumerate(items) if each.words == "and" or each.sign == "k"]
    if not 0 < len(joints) < CLAIMS_MAX:
        return None
    ends = [*joints, len(items)]
    parts = [items[start + 1 : end] for start, end in zip([-1, *joints], ends, strict=True)]
    if any(each.sign in "hj" for part in parts for each in part) or not all(map(_stops, parts)):
        return None
    for before, place, after in zip(parts, joints, parts[1:], strict=False):
        if not items[place].words.startswith("but") and _is_negated(before) and not _is_negated(after):
            return None  # does not improve accuracy and calibration
    said = [_shared_tail(part, parts[-1]) for part in parts[:-1]] + [parts[-1]]
    return _joined(items, said) or _joined(items, parts)


def _joined(items: Sequence[Item], parts: Sequence[Sequence[Item]]) -> Statement | None:
    """Return the parts as one statement; a part without arms has those of the first."""
    head = parts[0]
    subject, verb = head[: _first(head, "EZebMnm")], head[: _first(head, "M")]
    found = [_read(head)]
    for part in parts[1:]:
        is_bare = not any(each.sign in "EZebm" for each in part) and not any(
            each.sign in "nm" for each in verb
        )
        found.append(_read(part) or _read([*subject, *part]) or (_read([*verb, *part]) if is_bare else None))
    first, *others = found
    if first is None or not all(each is not None and _is_beside(each, first) for each in others):
        return None
    also = tuple(each for each in others if each is not None)
    data = next((each.data for each in (first, *also) if each.data), "")
    bound = tuple(Bound(_ROLES[each.sign], each.words) for each in items)
    return replace(first, data=data, also=tuple(replace(each, data=data) for each in also), bound=bound)


def _is_beside(one: Statement, other: Statement) -> bool:
    """Return whether two claims are about the same arms, data and rows; data may be named once."""
    mine, theirs = ((each.arm, each.against, each.rows, each.share) for each in (one, other))
    return mine == theirs and (not one.data or not other.data or one.data == other.data)


def _shared_tail(part: Sequence[Item], last: Sequence[Item]) -> list[Item]:
    """Return a part with what stands behind the last measure: accuracy rises and loss falls with Adam."""
    tail = last[max(_last(last, "EZebM"), 0) + 1 :]
    return [*part, *(each for each in tail if each.sign not in "mn")]


def _stops(part: Sequence[Item]) -> bool:
    return any(each.sign in "EZebM" for each in part)


def _is_negated(part: Sequence[Item]) -> bool:
    return any(each.sign == "n" or each.meaning.startswith("not ") for each in part)


def _first(items: Sequence[Item], signs: str) -> int:
    return next((place for place, each in enumerate(items) if each.sign in signs), len(items))


def _last(items: Sequence[Item], signs: str) -> int:
    return next((place for place in reversed(range(len(items))) if items[place].sign in signs), -1)


def _is_of_the_arm(effect: Item, items: Sequence[Item], code: str) -> bool:
    """Return whether something is said to be done to the arm itself: dropout is improved."""
    if effect.sign != "E" or "M" in code[: code.index("E")] or not _DONE.fullmatch(effect.words):
        return False
    return any(each.words in _BEING for each in items[: items.index(effect)])


def _is_counted(main: Arm, places: Sequence[Place], items: Sequence[Item]) -> bool:
    """Return whether so many layers or units are added or removed: how many there are then is not said."""
    named = [each.items[0].words for each in places if each.arm is not None and each.arm.name == main.name]
    if main.name not in _SIZES or not any(each[0].isdigit() for each in named):
        return False
    return any(each.sign in "xX" or (each.sign in "uU" and _ADDED.search(each.words)) for each in items)


def _is_threshold(places: Sequence[Place], code: str) -> bool:
    """Return whether a number stands where it may be one of the metric: a higher accuracy than 0.9."""
    found = _THRESHOLD.search(code)
    return found is not None and places[found.start(1)].items[0].words in _THAN


def _is_sequence(places: Sequence[Place], code: str) -> bool:
    """Return whether what stands before an "and" is a happening, and no second subject of the effect."""
    at = code.find("j")
    if at < 0 or places[at].items[0].words == "then" or "R" in code:
        return True
    return any(_BEING & {*each.words.split()} for each in places[at - 1].items)


def _words(items: Iterable[Item]) -> str:
    return " ".join(each.words for each in items)


def _measure(item: Item) -> Measure:
    k, of = item.parts.get("k", ""), item.parts.get("of", "")
    name = "accuracy" if k else item.meaning
    return Measure(name.removeprefix("-"), name.startswith("-"), k, of)
