"""A kind whose specification has a field of every type, for what is made from schemas."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from events.kinds.declaring.spec import Review, Spec
from events.kinds.kind import Kind

WORDS: Final = "How many <b>times</b> it is tried."


class Person(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who did it."""

    name: str = msgspec.field(name="Full Name")
    age: int = 0


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of each part.

    Not shown.
    """

    first: Annotated[int, msgspec.Meta(ge=1)] | None = None
    ratio: float = 0.5
    is_hard: bool = False
    mode: Literal["fast", "slow"] = "slow"


class Pair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Both, or none."""

    left: int
    right: int = 0


class Deep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds another."""

    limits: Limits = Limits()


class AllSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of every type."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=50, pattern=r"\A[^!]*\Z")]
    who: str | Person
    count: Annotated[int, msgspec.Meta(ge=1, le=10, description=WORDS)]
    choice: Literal["a", "b"]
    number: Annotated[float, msgspec.Meta(gt=0, lt=100)] = 1.5
    long_text: Annotated[str, msgspec.Meta(max_length=5_000)] = ""
    flag: bool = True
    maybe_text: str | None = None
    maybe_number: Annotated[float, msgspec.Meta(ge=0)] | None = None
    until_number: int | None = 7
    until_text: str | None = "never"
    until_choice: Literal["x", "y"] | None = "x"
    level: Literal[1, 2, None] = 1
    steps: int | str = 3
    either_number: int | float = 1
    names: Annotated[list[str], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)
    rates: dict[str, float] = msgspec.field(default_factory=dict)
    anything: Any = None
    when: datetime | None = None
    limits: Limits = Limits()
    pair: Pair | None = None
    deep: Deep = Deep()
    review: Review = "none"


def _check(spec: AllSpec) -> str | None:
    return "`limits.first` is over `count`" if (spec.limits.first or 0) > spec.count else None


ALL: Final = Kind(
    name="all_fields",
    says="Tries every type of field.",
    spec=AllSpec,
    example={"text": "a text", "who": "me", "count": 5, "choice": "a"},
    pipeline="none",
    title=lambda spec: spec.text,
    check=_check,
)
