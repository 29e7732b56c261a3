"""A check of the pod, and what a look at its subject found, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from events.queue.faults import Check as Subject

MESSAGE_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look found; `ok` is None where nothing can be told now, so that all stays as it was."""

    ok: bool | None
    code: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that the pod tests of itself, and the kinds of run that need it (None: all).

    A check that passes is made again every `again_s`; None leaves that to failures. One that `is_known` has
    passed before the worker began.
    """

    name: str
    subject: Subject
    kinds: frozenset[str] | None = None
    look: Callable[[], Finding]
    limit_s: float = 45.0
    again_s: float | None = None
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """A check as the pod reports it; `kinds` need it, None is all."""

    name: str
    ok: bool
    code: str | None
    message: str
    at: datetime
    kinds: tuple[str, ...] | None


def in_a_line(words: str) -> str:
    """Return words for people as a report can carry them: one line, short, without what no store takes."""
    text = words.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return " ".join(text.split())[:MESSAGE_CHARS_MAX]
