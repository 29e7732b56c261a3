"""Marks pods as looked at, so that they report every second for a while.

Law: however many people look, a pod's line is written for that at most once in `LOOK_EVERY_S`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from control_plane.store.pods import Pods
from events.runtime.clock import Clock

LOOK_EVERY_S: Final = 10.0
FOR_S: Final = 30.0
FOR_MAX_S: Final = 300.0
PODS_MAX: Final = 64  # of one look
KNOWN_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class PodLooks:
    """The looks at pods of this process."""

    pods: Pods
    clock: Clock
    _until: OrderedDict[str, float] = field(default_factory=OrderedDict)

    async def look(self, pods: Iterable[str], for_s: float = FOR_S) -> None:
        """Have these pods, by their names or their workers' ids, report every second for some time.

        A name that nobody has marks nothing. Raises `Transient`.
        """
        now_s = self.clock.monotonic_s()
        due = [pod for pod in islice(dict.fromkeys(pods), PODS_MAX) if self._until.get(pod, now_s) <= now_s]
        if not due:
            return
        for pod in due:
            self._until[pod] = now_s + LOOK_EVERY_S
            self._until.move_to_end(pod)
        while len(self._until) > KNOWN_MAX:
            self._until.popitem(last=False)
        for_s = min(FOR_MAX_S, max(2 * LOOK_EVERY_S, for_s))
        await self.pods.look(due, for_s=for_s, unless_s=for_s - LOOK_EVERY_S)
