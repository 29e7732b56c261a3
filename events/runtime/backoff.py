"""Computes how long to wait before a retry, pure."""

from __future__ import annotations

from typing import Final

DOUBLINGS_MAX: Final = 30  # any limit is reached by then, and no number overflows


def back_off_s(failures: int, *, first_s: float, max_s: float, share: float = 1.0) -> float:
    """Return the wait after this many consecutive failures, at least one.

    It begins with `first_s`, and doubles up to `max_s`. With chance in [0, 1) as its `share` those who
    failed together do not come back together.
    """
    assert failures >= 1
    return share * min(max_s, first_s * 2.0 ** min(failures - 1, DOUBLINGS_MAX))
