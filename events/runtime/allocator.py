"""The allocator of the C library: what it keeps for threads to come, and returns to the machine."""

from __future__ import annotations

import ctypes
from typing import Final

M_ARENA_MAX: Final = -8


def trim() -> None:
    """Return the pages that hold nothing, where the C library has a call for that, as glibc has."""
    call = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if call is not None:
        call(ctypes.c_size_t(0))


def use_one_arena() -> None:
    """Let the threads to come share one arena: each of its own keeps what it has freed, and none trims it.

    The interpreter's own lock lets one thread at a time allocate anyway.
    """
    call = getattr(ctypes.CDLL(None), "mallopt", None)
    if call is not None:
        call(M_ARENA_MAX, 1)
