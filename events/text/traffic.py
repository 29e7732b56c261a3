"""The traffic of a measurement in the words of genai-bench: how long its requests and answers are; pure.

Law: what `str` writes, `read_scenarios` reads as the same; it raises `ValueError` with words alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

TOKENS_MAX: Final = 1_000_000
SIDE_MAX: Final = 16_384  # of a picture, in pixels
SECONDS_MAX: Final = 86_400  # of sound
SCENARIOS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 2_000
SHOWN_CHARS: Final = 60

Asked = Literal["chat", "embeddings", "rerank", "images", "audio"]


@dataclass(frozen=True, slots=True)
class Fixed:
    """`D(in,out)`: each request has so many tokens, and so has its answer."""

    tokens_in: int
    tokens_out: int
    asks: ClassVar[Asked] = "chat"

    def __str__(self) -> str:
        return f"D({self.tokens_in},{self.tokens_out})"

    def drawn(self, chance: random.Random) -> tuple[int, int]:
        """Return the tokens of the next request and of its answer."""
        return self.tokens_in, self.tokens_out


@dataclass(frozen=True, slots=True)
class Normal:
    """`N(mean,deviation)/(mean,deviation)`: tokens in and out are drawn from normal distributions."""

    mean_in: int
    deviation_in: int
    mean_out: int
    deviation_out: int
    asks: ClassVar[Asked] = "chat"

    def __str__(self) -> str:
        return f"N({self.mean_in},{self.deviation_in})/({self.mean_out},{self.deviation_out})"

    def drawn(self, chance: random.Random) -> tuple[int, int]:
        """Return the tokens of the next request and of its answer."""
        return (
            _bounded(chance.gauss(self.mean_in, self.deviation_in)),
            _bounded(chance.gauss(self.mean_out, self.deviation_out)),
        )


@dataclass(frozen=True, slots=True)
class Uniform:
    """`U(least,most)/(least,most)`, or `U(most in,most out)` from one token on: every number is as likely."""

    least_in: int
    most_in: int
    least_out: int
    most_out: int
    asks: ClassVar[Asked] = "chat"

    def __str__(self) -> str:
        if self.least_in == self.least_out == 1:
            return f"U({self.most_in},{self.most_out})"
        return f"U({self.least_in},{self.most_in})/({self.least_out},{self.most_out})"

    def drawn(self, chance: random.Random) -> tuple[int, int]:
        """Return the tokens of the next request and of its answer."""
        return chance.randint(self.least_in, self.most_in), chance.randint(self.least_out, self.most_out)


@dataclass(frozen=True, slots=True)
class Embedding:
    """`E(tokens)`: one text of so many tokens, whose embedding is asked for."""

    tokens_in: int
    asks: ClassVar[Asked] = "embeddings"

    def __str__(self) -> str:
        return f"E({self.tokens_in})"

    def drawn(self, chance: random.Random) -> tuple[int, int]:
        """Return the tokens of the next text; the answer has none."""
        return self.tokens_in, 0


@dataclass(frozen=True, slots=True)
class Rerank:
    """`R(document,query)`: a document of so many tokens to be ranked for a query of so many."""

    tokens_document: int
    tokens_query: int
    asks: ClassVar[Asked] = "rerank"

    def __str__(self) -> str:
        return f"R({self.tokens_document},{self.tokens_query})"


@dataclass(frozen=True, slots=True)
class Picture:
    """`I(width,height)`: a question about a picture of so many pixels."""

    width: int
    height: int
    asks: ClassVar[Asked] = "images"

    def __str__(self) -> str:
        return f"I({self.width},{self.height})"


@dataclass(frozen=True, slots=True)
class Audio:
    """`A(seconds)`: a piece of sound that is so long."""

    seconds: int
    asks: ClassVar[Asked] = "audio"

    def __str__(self) -> str:
        return f"A({self.seconds})"


TextScenario = Fixed | Normal | Uniform | Embedding  # those whose lengths can be drawn
Scenario = TextScenario | Rerank | Picture | Audio


@dataclass(frozen=True, slots=True)
class _Form:
    """How a scenario is written: how many numbers stand in each pair of brackets."""

    example: str
    groups: tuple[int, ...]
    make: Callable[..., Scenario]
    most: int = TOKENS_MAX


_FORMS: Final[dict[str, tuple[_Form, ...]]] = {
    "D": (_Form("D(100,100)", (2,), Fixed),),
    "N": (_Form("N(480,240)/(300,150)", (2, 2), Normal),),
    "U": (
        _Form("U(50,100)/(200,250)", (2, 2), Uniform),
        _Form("U(100,200)", (2,), lambda most_in, most_out: Uniform(1, most_in, 1, most_out)),
    ),
    "E": (_Form("E(1024)", (1,), Embedding),),
    "R": (_Form("R(1024,100)", (2,), Rerank),),
    "I": (_Form("I(512,512)", (2,), Picture, SIDE_MAX),),
    "A": (_Form("A(10)", (1,), Audio, SECONDS_MAX),),
}
EXAMPLES: Final = tuple(form.example for forms in _FORMS.values() for form in forms)
_ITEM: Final = re.compile(r"([A-Za-z]+)\s*\(([^()/]*)\)(?:\s*/\s*\(([^()/]*)\))?")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_BETWEEN: Final = re.compile(r",(?![^()]*\))")  # a comma outside of brackets


def read_scenarios(given: str | Sequence[str]) -> tuple[Scenario, ...]:
    """Return the scenarios of a text, or of the texts of a list, in their order; what is empty is left out.

    Raises `ValueError`, which names the item, for what is none, for too many, and for none at all.
    """
    if not isinstance(given, str) and not all(isinstance(each, str) for each in given):
        raise ValueError(f"scenarios are texts such as {EXAMPLES[0]}")
    text = given if isinstance(given, str) else ",".join(given)
    if len(text) > TEXT_CHARS_MAX:
        raise ValueError(f"scenarios have {TEXT_CHARS_MAX:,} characters at most, not {len(text):,}")
    items = [item for each in _BETWEEN.split(text) if (item := each.strip())]
    if not items:
        raise ValueError(f"there is no scenario: write one, such as {EXAMPLES[0]}")
    if len(items) > SCENARIOS_MAX:
        raise ValueError(f"there are {SCENARIOS_MAX} scenarios at most, not {len(items)}")
    return tuple(_read(each) for each in items)


def _read(item: str) -> Scenario:
    shown = repr(item[:SHOWN_CHARS])
    found = _ITEM.fullmatch(item)
    if found is None or found[1] not in _FORMS:
        raise ValueError(f"{shown} is no scenario: write one as {', '.join(EXAMPLES[:-1])} or {EXAMPLES[-1]}")
    groups = [
        [each.strip() for each in group.split(",")] for group in found.groups()[1:] if group is not None
    ]
    forms = _FORMS[found[1]]
    form = next((each for each in forms if each.groups == tuple(map(len, groups))), None)
    texts = [each for group in groups for each in group]
    if form is None or not all(map(_NUMBER.fullmatch, texts)):
        raise ValueError(f"{shown} is no scenario: write {' or '.join(each.example for each in forms)}")
    numbers = [int(each) for each in texts]
    if problem := next(_problems(form, numbers), None):
        raise ValueError(f"{shown}: {problem}")
    return form.make(*numbers)


def _problems(form: _Form, numbers: list[int]) -> Iterator[str]:
    is_spread = form.make is Normal
    for place, number in enumerate(numbers):
        least = 0 if is_spread and place % 2 else 1
        if not least <= number <= form.most:
            yield f"{number:,} is not from {least} to {form.most:,}"
    if form.make is Uniform:
        for least, most in (numbers[:2], numbers[2:]):
            if least > most:
                yield f"{least:,} is more than {most:,}: the least stands first"


def _bounded(number: float) -> int:
    return max(1, min(TOKENS_MAX, round(number)))
