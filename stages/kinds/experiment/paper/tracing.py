r"""Traces a finished paper to the events of its run: every printed number must come from one; pure.

Law: a printed number is `\val{key}{text}`, its text is the key's, and the key's exact value is that of the
events. Any other digit must be part of a quoted text or a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from events.kinds.space.recipe import shown
from stages.kinds.experiment.paper.digits import typed_numbers
from stages.kinds.experiment.paper.latex import escaped
from stages.kinds.experiment.record.numbers import MINUS, Number, Numbers, Source

UNTRACED_MAX: Final = 50
SHOWN_MAX: Final = 80

# what these commands take is layout, a name, or a place, and is not printed; `o`: an option that may be there
_UNPRINTED: Final = {
    "begin": 1, "end": 1, "label": 1, "ref": 1, "cite": 1, "bibitem": 1, "includegraphics": 1, "vspace": 1,
    "hspace": 1, "uni": 2,
}  # fmt: skip
_WITH_COLUMNS: Final = frozenset({"tabular", "longtable", "thebibliography", "minipage"})
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)\*?")
_LISTING: Final = (r"\begin{verbatim}", r"\end{verbatim}")
_NUMERAL: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


class Memory(Protocol):
    """The recorded values of a run."""

    def heard(self, source: Source) -> float | str | bool | None: ...

    def nodes(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Traced:
    """How many printed numbers were checked, and each that is not an event's value."""

    count: int
    untraced: tuple[str, ...]


def trace(source_tex: str, numbers: Numbers, witness: Memory) -> Traced:
    """Return what in the paper's source does not come from the run's events."""
    reading = _Reading(numbers)
    rest = reading.read(_body(source_tex))
    problems = [*reading.problems]
    problems += [f"{_short(each)} is printed, and is no measured number" for each in typed_numbers(rest)]
    problems += [problem for number in numbers for problem in _unfounded(number, witness)]
    problems += _misquoted(numbers, witness)
    problems += _left_out(numbers, witness)
    return Traced(reading.count, tuple(dict.fromkeys(problems))[:UNTRACED_MAX])


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")


def _body(source_tex: str) -> str:
    """Return what is printed of the source: from its title on, without its listings."""
    body = source_tex.partition(r"\begin{document}")[2].rpartition(r"\end{document}")[0] or source_tex
    return _without_listings(body)


def _without_listings(text: str) -> str:
    """Return `text` without what is printed as it is; in one pass, as the source may be another pod's."""
    begins, ends = _LISTING
    parts: list[str] = []
    at = 0
    while (begin := text.find(begins, at)) >= 0 and (end := text.find(ends, begin)) >= 0:
        parts += (text[at:begin], " ")
        at = end + len(ends)
    return "".join((*parts, text[at:]))


