"""The classes that wait, looked at once for all pods that wait at this process.

Law: a look is shared until the process hears of a run that waits, and for `BELIEVED_S` at most, so that a
lost notification delays a run by no more. Whoever is not told of runs does not share it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from control_plane.concurrency.singleflight import Singleflight
from events.queue.looks import BELIEVED_S
from events.queue.matching import WaitingClass


@dataclass(slots=True)
class SharedLook:
    """The last look of one process; `heard` counts the notifications before it."""

    _reads: Singleflight[list[WaitingClass]] = field(default_factory=Singleflight)
    _begun_s: float = float("-inf")
    _heard: int = -1
    _found: list[WaitingClass] = field(default_factory=list)

    async def get(
        self, heard: int, now_s: float, read: Callable[[], Awaitable[list[WaitingClass]]]
    ) -> list[WaitingClass]:
        """Return what waits, as of the last notification: by the last look, or by a new one."""
        if self._heard == heard and now_s - self._begun_s <= BELIEVED_S:
            return self._found
        found = await self._reads.read(None, read)
        self._begun_s, self._heard, self._found = now_s, heard, found
        return found
