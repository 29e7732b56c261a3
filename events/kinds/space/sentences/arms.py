"""Which items of a sentence name one arm together: an intervention with the value that stands at it; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.sentences.items import Item
from events.kinds.space.sentences.lexicon import NUMBER
from events.kinds.space.sentences.statement import Arm

ITEMS_MAX: Final = 8  # of one arm
_NUMBER: Final = re.compile(rf"(?<!\S)({NUMBER}) ?(%|percent)?(?!\w)")
_FACTORS: Final = ((re.compile(r"\b(?:twice|doubl\w+)\b"), 2.0), (re.compile(r"\b(?:half|halv\w+)\b"), 0.5))
# 0.3 dropout; dropout from 0.1 to 0.3; a wider network with 512 units; dropout of 0.3
_ARM: Final = re.compile(r"E?IfNtN|Nq?I|(?P<twice>Iw?I)|I[qt]+N|IN|I")
# What the number of a field is called beside "of"; a rate of learning needs its name.
_CALLED: Final = {
    "dropout": ("rate", "probability", "p"), "label_smoothing": ("epsilon", "alpha", "factor", "strength"),
    "mix_up": ("alpha", "strength"), "noise": ("sigma", "strength", "level"), "gradient_clip": ("norm",),
    "weight_decay": ("coefficient", "factor", "strength", "rate"), "members": ("size",),
    "batch_size": ("size",), "weight_average": ("rate", "factor"), "lr": ("learning rate", "lr"),
}  # fmt: skip
_SHARES: Final = (
    "dropout",
    "label_smoothing",
    "weight_decay",
    "warm_up",
    "weight_average",
)  # may be per cent
_THINGS: Final = {"pixel": "shift", "member": "members", "network": "members"}
_COUNTING: Final = re.compile(r"\b(?:more|fewer|additional|extra|adding)\b")
_JOINING: Final = re.compile(r"\b(?:with|an?|of|at|set|equal|to|max|maximum)\b")


@dataclass(frozen=True, slots=True)
class Place:
    """One sign of a pattern: the items that it stands for, and the arm where it is one."""

    sign: str
    items: tuple[Item, ...]
    arm: Arm | None = None


def arms_in(items: Sequence[Item]) -> list[Place]:
    """Return the items as places, those that name one arm together as one."""
    places: list[Place] = []
    at = 0
    while at < len(items):
        place = _arm_at(items, at) or Place(items[at].sign, (items[at],))
        places.append(place)
        at += len(place.items)
    return places


def value_of(item: Item) -> float:
    """Return the number that an item of a number is."""
    found = _NUMBER.search(item.words)
    assert found is not None
    return float(found[1]) / (100.0 if found[2] else 1.0)


def _arm_at(items: Sequence[Item], at: int) -> Place | None:
    found = _ARM.match("".join(each.sign for each in items[at : at + ITEMS_MAX]))
    if found is None:
        return None
    took = tuple(items[at : at + found.end()])
    if found["twice"] and not _is_repeated(took[0], took[-1]):
        took = took[:1]
    named = [each for each in took if each.sign == "I"]
    inner = [value for each in named if (value := _value_in(each)) is not None]
    said = [value_of(each) for each in took if each.sign == "N"]
    if (inner and said) or (said and not (_is_called_so(named[0], took) and _fits(named[0], took))):
        return None
    if len(said) == 2:
        low, high = said
        named_move = took[0].meaning if took[0].sign == "E" else _move_of(named[0])
        if named_move and named_move != ("up" if high > low else "down"):
            return None
        return Place("A", took, Arm(named[0].meaning, high, low))
    if items[at + len(took) : at + len(took) + 1] and items[at + len(took)].sign == "U":
        took = (*took, items[at + len(took)])
    return Place("A", took, Arm(named[0].meaning, next(iter((*said, *inner)), None)))


def _is_repeated(one: Item, other: Item) -> bool:
    """Return whether the second phrase only says how much of the first there is."""
    return one.meaning == other.meaning and _value_in(one) is None and _value_in(other) is not None


def _is_called_so(named: Item, took: Sequence[Item]) -> bool:
    """Return whether the words at the number are those for the number of this intervention."""
    *others, field = INTERVENTIONS[named.meaning].off
    if others and field != "lr":
        return False
    words = {" ".join(_JOINING.sub("", each.words).split()) for each in took if each.sign == "q"} - {""}
    return words <= {*_CALLED.get(field, ())} and (field != "lr" or bool(words))


def _fits(named: Item, took: Sequence[Item]) -> bool:
    """Return whether the numbers of an arm are values of its field, and no counts of other things."""
    *_, field = INTERVENTIONS[named.meaning].off
    numbers = [each for each in took if each.sign == "N"]
    if took[0].sign == "N" and took[0].words.isdecimal():
        return False  # 2 shifts
    if _COUNTING.search(named.words):
        return False  # more layers (4)
    if any(each.parts.get("unit") for each in numbers) and field not in _SHARES:
        return False
    things = [each.parts.get("thing", "") for each in numbers]
    if field == "training_length":
        return set(things) == {"times the length"}
    return all(not each or _THINGS.get(each.rstrip("s")) == field for each in things)


def _move_of(named: Item) -> str:
    """Return where an intervention moves its number, empty where its name does not say."""
    (start, *_), (end, *_) = (
        list(each.values()) for each in (INTERVENTIONS[named.meaning].off, INTERVENTIONS[named.meaning].usual)
    )
    if named.meaning == "ensemble" or not isinstance(start, int | float) or not isinstance(end, int | float):
        return ""
    return "" if not start else "up" if end > start else "down"


def _value_in(item: Item) -> float | None:
    """Return the number that the words of an intervention hold themselves, such as `512 hidden units`."""
    intervention = INTERVENTIONS[item.meaning]
    start, *more = intervention.off.values()
    if more or isinstance(start, str | bool):
        return None
    if found := _NUMBER.search(item.words):
        return float(found[1])
    return next((start * times for words, times in _FACTORS if words.search(item.words)), None)
