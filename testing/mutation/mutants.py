"""What a mutant is, and which are drawn, pure.

A mutant's rank depends on the seed, its function and its change alone: most of a sample stays as it is when
another part of the module is edited, so that two versions of a module are asked about the same faults.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A module with one fault; `before` and `after` are the lines that differ, from `line` on."""

    line: int
    before: str
    after: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A possible fault: `old` code of a function or class, and the code that would replace it."""

    scope: str
    old: str
    new: str


def order(changes: Sequence[Change], seed: int) -> list[int]:
    """Return the places of `changes` in the order in which they are drawn."""
    earlier: Counter[Change] = Counter()
    ranks = []
    for change in changes:
        text = "\0".join((str(seed), change.scope, change.old, change.new, str(earlier[change])))
        ranks.append(hashlib.sha256(text.encode()).digest())
        earlier[change] += 1
    return sorted(range(len(changes)), key=ranks.__getitem__)


def mutant(original: str, source: str) -> Mutant:
    """Return what `source`, another text than `original`, changes."""
    old, new = original.splitlines(), source.splitlines()
    start = _equal_lines(old, new)
    end = _equal_lines(old[start:][::-1], new[start:][::-1])
    return Mutant(
        line=start + 1,
        before=_text(old[start : len(old) - end]),
        after=_text(new[start : len(new) - end]),
        source=source,
    )


def equivalents(module: str, listed: Path = EQUIVALENT) -> set[tuple[str, str]]:
    """Return the changes of `module`, before and after, that a person judged to be none."""
    entries = tomllib.loads(listed.read_text()).get("mutant", [])
    return {(each["line"], each["replacement"]) for each in entries if each["module"] == module}


def _equal_lines(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = zip(old, new, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _text(lines: Iterable[str]) -> str:
    return "\n".join(line.strip() for line in lines)
