"""What the child has said and the parent has not yet taken, bounded."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from events.catalog import ENDS
from events.clock import Clock
from events.pipe import Said
from pod_worker.child import Heard

HEARD_MAX: Final = 1_000  # frames that wait for the disk; more make the child wait
FULL_TURN_S: Final = 0.1
# A transaction costs a processor almost a millisecond, and the disk a flush: what is said one by one, a
# hundred times a second, shares one.
GATHER_S: Final = 0.05


@dataclass(slots=True)
class Inbox:
    """Filled by one thread, emptied by another."""

    clock: Clock
    _frames: deque[Heard] = field(default_factory=deque)
    _news: threading.Event = field(default_factory=threading.Event)
    _urgent: threading.Event = field(default_factory=threading.Event)
    _closed: threading.Event = field(default_factory=threading.Event)

    def put(self, frame: Heard) -> None:
        """Add a frame; wait while there is no room, and drop it once nobody listens any more."""
        while len(self._frames) >= HEARD_MAX and not self._closed.is_set():
            self.clock.wait(self._closed, FULL_TURN_S)
        if not self._closed.is_set():
            self._frames.append(frame)
            self._news.set()
            if not is_patient(frame) or len(self._frames) >= HEARD_MAX // 2:
                self._urgent.set()

    def take(self, most: int, *, wait_s: float) -> list[Heard]:
        """Return the oldest frames, none when nothing was said within `wait_s`.

        Words are gathered for a moment, but for those for which somebody waits.
        """
        if not self._frames:
            self.clock.wait(self._news, wait_s)
        if self._frames:
            self.clock.wait(self._urgent, GATHER_S)
        self._news.clear()
        self._urgent.clear()
        taken = [self._frames.popleft() for _ in range(min(most, len(self._frames)))]
        if self._frames:
            self._urgent.set()
        return taken

    def is_empty(self) -> bool:
        """Say whether everything was taken."""
        return not self._frames

    def close(self) -> None:
        """Listen no more."""
        self._closed.set()


def is_patient(frame: Heard) -> bool:
    """Say whether nobody waits for this: a word, but the last one."""
    return isinstance(frame, Said) and frame.type not in ENDS
