"""The one shape of a background loop: ask a step to run, again and again, until told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from events.clock import Clock
from events.errors import Transient

log = logging.getLogger(__name__)


def run_every(seconds: float, step: Callable[[], object], *, stop: threading.Event, clock: Clock) -> None:
    """Run `step` at once and then every `seconds` until `stop`; a `Transient` waits for the next turn."""
    while not stop.is_set():
        try:
            step()
        except Transient as error:
            log.warning(
                "loop.retried",
                extra={"step": _name(step), "code": error.code, "why": error.message},
            )
        clock.wait(stop, seconds)


def _name(step: Callable[[], object]) -> str:
    return getattr(step, "__qualname__", type(step).__name__)
