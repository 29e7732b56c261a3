"""The child's side of the start of a race: says that it is ready, and begins when the parent says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from events.delivery.pipe import Began, FromChild, Go, Waiting
from events.runtime.clock import Clock

TURN_S: Final = 3600.0  # a wait has a limit; this one waits again


@dataclass(slots=True)
class ChildBarrier:
    """Opened by the thread that hears the parent, waited at by the pipeline; `is_open` holds nobody."""

    send: Callable[[FromChild], None]
    clock: Clock
    is_open: bool
    _go: Go | None = None
    _told: threading.Event = field(default_factory=threading.Event)

    def hear(self, go: Go) -> None:
        """Take the second at which the run begins; the first one stands."""
        self._go = self._go or go
        self._told.set()

    def wait(self) -> Mapping[str, str]:
        """Say that the run is prepared; return at the second that the parent names, with its variables."""
        if self.is_open:
            return {} if self._go is None else self._go.variables
        self.send(Waiting())
        while not self.clock.wait(self._told, TURN_S):
            pass
        assert self._go is not None, "told means that there is one"
        never = threading.Event()
        while (left_s := self._go.at_s - self.clock.monotonic_s()) > 0:
            self.clock.wait(never, min(left_s, TURN_S))
        self.is_open = True
        self.send(Began(self.clock.monotonic_s()))
        return self._go.variables
