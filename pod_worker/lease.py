"""How long a worker may trust its lease, and what it does when it may not, pure.

Law: trust runs from the moment a renewal was *asked*, minus a margin. Without trust the
child stands still and nothing is written; a renewal wakes it, a loss kills it, and so does
a silence that lasts too long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

RENEW_EVERY_S: Final = 10.0
MARGIN_FRACTION: Final = 1 / 12  # 5 s of the usual minute
SILENCE_MAX_S: Final = 30 * 60.0

Stand = Literal["trusted", "suspended", "lost", "given up"]


@dataclass(frozen=True, slots=True)
class Lease:
    """What the worker knows of its own lease, in seconds of its monotonic clock."""

    trusted_until_s: float
    asked_at_s: float
    is_lost: bool = False


def grant(*, asked_at_s: float, ttl_s: float) -> Lease:
    """Return the lease that a successful renewal, asked at `asked_at_s`, gives."""
    assert ttl_s > 0
    return Lease(trusted_until_s=asked_at_s + ttl_s * (1 - MARGIN_FRACTION), asked_at_s=asked_at_s)


def lose(lease: Lease) -> Lease:
    """Return the lease after the store said that it is another's."""
    return replace(lease, is_lost=True)


def judge(lease: Lease, *, now_s: float, silence_max_s: float = SILENCE_MAX_S) -> Stand:
    """Return how the worker stands with its run at `now_s`."""
    if lease.is_lost:
        return "lost"
    if now_s < lease.trusted_until_s:
        return "trusted"
    return "suspended" if now_s - lease.asked_at_s < silence_max_s else "given up"
