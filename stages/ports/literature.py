"""The port of look-ups of earlier work. Law: a look-up that fails fails nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from msgspec import Meta

from stages.bounds import Address, Line, Text, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One publication, as the index has it."""

    title: Line
    authors: Annotated[tuple[Line, ...], Meta(max_length=10_000)] = ()
    year: Whole | None = None
    venue: Line = ""
    url: Address = ""
    abstract: Text = ""


class LookUpFailed(Exception):
    """The index did not answer, and why."""


class Literature(Protocol):
    """An index of publications."""

    def search(self, query: str, limit: int) -> list[Work]:
        """Return at most `limit` works, the best match first. Raises `LookUpFailed`."""
        ...
