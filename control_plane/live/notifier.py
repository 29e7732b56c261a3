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
class Bell:
    """The wake-up of one waiting pod; `wait` returns when it is notified."""

    sought: Sought
    _rung: asyncio.Event = field(default_factory=asyncio.Event)
    _for: Change | None = None

    @property
    def is_rung(self) -> bool:
        return self._rung.is_set()

    def ring(self, change: Change) -> None:
        self._for = change
        self._rung.set()

    async def wait(self, seconds: float) -> Change | None:
        """Wait for a notification, at most `seconds`; return its class and reset the wake-up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
        change, self._for = self._for, None
        return change


@dataclass(slots=True)
class Notifier:
    """The waiting pods of one process, in the order in which they began to wait."""

    _bells: dict[Bell, None] = field(default_factory=dict)
    _of: Counter[str | None] = field(default_factory=Counter)

    @contextmanager
    def waiting(self, sought: Sought, key_id: str | None = None) -> Iterator[Bell | None]:
        """Register a waiting pod; yield None if too many wait already, in all or with this key.

        Whoever needs no key, on this machine, is bounded with all only.
        """
        is_greedy = key_id is not None and self._of[key_id] >= WAITING_OF_ONE_MAX
        if is_greedy or len(self._bells) >= WAITING_MAX:
            yield None
            return
        bell = Bell(sought)
        self._bells[bell] = None
        self._of[key_id] += 1
        try:
            yield bell
        finally:
            del self._bells[bell]
            self._of[key_id] -= 1
            if not self._of[key_id]:
                del self._of[key_id]

    def hear(self, change: Change) -> None:
        """Notify the first waiting pod that can claim the changed run; all such if its class is unknown."""
        if not change.is_queued:
            return
        for bell in self._bells:
            if not bell.is_rung and bell.sought.serves(change.collection, change.class_key):
                bell.ring(change)
                if change.class_key is not None:
                    return
