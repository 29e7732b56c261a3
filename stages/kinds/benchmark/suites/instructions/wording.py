"""Checks of the words of an answer: which, how many, how written, pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from stages.kinds.benchmark.suites.instructions.language import language_of
from stages.kinds.benchmark.suites.instructions.units import sentences, words

Given = Mapping[str, Any]

RELATIONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "at least": lambda count, bound: count >= bound,
    "less than": lambda count, bound: count < bound,
}


def _holds(count: int, relation: str, bound: int) -> bool:
    return RELATIONS[relation](count, int(bound))


def has_keywords(answer: str, given: Given) -> bool:
    """Return whether every keyword is in the answer."""
    said = answer.casefold()
    return all(word.casefold() in said for word in given["keywords"])


def repeats_keyword(answer: str, given: Given) -> bool:
    """Return whether a keyword comes as often as asked."""
    count = answer.casefold().count(given["keyword"].casefold())
    return _holds(count, given["relation"], given["frequency"])


def avoids_words(answer: str, given: Given) -> bool:
    """Return whether none of the words is in the answer, as a word."""
    said = answer.casefold()
    return not any(
        re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", said) for word in given["forbidden_words"]
    )


def repeats_letter(answer: str, given: Given) -> bool:
    """Return whether a letter, or another character, comes as often as asked."""
    return _holds(
        answer.lower().count(given["letter"].lower()), given["let_relation"], given["let_frequency"]
    )


def is_in_language(answer: str, given: Given) -> bool:
    """Return whether an answer is written in a language."""
    wanted: str = given["language"]
    return language_of(answer) == wanted.lower()[:2]


def has_sentences(answer: str, given: Given) -> bool:
    """Return whether an answer has as many sentences as asked."""
    return _holds(len(sentences(answer)), given["relation"], given["num_sentences"])


def has_words(answer: str, given: Given) -> bool:
    """Return whether an answer has as many words as asked."""
    return _holds(len(words(answer)), given["relation"], given["num_words"])


def has_capital_words(answer: str, given: Given) -> bool:
    """Return whether as many words as asked are written in capitals."""
    found = [word for word in re.findall(r"[^\W_]+(?:['’&.-][^\W_]+)*", answer) if word.isupper()]
    return _holds(len(found), given["capital_relation"], given["capital_frequency"])


def is_upper_english(answer: str, _: Given) -> bool:
    """Return whether an answer is English in capitals alone."""
    return answer.isupper() and language_of(answer.lower()) in ("en", None)


def is_lower_english(answer: str, _: Given) -> bool:
    """Return whether an answer is English without capitals."""
    return answer.islower() and language_of(answer) in ("en", None)


def has_no_comma(answer: str, _: Given) -> bool:
    """Return whether an answer has no comma."""
    return "," not in answer
