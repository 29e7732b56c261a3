"""The form of every answer: JSON names in camel case, moments as text, pages of lists."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

Item = TypeVar("Item")

# RFC 3339 in UTC with milliseconds, such as 2026-11-21T10:00:00.123Z.
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = int | float  # in JSON one type; a whole number stays one


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base class of the answers. JSON omits a field that is UNSET because it was never stored."""


class Reference(Answer, frozen=True, kw_only=True):
    """A reference to an object by its id."""

    id: str


class Unreadable(Answer, frozen=True, kw_only=True):
    """A stored document that is damaged, and what is wrong with it."""

    id: str
    problem: str


class Listing(Answer, Generic[Item], frozen=True, kw_only=True):
    """A page of a list, the newest first; `next` is the `after` of the next page, null on the last one.

    `unreadable` names the documents of the page that are damaged; it is left out where all can be read.
    """

    items: list[Item]
    next: str | None
    unreadable: list[Unreadable] | UnsetType = UNSET