class _Reading:
    """Reads LaTeX from left to right, takes numbers and quoted texts out, and leaves the plain words."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.quotes = {escaped(quote.text) for quote in numbers.quotes.values()}
        self.problems: list[str] = []
        self.count = 0

    def read(self, text: str) -> str:
        words: list[str] = []
        at = 0
        while at < len(text):
            match = _COMMAND.match(text, at)
            if match is None:
                step = 2 if text[at] == "\\" else 1  # an escaped sign, such as \%
                words.append(" " if text[at] in "{}&\\" and step == 1 else text[at + step - 1 : at + step])
                at += step
                continue
            at = self._command(match[1], text, match.end(), words)
        return "".join(words)

    def _command(self, name: str, text: str, at: int, words: list[str]) -> int:
        """Take a command and what it is given; return where the text goes on."""
        if name == "val":
            (key, shown), at = _arguments(text, at, 2)
            self._number(key, shown)
            words.append(" ")
        elif name == "said":
            (quoted,), at = _arguments(text, at, 1)
            if quoted not in self.quotes:
                self.problems.append(f"{_short(quoted)} is quoted, and nobody said it")
            words.append(" ")
        elif name in _UNPRINTED:
            given, at = _arguments(text, at, _UNPRINTED[name])
            if name == "begin" and given[0] in _WITH_COLUMNS:
                _, at = _arguments(text, at, 1)
            words.append(" ")
        return at

    def _number(self, key: str, shown: str) -> None:
        self.count += 1
        number = self.numbers.numbers.get(key)
        if number is None:
            self.problems.append(f"{_short(shown)} is printed as {_short(key)}, which was not measured")
        elif shown != escaped(number.text):
            self.problems.append(f"{_short(shown)} is printed as {key}, which is {number.text}")


def _arguments(text: str, at: int, count: int) -> tuple[list[str], int]:
    """Return `count` arguments in braces from `at` on, after options in brackets, and where they end."""
    found: list[str] = []
    while at < len(text) and text[at] == "[":
        at = text.find("]", at) + 1 or len(text)
    while len(found) < count:
        if at >= len(text) or text[at] != "{":
            found.append("")
            continue
        end = _closing(text, at)
        found.append(text[at + 1 : end])
        at = end + 1
    return found, at


def _closing(text: str, at: int) -> int:
    """Return where the brace that opens at `at` is closed."""
    depth = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(text)


def _unfounded(number: Number, witness: Memory) -> Iterator[str]:
    """Yield why a number is not the value of its events."""
    if not _agrees(number):
        yield f"{number.key} is {number.value!r}, and {number.text} would be printed"
    said = [witness.heard(source) for source in number.source]
    for source, value in zip(number.source, said, strict=True):
        if value is None:
            yield f"{number.key}: no event said {_named(source)}, or not always the same"
            return
    if _follows(number, said) != number.value:
        yield f"{number.key} is {number.value!r}, and the events said otherwise ({', '.join(map(repr, said[:4]))})"


def _follows(number: Number, said: list[float | str | bool | None]) -> float | None:
    """Return the rule's value from the recorded ones; None where it has none."""
    if number.rule == "count":
        holds = all(value is not False for value in said)  # what is counted may itself be zero
        return float(len(set(number.source))) if holds else None
    values = [
        float(value) for value in said if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if number.rule == "difference":
        return values[0] - values[1] if len(values) == 2 else None
    return values[0] if len(values) == 1 else None


def _agrees(number: Number) -> bool:
    """Return whether the text is the value, rounded to the digits that it shows."""
    match = _NUMERAL.match(number.text.replace(MINUS, "-"))
    if match is None:
        return False
    mantissa, _, exponent = match[0].partition("e")
    scale = 10.0 ** int(exponent or 0) / (100.0 if number.text.endswith("%") else 1.0)
    step = 10.0 ** -len(mantissa.partition(".")[2]) * scale
    return math.isclose(float(mantissa) * scale, number.value, rel_tol=1e-9, abs_tol=0.5000001 * step)


def _misquoted(numbers: Numbers, witness: Memory) -> list[str]:
    """Return the quoted texts that are in no event."""
    return [
        f"{quote.key} is quoted, and {_named(quote.source)} was not said so"
        for quote in numbers.quotes.values()
        if quote.source is not None and not _quotes(quote.said, witness.heard(quote.source))
    ]


def _quotes(said: str, heard: float | str | bool | None) -> bool:
    """Return whether a quoted text is the recorded one; a flag is quoted as a word."""
    return (shown(heard) if isinstance(heard, bool) else heard) == said


def _left_out(numbers: Numbers, witness: Memory) -> list[str]:
    """Return that nodes which were tried, or were buggy, are not counted as such."""
    tried, buggy = (_sources(numbers, key) for key in ("nodes.tried", "nodes.buggy"))
    counted, failed = ({source.about for source in each} for each in (tried, buggy))
    found = [
        f"node {node} was tried, and the paper does not count it"
        for node in sorted(witness.nodes() - counted)
    ]
    return found + [
        f"node {source.about} was buggy, and the paper does not count it as such"
        for source in tried
        if source.about not in failed and witness.heard(replace(source, field="buggy")) is True
    ]


def _sources(numbers: Numbers, key: str) -> tuple[Source, ...]:
    return numbers.numbers[key].source if key in numbers.numbers else ()


def _named(source: Source) -> str:
    step = "" if source.step is None else f" at step {source.step}"
    return f"{source.field} of {source.about}{step} in {source.type} of {source.stage}"
