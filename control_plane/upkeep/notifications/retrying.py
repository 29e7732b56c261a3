"""Decides what follows from a try to deliver: done, again after a time, or given up; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# After each failed try; the last failure makes a dead letter, a day and a half after the first try.
WAITS_S: Final = (5.0, 30.0, 120.0, 600.0, 3_600.0, 6 * 3_600.0, 24 * 3_600.0)
TRIES_MAX: Final = len(WAITS_S) + 1
JITTER: Final = 0.2  # of the wait: receivers that come back are not met by all at once
RETRY_AFTER_MAX_S: Final = 6 * 3_600.0  # how long a receiver may have us wait: what is behind waits, too
GONE: Final = 410
BUSY: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Answer:
    """How a try ended: the status that a server answered, 0 without one, and words for people."""

    status: int
    problem: str | None = None
    retry_after_s: float | None = None

    @property
    def is_taken(self) -> bool:
        """Say whether the receiver has taken it."""
        return self.problem is None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Done:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Again:
    """It is tried again after `wait_s`."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It is a dead letter; `is_gone` where the receiver wants no others either."""

    is_gone: bool = False


def outcome(answer: Answer, tries: int, chance: float) -> Done | Again | GivenUp:
    """Return what follows from the end of try number `tries`; `chance` is in [0, 1)."""
    if answer.is_taken:
        return Done()
    if answer.status == GONE:
        return GivenUp(is_gone=True)
    if tries >= TRIES_MAX:
        return GivenUp()
    wait_s = WAITS_S[max(tries, 1) - 1] * (1 + JITTER * chance)
    if answer.status in BUSY and answer.retry_after_s is not None:
        wait_s = max(wait_s, min(answer.retry_after_s, RETRY_AFTER_MAX_S))
    return Again(wait_s)


def read_retry_after(value: str | None) -> float | None:
    """Return the seconds that a header `Retry-After` says; None where it says none, or a date."""
    text = (value or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
