"""Singleflight: concurrent requests for the same key share one read.

Law: a request gets a read that began after the request arrived, so that its answer is never older than the
request. While one read runs, all new requests wait for the next one: one runs, and at most one waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Singleflight(Generic[T]):
    """The reads in flight by key; every waiter of a read gets its result or its exception."""

    _running: dict[Hashable, asyncio.Task[T]] = field(default_factory=dict)
    _next: dict[Hashable, asyncio.Task[T]] = field(default_factory=dict)

    async def read(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `read`, which is called once for concurrent calls with the same key."""
        task = self._next.get(key)
        if task is None:
            task = asyncio.create_task(self._one(key, self._running.get(key), read))
            task.add_done_callback(seen)
            self._next[key] = task
        return await asyncio.shield(task)  # whoever leaves takes nothing from the others

    async def _one(
        self, key: Hashable, before: asyncio.Task[T] | None, read: Callable[[], Awaitable[T]]
    ) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._running[key] = self._next.pop(key)
        try:
            return await read()
        finally:
            del self._running[key]


def seen(task: asyncio.Task[T]) -> None:
    """Retrieve the exception of a read, also if no waiter is left."""
    if not task.cancelled():
        task.exception()
