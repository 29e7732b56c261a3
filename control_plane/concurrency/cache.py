"""A TTL cache of reads of the store, so that not every request reads again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from events.runtime.clock import Clock

T = TypeVar("T")

BELIEVED_S: Final = 2.0
NAMES_MAX: Final = 10_000


@dataclass(slots=True)
class Cache(Generic[T]):
    """A cache of values by name; each is valid for `BELIEVED_S`."""

    clock: Clock
    _read: OrderedDict[str, tuple[float, T]] = field(default_factory=OrderedDict)

    async def get(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value of a name, or read it."""
        now_s = self.clock.monotonic_s()
        known = self._read.get(name)
        if known is not None and now_s - known[0] <= BELIEVED_S:
            return known[1]
        found = await read()
        self._read[name] = (now_s, found)
        self._read.move_to_end(name)
        while len(self._read) > NAMES_MAX:
            self._read.popitem(last=False)
        return found

    def forget(self, name: str) -> None:
        """Remove a name from the cache."""
        self._read.pop(name, None)
