"""How long a worker may trust its lease, and what it does without trust, pure.

Law: trust runs from the moment a renewal was *requested*, minus a margin. Without trust the child is
stopped and nothing is written. A renewal resumes it; a lost lease kills it, and so does a silence of the
queue that lasts too long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from events.runtime.clock import Instant

MARGIN_FRACTION: Final = 1 / 12
SILENCE_MAX_S: Final = 30 * 60.0

Stand = Literal["trusted", "suspended", "lost", "given up"]


@dataclass(frozen=True, slots=True)
class Lease:
    """The worker's lease: when it was requested, and until when it may be trusted."""

    requested_at: Instant
    trusted_s: float
    is_lost: bool = False


def grant(*, requested_at: Instant, ttl_s: float) -> Lease:
    """Return the lease that a successful renewal, asked at `requested_at`, gives."""
    assert ttl_s > 0
    return Lease(requested_at=requested_at, trusted_s=ttl_s * (1 - MARGIN_FRACTION))


def lose(lease: Lease) -> Lease:
    """Return the lease as lost."""
    return replace(lease, is_lost=True)


def judge(lease: Lease, *, at: Instant, silence_max_s: float = SILENCE_MAX_S) -> Stand:
    """Return the state of the lease at `at`."""
    if lease.is_lost:
        return "lost"
    if at.elapsed_s(lease.requested_at) < lease.trusted_s:
        return "trusted"
    # A wall clock that was put forward proves no silence: only time that we lived through does.
    silence_s = at.monotonic_s - lease.requested_at.monotonic_s
    return "suspended" if silence_s < silence_max_s else "given up"
