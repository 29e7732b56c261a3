"""Gathers what runs show, of all pods at this control plane, and stores it a few times in a second.

Law: one insert serves all runs, and no run is written. What comes faster than its run may show, and what the
store does not take in time, is dropped and counted. Nothing is kept here for longer than that.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from control_plane.concurrency.rate_limit import RateLimit
from control_plane.store.log.live_texts import PIECES_MAX, LiveTextStore, StoredPiece
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Transient
from events.text.attempt_id import AttemptId

TICK_S: Final = 1.0
GATHER_S: Final = 0.05  # from one insert to the next; what comes after a silence goes at once
# Of one run: bytes at once, and then so many in a second. A piece costs more than its bytes.
BURST_BYTES: Final = 128 * 1024
BYTES_A_SECOND: Final = 64 * 1024
PIECE_BYTES: Final = 200
STREAMS_MAX: Final = 1_000
HELD_MAX: Final = 4_000  # pieces that wait for the store; older ones are dropped
DOCUMENT_CHARS_MAX: Final = 32 * 1024


@dataclass(slots=True, eq=False)
class LiveSender:
    """One request of a pod that goes on; `limit` ends it."""

    run_id: str
    attempt: int
    group_id: str | None
    limit: asyncio.Timeout
    taken: int = 0
    dropped: int = 0

    def end(self) -> None:
        """End the request at once."""
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())


@dataclass(slots=True)
class LiveTexts:
    """The requests that go on in this process, and what they brought since the last insert."""

    store: LiveTextStore
    clock: Clock
    ids: Ids
    dropped: int = 0
    _senders: dict[AttemptId, LiveSender] = field(default_factory=dict)
    _held: deque[StoredPiece] = field(default_factory=deque)
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: bool = False
    _rate: RateLimit = field(init=False)

    def __post_init__(self) -> None:
        self._rate = RateLimit(self.clock, BURST_BYTES, 1 / BYTES_A_SECOND)

    def __len__(self) -> int:
        return len(self._senders)

    @contextmanager
    def sending(
        self, attempt: AttemptId, group_id: str | None, limit: asyncio.Timeout
    ) -> Iterator[LiveSender]:
        """Register a request; an attempt has one, and its newer one ends the older. Raises `Transient`."""
        earlier = self._senders.pop(attempt, None)
        if earlier is not None:
            earlier.end()
        if self._closed or len(self._senders) >= STREAMS_MAX:
            raise Transient("too_many_live_texts", "this control plane takes no more live text; try again")
        sender = LiveSender(attempt.run_id, attempt.attempt, group_id, limit)
        self._senders[attempt] = sender
        try:
            yield sender
        finally:
            if self._senders.get(attempt) is sender:
                del self._senders[attempt]

    def may_take(self, sender: LiveSender, size_bytes: int) -> bool:
        """Count a piece, and say whether its run may show so much now."""
        name = f"{sender.run_id}/{sender.attempt}"
        may = not self._rate.wait_s(name, PIECE_BYTES + size_bytes)
        if not may:
            sender.dropped += 1
            self.dropped += 1
        return may

    def put(self, sender: LiveSender, piece: StoredPiece) -> None:
        """Take a piece; the oldest of all is dropped where too many wait."""
        sender.taken += 1
        self._held.append(piece)
        if len(self._held) > HELD_MAX:
            self._held.popleft()
            self.dropped += 1
        self._came.set()

    async def run_once(self) -> None:
        """Store what comes, for as long as the store takes it. Raises `Transient`; what it had is dropped."""
        loop = asyncio.get_running_loop()
        stored_s = -math.inf
        while True:
            await self._came.wait()
            await asyncio.sleep(max(0.0, stored_s + GATHER_S - loop.time()))
            self._came.clear()
            stored_s = loop.time()
            pieces = list(self._held)
            self._held.clear()
            try:
                await self.store.add({self.ids.ulid(): each for each in _cut(pieces)}, self.clock.now())
            except Transient:
                self.dropped += len(pieces)
                raise

    def close(self) -> None:
        """End every request: the process is to leave, and pods send to another one."""
        self._closed = True
        for sender in list(self._senders.values()):
            sender.end()


def _cut(pieces: Sequence[StoredPiece]) -> Iterator[list[StoredPiece]]:
    """Yield the pieces in documents of a bounded size, of which there is mostly one."""
    some: list[StoredPiece] = []
    chars = 0
    for each in pieces:
        if some and (len(some) >= PIECES_MAX or chars + len(each.text) > DOCUMENT_CHARS_MAX):
            yield some
            some, chars = [], 0
        some.append(each)
        chars += len(each.text)
    if some:
        yield some
