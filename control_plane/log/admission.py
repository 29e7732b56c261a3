"""Admission control of ingest: bounds open requests, large requests, and the rate of one sender.

A body may take ten seconds to arrive, so open requests are bounded before they are read. Decoded it may
take eight megabytes, and several times that while it is stored, so large ones wait for each other. A sender
is a key at an address. Pods send one request after the other, far below the bounds. A client that needs no
key, on this machine, is bounded by the number of open requests only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from control_plane.concurrency.rate_limit import RateLimit, RateLimited
from events.runtime.errors import Transient

OPEN_MAX: Final = 128
OPEN_OF_ONE_MAX: Final = 32
LARGE_MAX: Final = 4
BURST: Final = 4_000
EVERY_S: Final = 0.0005
RETRY_S: Final = 1.0
WAIT_S: Final = 2.0  # for a slot: pods that send at the same moment are served one after the other
LINE_MAX: Final = 256


@dataclass(slots=True)
class Slot:
    """The slot of one request."""

    of_all: asyncio.Semaphore
    of_sender: asyncio.Lock
    _held: ExitStack = field(default_factory=ExitStack)

    async def acquire_large(self) -> None:
        """Wait for a slot for a large request: one for each sender, `LARGE_MAX` in all."""
        for lock in (self.of_sender, self.of_all):
            await lock.acquire()
            self._held.callback(lock.release)

    def release(self) -> None:
        """Release the slots that this request holds."""
        self._held.close()


@dataclass(slots=True)
class Admission:
    """Bounds the requests with events that this process has open."""

    throttle: RateLimit
    _open: Counter[str | None] = field(default_factory=Counter)
    _large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_MAX))
    _large_of: dict[str | None, asyncio.Lock] = field(default_factory=dict)
    _line: dict[asyncio.Future[None], str | None] = field(default_factory=dict)

    async def wait_for_room(self, sender: str | None) -> None:
        """Wait a little until `slot` has one; it says whether there is one then."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + WAIT_S
        while not self._has_room(sender) and len(self._line) < LINE_MAX:
            freed: asyncio.Future[None] = loop.create_future()
            self._line[freed] = sender
            try:
                async with asyncio.timeout_at(until_s):
                    await freed
            except TimeoutError:
                return
            finally:
                del self._line[freed]

    @contextmanager
    def slot(self, sender: str | None) -> Iterator[Slot]:
        """Hold a slot for one request of `sender`; None stands for requests without a key.

        Raises `RateLimited`, or `Transient` where there is none.
        """
        if sender is not None and (wait_s := self.throttle.wait_s(sender)):
            raise RateLimited("too many requests from this sender", wait_s)
        if not self._has_room(sender):
            raise Transient(
                "too_many_open", "too many requests are open here; send it again", retry_after_s=RETRY_S
            )
        self._open[sender] += 1
        slot = Slot(self._large, self._large_of.setdefault(sender, asyncio.Lock()))
        try:
            yield slot
        finally:
            slot.release()
            self._open[sender] -= 1
            if not self._open[sender]:
                del self._open[sender]
                del self._large_of[sender]
            freed = (each for each, of in self._line.items() if not each.done() and self._has_room(of))
            if (first := next(freed, None)) is not None:
                first.set_result(None)

    def _has_room(self, sender: str | None) -> bool:
        is_greedy = sender is not None and self._open[sender] >= OPEN_OF_ONE_MAX
        return not is_greedy and self._open.total() < OPEN_MAX
