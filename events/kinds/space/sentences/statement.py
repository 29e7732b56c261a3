"""A claim as a structure: what a sentence says, field by field, measurable or not; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# How the number moves, as the words say it; `any` is some change, `none` is no change.
Move = Literal["good", "bad", "up", "down", "any", "none", "not good", "not bad"]
Role = Literal[
    "intervention", "comparator", "metric", "direction", "margin", "condition", "data", "negation", "hedge",
    "filler",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: an intervention of the space, at the value that is named, or taken away.

    `from_value` is the value that it starts from in "from 0.1 to 0.5".
    """

    name: str
    value: float | None = None
    from_value: float | None = None
    is_removed: bool = False

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value:g}"
        return f"{'no ' if self.is_removed else ''}{self.name}{value}"


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: a word for a metric; `inverse` where the word means the opposite of the number.

    `k` is that of a top-k accuracy, `of_class` the class that it is about.
    """

    name: str
    inverse: bool = False
    k: str = ""
    of_class: str = ""

    def __str__(self) -> str:
        more = "".join((f"@{self.k}" if self.k else "", f"[{self.of_class}]" if self.of_class else ""))
        return f"{'-' if self.inverse else ''}{self.name}{more}"


@dataclass(frozen=True, slots=True)
class Bound:
    """Words of the sentence, and the field that they are bound to."""

    role: Role
    words: str


@dataclass(frozen=True, slots=True)
class Margin:
    """The size of an effect as it is said: at least, or at most, so many of a unit."""

    words: str
    bound: Literal["least", "most", ""] = ""
    size: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a sentence says; a field that it leaves open is None or empty.

    `against` is the comparator: another arm, or another value of the same. `is_negated` is whether the
    negation is one of the move. `also` is what is said of further measures with the same arms. `bound` has
    every word that says it, in order.
    """

    arm: Arm
    move: Move
    against: Arm | float | None = None
    measure: Measure | None = None
    margin: Margin | None = None
    rows: int | None = None
    share: float | None = None
    data: str = ""
    negation: str = ""
    is_negated: bool = False
    hedge: str = ""
    bound: tuple[Bound, ...] = ()
    also: tuple[Statement, ...] = ()

    def __str__(self) -> str:
        return " & ".join(" | ".join(each._parts()) for each in (self, *self.also))

    def _parts(self) -> Iterator[str]:
        start = self.against if self.against is not None else self.arm.from_value
        rival = "" if start is None else f" vs {start:g}" if isinstance(start, float) else f" vs {start}"
        yield f"{self.arm}{rival}"
        yield str(self.measure) if self.measure else "-"
        yield self.move
        yield self.data or "-"
        if self.rows is not None:
            yield f"{self.rows} rows"
        if self.share is not None:
            yield f"{self.share:g} % of rows"
        for name, words in (("margin", self.margin), ("not", self.negation), ("hedge", self.hedge)):
            if words:
                yield f"{name}: {words}"
