"""Runs a background loop: a step is repeated until the loop is stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from events.runtime.clock import Clock
from events.runtime.errors import PodfleetError, Transient

log = logging.getLogger(__name__)


class Threads(Protocol):
    """Starts work beside the caller's."""

    def __call__(self, name: str, work: Callable[[], object]) -> None: ...


def start_thread(name: str, work: Callable[[], object]) -> None:
    """Start a thread that does not keep the process alive."""
    threading.Thread(target=work, name=name, daemon=True).start()


def run_every(
    seconds: float | Callable[[], float],
    step: Callable[[], object],
    *,
    stop: threading.Event,
    clock: Clock,
    hurry: threading.Event | None = None,
) -> None:
    """Run `step` at once and then every `seconds` until `stop`; after a failure it waits for the next turn.

    `seconds` may be asked before each wait. `hurry` brings the next turn forward; code that sets `stop` sets
    it too.
    """
    while not stop.is_set():
        try:
            step()
        except PodfleetError as error:
            # What only people can mend, such as a revoked password, must not end the loop either.
            level = logging.WARNING if isinstance(error, Transient) else logging.ERROR
            why = {"step": _name(step), "code": error.code, "why": error.message}
            log.log(level, "loop.retried", extra=why)
        pause_s = seconds() if callable(seconds) else seconds
        if clock.wait(hurry or stop, pause_s) and hurry is not None:
            hurry.clear()


def _name(step: Callable[[], object]) -> str:
    return getattr(step, "__qualname__", type(step).__name__)
