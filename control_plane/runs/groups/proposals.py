"""Proposals under way: one of a group at a time, and no other group waits for it.

Law: a proposal is for a place of its group: what comes for an earlier place, or of a plan that was edited
meanwhile, is dropped.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from control_plane.concurrency.loops import end
from control_plane.concurrency.singleflight import seen
from control_plane.runs.groups.refusals import Proposal

PATIENCE_S: Final = 0.1  # so long a turn waits for a proposal; most need less
KEPT_MAX: Final = 1_000  # of groups that may never ask again

Make = Callable[[], Coroutine[Any, Any, Proposal]]


@dataclass(slots=True)
class Proposals:
    """The proposals that were asked for, by group, each with the place that it is for."""

    asked: OrderedDict[str, tuple[str, asyncio.Task[Proposal]]] = field(default_factory=OrderedDict)

    async def of(self, group_id: str, place: str, make: Make) -> Proposal | None:
        """Return what is proposed for this place of a group; None while it is made.

        Raises what `make` raises.
        """
        known = self.asked.get(group_id)
        if known is not None and known[0] != place and known[1].done():
            del self.asked[group_id]
            known = None
        if known is None:
            task = asyncio.create_task(make())
            task.add_done_callback(seen)
            self.asked[group_id] = known = (place, task)
            await self._bound()
        wanted, task = known
        await asyncio.wait([task], timeout=PATIENCE_S)
        if wanted != place or not task.done():
            return None
        del self.asked[group_id]
        return task.result()

    async def _bound(self) -> None:
        while len(self.asked) > KEPT_MAX:
            _, (_, task) = self.asked.popitem(last=False)
            await end([task])

    async def close(self) -> None:
        """End what is under way."""
        for _, task in self.asked.values():
            await end([task])
        self.asked.clear()
