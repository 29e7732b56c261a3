"""How many requests with events are open at once, and how often one sender may ask.

A body may take ten seconds to arrive and eight megabytes of memory, so what is open is bounded before it is
read. A sender is a key at an address; pods send one request after the other, far from the bounds. Whoever
needs no key, on this machine, is bounded by what is open only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from control_plane.throttle import Throttle, Throttled
from events.errors import Transient

OPEN_MAX: Final = 128
OPEN_OF_ONE_MAX: Final = 32
BURST: Final = 4_000
EVERY_S: Final = 0.0005
RETRY_S: Final = 1.0


@dataclass(slots=True)
class Intake:
    """The places for requests with events in this process."""

    throttle: Throttle
    _open: Counter[str | None] = field(default_factory=Counter)

    @contextmanager
    def place(self, sender: str | None) -> Iterator[None]:
        """Hold a place for one request; None is whoever needs no key.

        Raises `Throttled`, or `Transient` where there is no place.
        """
        if sender is not None and (wait_s := self.throttle.wait_s(sender)):
            raise Throttled("too many requests from this sender", wait_s)
        is_greedy = sender is not None and self._open[sender] >= OPEN_OF_ONE_MAX
        if is_greedy or self._open.total() >= OPEN_MAX:
            raise Transient(
                "too_many_open", "too many requests are open here; send it again", retry_after_s=RETRY_S
            )
        self._open[sender] += 1
        try:
            yield
        finally:
            self._open[sender] -= 1
            if not self._open[sender]:
                del self._open[sender]
