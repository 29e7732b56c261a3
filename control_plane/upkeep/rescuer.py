"""Rescues runs whose lease is over."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from control_plane.model.lease_watch import Overdue, gone, look
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.queue.runs import Runs
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import Illegal
from events.queue.settlement import rescue_decision
from events.runtime.clock import Ids

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
GAP_MAX_S: Final = 2 * TICK_S


@dataclass(slots=True)
class Rescuer:
    """Watches every lease. Several replicas may run it at once: they share one watch, in the store."""

    runs: Runs
    watches: LeaseWatches
    ids: Ids
    ttl_s: float | None = None  # None: as long as each lease
    gap_max_s: float = GAP_MAX_S

    async def run_once(self) -> int:
        """Do one round; return the number of rescued runs. A lease that was renewed meanwhile is kept."""
        return sum([await self._queue(collection) for collection in QUEUES])

    async def _queue(self, collection: str) -> int:
        over = await self.runs.leases_over(collection)
        if not over:  # and what was over before is renewed, or has ended: nothing is written for it
            return 0
        before, now = await self.watches.read(collection)
        watch = look(before, over, now=now, gap_max_s=self.gap_max_s)
        if not await self.watches.keep(collection, before, watch):
            return 0  # another replica has looked, and judges
        lost = gone(watch, over, ttl_s=self.ttl_s)
        return sum([await self._rescue(run_id, watch.overdue[run_id]) for run_id in lost])

    async def _rescue(self, run_id: str, overdue: Overdue) -> bool:
        found = await self.runs.find(run_id)
        if found is None or found.run.lease is None:
            return False
        run = found.run
        if (run.attempt, found.run.lease.renewals) != (overdue.attempt, overdue.renewals):
            return False  # renewed since the look that we judge by
        decision = rescue_decision(run.standing, run.attempt, by="rescuer", jitter=self.ids.fraction())
        if isinstance(decision, Illegal):
            return False
        taken = await self.runs.rescue(found, decision) is not None
        if taken:
            log.warning(
                "run.rescued",
                extra={"run": run_id, "attempt": run.attempt, "pod": run.claimed_by},
            )
        return taken
