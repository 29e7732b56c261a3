"""Looking earlier work up, as a pipeline sees it. Law: a look-up that fails fails nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One publication, as the index has it."""

    title: str
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str = ""
    url: str = ""
    abstract: str = ""


class LookUpFailed(Exception):
    """The index did not answer, and why."""


class Literature(Protocol):
    """An index of publications."""

    def search(self, query: str, limit: int) -> list[Work]:
        """Return at most `limit` works, the best match first. Raises `LookUpFailed`."""
        ...
