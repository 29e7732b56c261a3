"""An item of a suite, the suite itself, and the score of an answer, pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from stages.isolation.sandbox import Sandbox
from stages.kinds.benchmark.suites.kept import Kept
from stages.kinds.benchmark.suites.payload import Line, Payload
from stages.models.model import Model

ID_BYTES_MAX: Final = 200

Outcome = Literal["right", "wrong", "unparsed", "error"]
# How code ended; `unsafe` is what the sandbox had to end, or what tampered with the process that runs it.
Verdict = Literal["pass", "wrong", "error", "timeout", "memory", "unsafe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question. `id` is safe text, unique in its suite; `expected` and the last three are for people."""

    id: str
    prompt: str
    payload: Payload
    system: str = ""
    expected: str = ""
    subject: str = ""
    difficulty: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What an answer is worth. An `error` is nobody's answer: the machine or a grading model failed.

    `parsed` is what was understood of the answer, `why` says what was wrong with it.
    """

    outcome: Outcome
    value: float = 0.0
    parsed: str = ""
    why: str = ""
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What scorers may use. Each program takes one of `slots` while it runs; `folder` is where programs lie.

    `model` grades answers of `model-graded` suites; None where the run names none. `kept` has what depends on
    an item alone.
    """

    sandbox: Sandbox
    folder: Path
    slots: AbstractContextManager[object]
    model: Model | None = None
    kept: Kept = field(default_factory=Kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A data set on a hub, by its name and pinned revision; `files` are paths in it.

    `sha256` knows the digests of some; `access` says in words what a person has to do first, for a gated one.
    """

    name: str
    revision: str
    files: tuple[str, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)
    access: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a data set, by its number; `line` is where it lies in a file that was not packed."""

    number: int
    fields: Mapping[str, Any]
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite: its data, how records become items, and how answers are scored.

    Its data are looked for in this order: `own_file`, which a run names; a file or folder with one of the
    names `local`, without ending, of whose files those that `split` (a regular expression) fits belong to
    it; a file of an installed `package`; the hub. An adapter returns None for a record of another part of
    the data set, and raises `Unfit` for one that is no item.
    """

    name: str
    title: str
    says: str
    licence: str
    sources: tuple[Source, ...] = ()
    local: tuple[str, ...] = ()
    split: str = ""
    package: tuple[str, str] | None = None
    own_file: str = ""
    expected_count: int | None
    tokens_max: int
    uses_code: bool
    adapt: Callable[[Record], Item | None]
    scorer: Callable[[Item, str, Scoring], Score]


class Unfit(ValueError):
    """A record is no item of the suite; the text says why."""
