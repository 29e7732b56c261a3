"""Bounds of a checkpoint's content, as types of fields: every checkpoint is another pod's claim, pure.

Law: what an honest attempt writes is far below every bound; a state with more is refused whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from msgspec import Meta, ValidationError, convert

from events.files.paths import from_text

NODES_MAX: Final = 10_000  # of one stage
SEEDS_MAX: Final = 1_000
POINTS_MAX: Final = 5_000
NOTES_MAX: Final = 200
NUMBER_MAX: Final = 1e151  # the squares of 10,000 differences of two of them are added up in double precision

T = TypeVar("T")

Word = Annotated[str, Meta(max_length=400)]
Line = Annotated[str, Meta(max_length=10_000)]
Text = Annotated[str, Meta(max_length=100_000)]
Key = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]  # becomes a part of a number's key
Address = Annotated[str, Meta(max_length=10_000, pattern=r"\A(?:|(?i:https?)://.*)\Z")]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Ordinal = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Seed = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Number = Annotated[float, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Spread = Annotated[float, Meta(ge=0, le=NUMBER_MAX)]
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Scores = Annotated[Mapping[Key, Number], Meta(max_length=200)]
Notes = Annotated[tuple[Line, ...], Meta(max_length=NOTES_MAX)]


class Unreadable(ValueError):
    """A state does not fit the types of its kind; the text names the place."""


def read_state(state: object, kind: type[T]) -> T:
    """Return a checkpoint's state in types, with every bound kept. Raises `Unreadable`."""
    try:
        return convert(state, kind, dec_hook=from_text)
    except (ValidationError, RecursionError) as error:
        raise Unreadable(str(error)) from error
