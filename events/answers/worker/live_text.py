"""Live text and numbers of a run: what a pod sends of them, and what a reader gets.

Law: they are no events. They are in no log and count in no sequence, may be dropped on every way, and are
forgotten after minutes. `offset` counts the characters of a lap's text, so that a reader sees a gap.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

TEXT_CHARS_MAX: Final = 4_096
LAP_MAX: Final = 100_000
OFFSET_MAX: Final = 2**53 - 1  # what a browser counts exactly
VALUES_MAX: Final = 16
VALUE_MAX: Final = 1e300
NAME_CHARS_MAX: Final = 40

Lap = Annotated[int, msgspec.Meta(ge=1, le=LAP_MAX)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9_]*\Z", max_length=NAME_CHARS_MAX)]
# The bounds leave out what JSON cannot say: no infinity, and no number that is none.
Number = Annotated[float, msgspec.Meta(ge=-VALUE_MAX, le=VALUE_MAX)]
Values = Annotated[dict[Name, Number], msgspec.Meta(max_length=VALUES_MAX)]


class LivePiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some text of a lap, and the numbers that are shown now."""

    lap: Lap = 1
    offset: Offset = 0
    text: Text = ""
    values: Values = {}


class LiveText(msgspec.Struct, frozen=True):
    """A piece as a reader gets it: with its run and attempt."""

    run: str
    attempt: int
    lap: int
    offset: int
    text: str
    values: dict[str, float]


class LiveTaken(msgspec.Struct, frozen=True, rename="camel"):
    """What became of the pieces of one request: so many were taken, so many dropped, which costs nothing."""

    taken: int
    dropped: int
