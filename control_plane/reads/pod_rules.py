"""The rules that keep pods from claiming, as every request may ask for them: cached for a moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from control_plane.concurrency.cache import Cache
from control_plane.concurrency.singleflight import Singleflight
from control_plane.store.queue.pod_rules import RuleStore
from events.queue.rules import Rules
from events.runtime.clock import Clock

ALL: Final = "all"


@dataclass(slots=True)
class PodRules:
    """The rules in force, not older than a cached read; what this process changed is read anew."""

    store: RuleStore
    clock: Clock
    _cache: Cache[Rules] = field(init=False)
    _reads: Singleflight[Rules] = field(default_factory=Singleflight)

    def __post_init__(self) -> None:
        self._cache = Cache(self.clock)

    async def in_force(self) -> Rules:
        """Return the rules in force. Raises `Transient`."""
        return await self._cache.get(ALL, self._read)

    def changed(self) -> None:
        """Note that they are others now."""
        self._cache.forget(ALL)

    async def _read(self) -> Rules:
        return await self._reads.read(ALL, self.store.in_force)
