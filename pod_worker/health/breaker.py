"""When a check is made and what follows from what it found: a circuit breaker, pure.

Law: the pod's own attempts and its own looks open and close it. What other pods report only makes it look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from events.runtime.backoff import back_off_s
from pod_worker.health.check import Finding

BACK_OFF_FIRST_S: Final = 2.0
BACK_OFF_MAX_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The state of one check; `ok` is None before the first look.

    `failures` counts failed looks in a row, `strikes` attempts that ended by its subject since the last one
    that succeeded. The next look is due at `due_s`, None where none is.
    """

    ok: bool | None = None
    code: str | None = None
    message: str = ""
    at: datetime | None = None
    failures: int = 0
    strikes: int = 0
    due_s: float | None = 0.0
    is_awaited: bool = True  # whether nothing is claimed before the next look

    @property
    def passes(self) -> bool:
        """Whether runs that need it may be claimed."""
        return self.ok is True and not self.is_awaited


def known_to_pass(message: str, now: datetime) -> Breaker:
    """Return the state of a check that has passed before the worker began."""
    return Breaker(ok=True, message=message, at=now, due_s=None, is_awaited=False)


def looked(
    before: Breaker, found: Finding, *, now: datetime, now_s: float, again_s: float | None = None
) -> Breaker:
    """Return the state after a look: one that can tell nothing changes nothing, and is made again."""
    if found.ok is None and before.ok is False:
        return replace(before, due_s=now_s + _wait_s(before.failures, before.strikes), is_awaited=False)
    told = replace(
        before, ok=found.ok is not False, code=found.code, message=found.message, at=now, is_awaited=False
    )
    if told.ok:
        due_s = None if again_s is None else now_s + again_s
        return replace(told, failures=0, due_s=due_s)
    failures = before.failures + 1
    return replace(told, failures=failures, due_s=now_s + _wait_s(failures, before.strikes))


def failed(before: Breaker, code: str, message: str, *, now: datetime, now_s: float) -> Breaker:
    """Return the state after an attempt ended by the subject: open, until a look passes after a wait.

    The wait grows with each such attempt, since a look may see less than an attempt does: a listing of models
    says nothing of a quota.
    """
    strikes = before.strikes + 1
    return replace(
        before,
        ok=False,
        code=code,
        message=message,
        at=now,
        strikes=strikes,
        due_s=now_s + _wait_s(before.failures, strikes),
        is_awaited=False,
    )


def succeeded(before: Breaker) -> Breaker:
    """Return the state after an attempt that used the subject reached its result."""
    return replace(before, strikes=0)


def suspected(before: Breaker, *, now_s: float) -> Breaker:
    """Return the state after other pods reported that the subject fails: a look before the next claim."""
    return replace(before, due_s=now_s, is_awaited=True) if before.passes else before


def _wait_s(failures: int, strikes: int) -> float:
    """Return how long nothing is looked at; a strike counts twice, so that three runs cost half a minute."""
    return back_off_s(
        max(1, failures + 2 * strikes - bool(strikes)), first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S
    )
