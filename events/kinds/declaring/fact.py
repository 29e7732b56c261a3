"""The base class of facts, and the types of their fields, pure."""

from __future__ import annotations

from typing import Annotated

import msgspec

Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The typed content of an event; base class of the catalogue."""
