"""Scores answers against what is known: a letter, a number, instructions, a text, pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stages.kinds.benchmark.suites.instructions.checks import follows
from stages.kinds.benchmark.suites.item import Item, Score, Scoring
from stages.kinds.benchmark.suites.parsing.choice import LETTERS, parse_choice
from stages.kinds.benchmark.suites.parsing.declaration import declared
from stages.kinds.benchmark.suites.parsing.number import parse_number, single_number
from stages.kinds.benchmark.suites.parsing.plain_text import boxes, plain
from stages.kinds.benchmark.suites.parsing.quantity import Value, agree
from stages.kinds.benchmark.suites.parsing.thought import without_thought
from stages.kinds.benchmark.suites.payload import Instructions, Options, Quantity, Wanted

NO_LETTER = "no single option is named"
NO_NUMBER = "no single number is given"
NO_ANSWER = "nothing is answered"


def choice(item: Item, answer: str, _: Scoring) -> Score:
    """Score the option that an answer chooses."""
    assert isinstance(item.payload, Options)
    return chosen(answer, item.payload.texts, item.payload.right)


def chosen(answer: str, options: Sequence[str], right: int) -> Score:
    """Score an answer by the place of the right option."""
    place = parse_choice(answer, options)
    if place is None:
        return Score(outcome="unparsed", why=NO_LETTER)
    if place == right:
        return Score(outcome="right", value=1.0, parsed=LETTERS[place])
    return Score(outcome="wrong", parsed=LETTERS[place], why=f"{LETTERS[place]} instead of {LETTERS[right]}")


def number(item: Item, answer: str, _: Scoring) -> Score:
    """Score the number that an answer gives."""
    assert isinstance(item.payload, Quantity)
    return counted(answer, [item.payload.value], item.payload.tolerance)


def counted(answer: str, wanted: Sequence[str], tolerance: float) -> Score:
    """Score an answer by the numbers that are right, each as text."""
    given = parse_number(answer)
    if given is None:
        return Score(outcome="unparsed", why=NO_NUMBER)
    right = [value for value in map(single_number, wanted) if value is not None]
    if any(agree(given, value, tolerance) for value in right):
        return Score(outcome="right", value=1.0, parsed=_shown(given))
    return Score(outcome="wrong", parsed=_shown(given), why=f"{_shown(given)} instead of {wanted[0]}")


def instructions(item: Item, answer: str, _: Scoring) -> Score:
    """Score whether an answer follows every instruction."""
    assert isinstance(item.payload, Instructions)
    said = without_thought(answer)
    if not said:
        return Score(outcome="unparsed", why=NO_ANSWER)
    broken = [name for name, given in item.payload.checks if not follows(name, said, given)]
    total = len(item.payload.checks)
    parsed = f"{total - len(broken)} of {total} instructions followed"
    if broken:
        return Score(outcome="wrong", parsed=parsed, why=f"not followed: {', '.join(broken)}")
    return Score(outcome="right", value=1.0, parsed=parsed)


def exact(item: Item, answer: str, _: Scoring) -> Score:
    """Score whether an answer, its box or the sentence that declares it is one of the texts."""
    assert isinstance(item.payload, Wanted)
    said = without_thought(answer)
    marked = [*boxes(said)[-1:], *(rest.partition("\n")[0] for rest in declared(plain(said))[-1:])]
    given = [folded(each) for each in (*marked, plain(said)) if folded(each)]
    if not given:
        return Score(outcome="unparsed", why=NO_ANSWER)
    if not {folded(plain(each)) for each in item.payload.texts}.isdisjoint(given):
        return Score(outcome="right", value=1.0, parsed=given[0])
    return Score(outcome="wrong", parsed=given[0], why=f"it is not {item.payload.texts[0]}")


def contains(item: Item, answer: str, _: Scoring) -> Score:
    """Score whether one of the texts is in an answer, as whole words."""
    assert isinstance(item.payload, Wanted)
    said = folded(plain(without_thought(answer)))
    if not said:
        return Score(outcome="unparsed", why=NO_ANSWER)
    for text in item.payload.texts:
        wanted = folded(plain(text))
        if wanted and re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", said):
            return Score(outcome="right", value=1.0, parsed=text)
    return Score(outcome="wrong", parsed=said, why=f"{item.payload.texts[0]} is not in it")


def folded(text: str) -> str:
    """Return a text without case, blanks that only divide, and the marks around it."""
    return " ".join(text.casefold().split()).strip(" \t\"'.,;:!?`*")


def _shown(value: Value) -> str:
    exact = value.exact
    return str(exact) if exact.denominator == 1 else value.text
