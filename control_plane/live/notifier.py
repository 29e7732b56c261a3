"""Notifies waiting pods that a run may be available: a hint, which makes pick-up take milliseconds.

Law: a waiting request reads the queue itself, before and after: a lost notification costs one more read
(`runs/claiming.py`). A new run notifies the pod that can serve it and has waited longest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from control_plane.store.changes import Change

WAITING_MAX: Final = 2_000  # requests that wait in one process
WAITING_OF_ONE_MAX: Final = 500  # with one key


class Sought(Protocol):
    """The classes of runs that a pod could claim."""

    def serves(self, collection: str, class_key: str | None) -> bool:
        """Say whether the pod can claim a run of this class; None stands for an unknown class."""
        ...


@dataclass(slots=True, eq=False)
class Waiter:
    """The wake-up of one waiting pod; `wait` returns when it is notified."""

    sought: Sought
    _notified: asyncio.Event = field(default_factory=asyncio.Event)
    _change: Change | None = None

    @property
    def is_notified(self) -> bool:
        return self._notified.is_set()

    def notify(self, change: Change) -> None:
        self._change = change
        self._notified.set()

    def end(self) -> None:
        """End the wait without a notification."""
        self._notified.set()

    async def wait(self, seconds: float) -> Change | None:
        """Wait for a notification, at most `seconds`; return its class and reset the wake-up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        self._notified.clear()
        change, self._change = self._change, None
        return change


@dataclass(slots=True)
class Notifier:
    """The waiting pods of one process, in the order in which they began to wait."""

    _waiters: dict[Waiter, None] = field(default_factory=dict)
    _of: Counter[str | None] = field(default_factory=Counter)
    _is_closed: bool = False
    heard: int = field(default=0, compare=False)  # of runs that began to wait

    @property
    def is_closed(self) -> bool:
        """Say whether nobody is to wait any more."""
        return self._is_closed

    def __len__(self) -> int:
        return len(self._waiters)

    def close(self) -> None:
        """End every wait: the process is to leave, and no waiting request may be cut off."""
        self._is_closed = True
        for waiter in self._waiters:
            waiter.end()

    @contextmanager
    def waiting(self, sought: Sought, key_id: str | None = None) -> Iterator[Waiter | None]:
        """Register a waiting pod; yield None if too many wait already, in all or with this key, or none may.

        Whoever needs no key, on this machine, is bounded with all only.
        """
        is_greedy = key_id is not None and self._of[key_id] >= WAITING_OF_ONE_MAX
        if self._is_closed or is_greedy or len(self._waiters) >= WAITING_MAX:
            yield None
            return
        waiter = Waiter(sought)
        self._waiters[waiter] = None
        self._of[key_id] += 1
        try:
            yield waiter
        finally:
            del self._waiters[waiter]
            self._of[key_id] -= 1
            if not self._of[key_id]:
                del self._of[key_id]

    def hear(self, change: Change) -> None:
        """Notify the first waiting pod that can claim the changed run; all such if its class is unknown."""
        if not change.is_queued:
            return
        self.heard += 1
        for waiter in self._waiters:
            if not waiter.is_notified and waiter.sought.serves(change.collection, change.class_key):
                waiter.notify(change)
                if change.class_key is not None:
                    return
