"""Finds the number that an answer gives, pure.

Law: the more clearly something is marked as the answer, the more it counts: a box, the mark of the data set,
a sentence that says so, bold type, the last number. Where a mark holds several numbers, nothing less clear
decides between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from stages.kinds.benchmark.suites.parsing.declaration import GAVE_UP, UNFINISHED, declared
from stages.kinds.benchmark.suites.parsing.number_words import number_in_words
from stages.kinds.benchmark.suites.parsing.plain_text import boxes, plain
from stages.kinds.benchmark.suites.parsing.quantity import NUMBER, Value, value_of
from stages.kinds.benchmark.suites.parsing.thought import without_thought

_MARK: Final = re.compile(r"####[ \t]*([^\n]+)")
_BOLD: Final = re.compile(r"\*\*([^*\n]{1,200})\*\*")
# What ends the clause in which an answer stands.
_CLAUSE_END: Final = re.compile(
    r"[;\n\[]|\((?![-\d(\s]*\d+\s?[)/])|[.!?](?:\s|\Z)|,\s(?![-+]?\d)|\b(?:because|since|which|where"
    r"|after|when|if|given|but)\b"
)
CLAUSE_CHARS_MAX: Final = 2_000
_GROUP: Final = re.compile(r"(?<![\d.,]\d{3})(?<=\d)[ ](?=\d{3}(?![\d/]))")
_ANOTHER: Final = re.compile(
    r"\s?(?:[-+*/]|to|or|and|,|±|\\pm|\+/-)\s?[-+]?\d|\s?:\s?\d|\s?\\?(?:sqrt|pi\b)|\s?[√π]"
)
_ALTERNATIVE: Final = re.compile(
    r"\d\s*(?:or|to|-)\s*\Z|\b(?:between|either)\s[^\n.;=\d]{0,20}\d[\d.,]*\s(?:[^\W\d]+\s){0,2}?(?:and|or)\s"
    r"(?:[^\W\d]+\s)?\Z",
    re.IGNORECASE,
)
_AGAIN: Final = re.compile(r"\s?(?:or|,|≈)\s?" + NUMBER.pattern, re.IGNORECASE)
_RANGE: Final = re.compile(
    r"[^\n.]{0,40}?\b(?:between|from|either)\b[^\n.]{0,40}?\d[^\n.]{0,40}?\b(?:and|to|or)\s[^\n.]{0,20}?\d"
)
_CONCLUSION: Final = re.compile(r"(?:=|≈|\b(?:so|thus|therefore|hence|equals|totals|makes|gives|becomes)\b)")
_INTRODUCTION: Final = re.compile(
    r"(?:\s|[:=~≈\"'<>(]|\b(?:just|only|exactly|about|approximately|roughly|around|simply|a total of"
    r"|equal to|is|x|usd"
    r"|rs\.?|eur|gbp)\b)*",
    re.IGNORECASE,
)


def parse_number(answer: str) -> Value | None:
    """Return the number that an answer gives; None where it gives none, or several."""
    said = without_thought(answer)
    for marked in (boxes(said), _MARK.findall(said)):
        if marked:
            return single_number(plain(marked[-1]))
    for rest in reversed(declared(plain(said))):
        if (value := single_number(rest)) is not None or _begins_with_several(rest):
            return value
    bold = {value.exact: value for value in map(single_number, map(plain, _BOLD.findall(said)[-1:])) if value}
    if len(bold) == 1:
        return next(iter(bold.values()))
    return _concluded(plain(said))


def single_number(text: str) -> Value | None:
    """Return the number that a short text gives as an answer: `18 dollars`, `x = 5`, `1,234.50`, `3/4`."""
    clause = _GROUP.sub("", _clause(text[:CLAUSE_CHARS_MAX]))
    if (equation := clause.rpartition("="))[1] and NUMBER.search(equation[2]):
        clause = equation[2]
    head = _INTRODUCTION.match(clause)
    start = head.end() if head else 0
    match = NUMBER.match(clause, _with_sign(clause, start))
    if match is None and (words := number_in_words(clause[start:].removeprefix("a "))):
        return value_of(NUMBER.fullmatch(str(words[0])))  # type: ignore[arg-type]  # digits are a number
    if match is not None:
        return _unless_another(match)
    return _after_conclusion(clause)


def _unless_another(match: re.Match[str]) -> Value | None:
    """Return the number found, unless a different one follows: `7/2 or 3.5` is one number."""
    value = value_of(match)
    if value is None or not (another := _ANOTHER.match(match.string, match.end())):
        return value
    again = _AGAIN.match(match.string, match.end())
    same = None if again is None or not another[0] else value_of(again)
    return value if same is not None and same.exact == value.exact else None


def _begins_with_several(text: str) -> bool:
    head = _INTRODUCTION.match(text)
    return _RANGE.match(text) is not None or (head is not None and NUMBER.match(text, head.end()) is not None)


def _with_sign(clause: str, start: int) -> int:
    """Return the place of the bracket or sign before a number, which an introduction may have taken."""
    return start - 1 if start and clause[start - 1] in "(" else start


def _clause(text: str) -> str:
    """Return the first clause that says something."""
    place = 0
    for end in _CLAUSE_END.finditer(text):
        if re.search(r"\w", text[place : end.start()]):
            return text[: end.start()]
    return text


def _after_conclusion(clause: str) -> Value | None:
    marks = list(_CONCLUSION.finditer(clause))
    tail = clause[marks[-1].end() :] if marks else clause
    return _last(NUMBER.finditer(tail)) if marks else _only(NUMBER.finditer(tail))


def _concluded(text: str) -> Value | None:
    """Return the last number of an answer that marks none; None where it says that it has none."""
    paragraphs = [each for each in re.split(r"\n\s*\n", text) if each.strip()]
    if paragraphs and (GAVE_UP.search(paragraphs[-1]) or UNFINISHED.search(paragraphs[-1])):
        return None
    lines = [line for line in text.splitlines() if NUMBER.search(line)]
    if not lines:
        words = number_in_words(text.strip()) if len(text) < 100 else None
        return None if words is None else single_number(str(words[0]))
    matches = list(NUMBER.finditer(lines[-1]))
    if _ALTERNATIVE.search(lines[-1][: matches[-1].start()]):
        return None
    return _last(matches)


def _last(matches: Iterable[re.Match[str]]) -> Value | None:
    found = [value for value in map(value_of, matches) if value is not None]
    return found[-1] if found else None


def _only(matches: Iterable[re.Match[str]]) -> Value | None:
    found = [value for value in map(value_of, matches) if value is not None]
    return found[0] if len({value.exact for value in found}) == 1 else None
