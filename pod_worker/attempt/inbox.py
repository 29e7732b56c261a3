"""A bounded queue of the child's facts that the parent has not taken yet."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from events.runtime.clock import Clock
from pod_worker.child.process import Heard

HEARD_MAX: Final = 1_000  # frames that wait for the disk; more make the child wait
FULL_TURN_S: Final = 0.1


@dataclass(slots=True)
class Inbox:
    """Filled by one thread, emptied by another."""

    clock: Clock
    _frames: deque[Heard] = field(default_factory=deque)
    _news: threading.Event = field(default_factory=threading.Event)
    _closed: threading.Event = field(default_factory=threading.Event)

    def put(self, frame: Heard) -> None:
        """Add a frame; wait while the queue is full; drop it after `close`."""
        while len(self._frames) >= HEARD_MAX and not self._closed.is_set():
            self.clock.wait(self._closed, FULL_TURN_S)
        if not self._closed.is_set():
            self._frames.append(frame)
            self._news.set()

    def take(self, most: int, *, wait_s: float) -> list[Heard]:
        """Return the oldest frames; none if no frame came within `wait_s`."""
        if not self._frames:
            self.clock.wait(self._news, wait_s)
        self._news.clear()
        return [self._frames.popleft() for _ in range(min(most, len(self._frames)))]

    def is_empty(self) -> bool:
        """Say whether everything was taken."""
        return not self._frames

    def close(self) -> None:
        """Drop every later frame."""
        self._closed.set()
