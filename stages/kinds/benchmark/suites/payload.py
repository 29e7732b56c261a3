"""What a scorer needs of an item, by sort of item, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Options:
    """A question with options: `right` is the place of the right one among those shown.

    `order` are the places that the shown options have in the record, the right one's first where it is apart.
    """

    texts: tuple[str, ...]
    right: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A question whose answer is a number, as the data set writes it, within a relative tolerance."""

    value: str
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions to follow: the name of each one's check, and what it is given."""

    checks: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function to complete: `tests` define `check(candidate)`, and `reference` completes the prompt."""

    prompt: str
    name: str
    tests: str
    reference: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a local file, read again when it is needed: some are too long to be kept in memory."""

    file: Path
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Program:
    """A program to write, judged by pairs of input and output.

    `function` is the method of `Solution` that the tests call; empty where they are read from standard
    input. The tests are as the record has them; `private` may be a line of a file, whose record has the
    id `record`.
    """

    record: str
    starter: str
    function: str
    public: str
    private: str | Line


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user's own item wants: any of `texts`; for a choice letters, and `options` are the texts."""

    how: Literal["exact", "choice", "number", "regex", "contains", "model-graded"]
    texts: tuple[str, ...]
    options: tuple[str, ...] = ()
    question: str = ""
    tolerance: float = 0.0


Payload = Options | Quantity | Instructions | Function | Program | Wanted
