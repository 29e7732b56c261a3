"""Ctrl-C while a command waits for what a server sends next."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

LOOK_S: Final = 1.0


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block a Ctrl-C raises `KeyboardInterrupt`, again every second until the block is left.

    Once is not enough: msgspec clears every exception while it prepares to decode a type, and Python itself
    those of destructors; and a system call that was about to begin waits for the server first.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or somebody else's
        yield
        return
    is_wanted = False

    def interrupt(*_: Any) -> None:
        nonlocal is_wanted
        is_wanted = True
        raise KeyboardInterrupt

    def look(*_: Any) -> None:
        if is_wanted:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, look)
    signal.signal(signal.SIGINT, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
