"""A user's own suite: the file, how its fields map to an item, and how answers are scored.

Law: everything in it comes from a user, and so does the file. Both are bounded, and a record that does not
fit refuses the suite with its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from events.kinds.benchmark import OwnSuite, Scorer
from stages.kinds.benchmark.suites.adapters.choices import lettered
from stages.kinds.benchmark.suites.adapters.fields import id_text, optional_text, text, texts
from stages.kinds.benchmark.suites.item import Item, Record, Score, Scoring, Suite, Unfit
from stages.kinds.benchmark.suites.parsing.choice import LETTERS
from stages.kinds.benchmark.suites.parsing.number import single_number
from stages.kinds.benchmark.suites.payload import Wanted
from stages.kinds.benchmark.suites.prompting import prompt_of
from stages.kinds.benchmark.suites.scorers import plain
from stages.kinds.benchmark.suites.scorers.graded import model_graded
from stages.kinds.benchmark.suites.scorers.pattern import regex

PATTERN_CHARS_MAX: Final = 2_000
ANSWERS_MAX: Final = 100


def own(spec: OwnSuite) -> Suite:
    """Return the suite that a user describes."""
    return Suite(
        name=spec.name,
        title=spec.title or spec.name,
        says="a suite of the user's own",
        licence="the user's own",
        own_file=spec.file,
        expected_count=None,
        tokens_max=spec.tokens_max,
        uses_code=False,
        adapt=partial(_adapt, spec),
        scorer=_SCORERS[spec.scorer],
    )


def _adapt(spec: OwnSuite, record: Record) -> Item:
    names = spec.fields
    question = text(record, names.prompt)
    options = tuple(texts(record, names.options)) if names.options else ()
    wanted = _wanted(spec, record, options)
    prompt = question
    if spec.scorer == "choice":
        prompt = prompt_of("choice", question=question.strip(), options=lettered(options))
    return Item(
        id=id_text(text(record, names.id)) if names.id else str(record.number),
        prompt=prompt,
        payload=Wanted(spec.scorer, wanted, options, question, spec.tolerance),
        system=optional_text(record, names.system) if names.system else "",
        expected=" or ".join(wanted),
        subject=optional_text(record, names.subject) if names.subject else "",
        difficulty=optional_text(record, names.difficulty) if names.difficulty else "",
    )


def _wanted(spec: OwnSuite, record: Record, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is right. Raises `Unfit` for what this scorer cannot compare with."""
    name = spec.fields.answer
    told = record.fields.get(name)
    wanted = tuple(texts(record, name)) if isinstance(told, list) else (text(record, name),)
    if not 0 < len(wanted) <= ANSWERS_MAX or not all(each.strip() for each in wanted):
        raise Unfit(f"{name} has no answer, or more than {ANSWERS_MAX}")
    if spec.scorer == "choice":
        return (_letter(wanted[0], options),)
    if spec.scorer == "number" and not all(single_number(each) for each in wanted):
        raise Unfit(f"{name} is no number")
    if spec.scorer == "regex":
        _check_patterns(wanted)
    return wanted


def _letter(told: str, options: tuple[str, ...]) -> str:
    """Return the letter of the right option, which a record names by letter, text, or place from 0."""
    if not 2 <= len(options) <= len(LETTERS):
        raise Unfit(f"it has {len(options)} options: name their field, which holds 2 to {len(LETTERS)}")
    if told in options:
        return LETTERS[options.index(told)]
    place = LETTERS.find(told.strip().upper()) if len(told.strip()) == 1 else -1
    if place < 0 and told.strip().isascii() and told.strip().isdigit() and len(told.strip()) < 3:
        place = int(told)
    if not 0 <= place < len(options):
        raise Unfit(f"its answer {told[:40]!r} is none of its options")
    return LETTERS[place]


def _check_patterns(patterns: tuple[str, ...]) -> None:
    for each in patterns:
        if len(each) > PATTERN_CHARS_MAX:
            raise Unfit(f"a pattern has more than {PATTERN_CHARS_MAX} characters")
        try:
            re.compile(each)
        except (re.error, RecursionError, OverflowError) as error:
            raise Unfit(f"{each[:80]!r} is no regular expression: {error}") from error


def _choice(item: Item, answer: str, _: Scoring) -> Score:
    assert isinstance(item.payload, Wanted)
    return plain.chosen(answer, item.payload.options, LETTERS.index(item.payload.texts[0]))


def _number(item: Item, answer: str, _: Scoring) -> Score:
    assert isinstance(item.payload, Wanted)
    return plain.counted(answer, item.payload.texts, item.payload.tolerance)


_SCORERS: Final[Mapping[Scorer, Callable[[Item, str, Scoring], Score]]] = {
    "exact": plain.exact,
    "choice": _choice,
    "number": _number,
    "regex": regex,
    "contains": plain.contains,
    "model-graded": model_graded,
}
