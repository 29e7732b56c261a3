"""Fans one change stream out to any number of readers, each of which may resume later.

Law: a change is kept once, in a ring, and a reader has a position in it. A slow reader costs nothing and
loses nothing until the ring has passed its position; then it gets a reset. Positions are resume tokens of
the database, so a reader may resume at any replica.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from control_plane.store.changes import Change, Step, moment_s
from control_plane.store.log import live_texts
from events.kinds import NOUNS
from events.kinds.declaring.queues import QUEUES
from events.runtime.errors import Transient

KEPT_MAX: Final = 20_000
GATHER_S: Final = 0.02
READERS_MAX: Final = 2_000
AHEAD_MAX_S: Final = 180  # more than a process that starts reads back
LOG: Final = "log/"  # and the id of a run
# What one of each is called, beside the runs.
SINGULARS: Final = {
    "pods": "pod",
    "schedules": "schedule",
    "groups": "group",
    **{each.collection: each.singular for each in NOUNS},
}
LISTS: Final = frozenset({"runs", *SINGULARS})  # topics of whole lists


def topics(change: Change) -> tuple[str, ...]:
    """Return the topics of a change: `log/<run>`, those that it names, or its collection and itself."""
    if change.collection == "events":
        return (f"{LOG}{change.id.partition('/')[0]}",)
    if change.collection == live_texts.COLLECTION:
        return live_texts.topics_of(change.document)
    if change.collection in QUEUES:
        return ("runs", f"run/{change.id}")
    return (change.collection, f"{SINGULARS[change.collection]}/{change.id}")


@dataclass(frozen=True, slots=True, eq=False)
class News:
    """What a reader has not heard yet, and the token to come back with; `is_reset` where some is lost.

    Readers who hear the same get the same object; `texts` is what is said of it, by the way of saying it.
    """

    changes: Sequence[Change]
    token: str
    is_reset: bool = False
    texts: dict[object, asyncio.Task[bytes]] = field(default_factory=dict)
    encoded: dict[object, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class ChangeFeed:
    """A ring buffer of the latest changes, and a condition that wakes its readers."""

    _kept: list[tuple[str, tuple[str, ...], Change]] = field(default_factory=list)
    _first: int = 0  # the number of the ring's first change
    _from: str | None = None  # everything behind this token is in the ring
    _token: str | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _wake_timer: asyncio.TimerHandle | None = None
    _woke_s: float = -math.inf
    _shared: dict[object, News] = field(default_factory=dict)
    _closed: bool = False
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _left_s: float = -math.inf
    readers: int = 0
    kept_max: int = KEPT_MAX

    @property
    def token(self) -> str | None:
        """The resume token of the last change; None before the first."""
        return self._token

    def require_capacity(self) -> None:
        """Raise `Transient` if the process has its maximum of readers."""
        if self.readers >= READERS_MAX:
            raise Transient(
                "too_many_readers", "this control plane has reached its limit of live streams; try again"
            )

    async def wanted(self) -> None:
        """Wait until there is a reader."""
        await self._came.wait()

    def is_wanted(self, linger_s: float) -> bool:
        """Say whether there is a reader, or was one in the last `linger_s` seconds."""
        return self.readers > 0 or _now_s() - self._left_s < linger_s

    def publish(self, step: Step) -> None:
        """Store a change and wake the readers; further changes of a burst wake them once more."""
        is_first = self._from is None
        if is_first:
            self._from = step.begin
        self._token = step.end
        if step.change is not None:
            self._kept.append((step.end, topics(step.change), step.change))
            self._shared.clear()
        surplus = len(self._kept) - self.kept_max
        if surplus > self.kept_max // 10:  # in one go, since it moves the whole list
            self._from = self._kept[surplus - 1][0]
            self._first += surplus
            del self._kept[:surplus]
        if (step.change is not None or is_first) and self._wake_timer is None:
            loop = asyncio.get_running_loop()
            self._wake_timer = loop.call_at(max(loop.time(), self._woke_s + GATHER_S), self._wake)

    def forget(self) -> None:
        """Drop all changes; every reader gets a reset, because changes were lost."""
        self._first += len(self._kept) + 1
        self._kept.clear()
        self._shared.clear()
        self._from = self._token = None

    def close(self) -> None:
        """End every reader at once."""
        self._closed = True
        self._wake()

    async def follow(
        self, wanted: frozenset[str], since: str | None, *, pause_s: float, idle_s: float
    ) -> AsyncIterator[News]:
        """Yield the news of the topics `wanted` behind `since` (None: from now on), until closed.

        At most one every `pause_s`, so that a busy fleet drowns no reader, and to all at the same moments, so
        that they hear the same; after `idle_s` without any, news without changes, so that tokens stay young.
        """
        self.readers += 1
        self._came.set()
        try:
            await self._begun()
            place = self._end if since is None else self._place(since)
            heard = since or ""  # further than the ring, where the log is still being caught up with
            told_s = -math.inf  # at once, so that a reader knows where it is
            while not self._closed:
                if place is None or place < self._first:
                    await self._begun()
                    place, told_s, heard = self._end, _now_s(), ""
                    yield News((), self._token or "", is_reset=True)
                    continue
                news = self._behind(wanted, place, heard)
                place = self._end
                if heard <= (self._token or ""):
                    heard = ""
                if news.changes or _now_s() - told_s >= idle_s:
                    told_s = _now_s()
                    yield news
                    await _beat(pause_s)
                else:
                    await _wait_at_most(self._changed, idle_s)
        finally:
            self.readers -= 1
            if not self.readers:
                self._came.clear()
                self._left_s = _now_s()

    def _behind(self, wanted: frozenset[str], place: int, heard: str) -> News:
        """Return the news behind a place, the same object as for whoever asked the same before."""
        subscription = (wanted, place, heard)
        news = self._shared.get(subscription)
        if news is None:
            changes = [
                each
                for token, of, each in self._kept[place - self._first :]
                if token > heard and not wanted.isdisjoint(of)
            ]
            news = News(changes, max(self._token or "", heard))
            if changes:
                self._shared[subscription] = news
        return news

    async def _begun(self) -> None:
        while self._token is None and not self._closed:
            await self._changed.wait()

    @property
    def _end(self) -> int:
        return self._first + len(self._kept)

    def _place(self, since: str | None) -> int | None:
        """Return the number of the first change behind `since`; None where the ring does not know it."""
        if since is None or self._from is None or self._token is None or since < self._from:
            return None
        told_s, ours_s = moment_s(since), moment_s(self._token)
        # another replica has read further than one that starts; what is far ahead is of another log
        if told_s is None or ours_s is None or told_s > ours_s + AHEAD_MAX_S:
            return None
        return self._first + bisect_right(self._kept, since, key=lambda kept: kept[0])

    def _wake(self) -> None:
        self._wake_timer, self._woke_s = None, _now_s()
        self._changed.set()
        self._changed = asyncio.Event()


async def _beat(pause_s: float) -> None:
    """Wait for the next of the moments that are `pause_s` apart."""
    await asyncio.sleep(pause_s - _now_s() % pause_s if pause_s else 0.0)


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
