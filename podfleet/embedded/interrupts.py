"""Counts SIGINT and SIGTERM; a loop polls the count.

Not an exception, because an exception may come between any two steps. Not an event, because setting one
inside a signal handler can wait for a lock that the interrupted code holds.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Interrupts:
    """The number of signals to stop that this process received."""

    count: int = 0


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Count the requests to stop instead of dying of them; in the main thread only."""
    interrupts_seen = Interrupts()

    def note(_number: int, _frame: FrameType | None) -> None:
        interrupts_seen.count += 1

    # under nohup a hang-up is ignored, and has to stay so
    hangs_on = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    watched = [number for number in STOPPING if not (hangs_on and number == signal.SIGHUP)]
    before = {number: signal.signal(number, note) for number in watched}
    try:
        yield interrupts_seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
