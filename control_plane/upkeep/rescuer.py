"""Rescues runs whose lease is over."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from control_plane.store.queue.runs import Runs
from control_plane.upkeep.rescue import Seen, Watch, gone, observe
from events.kinds.queues import QUEUES
from events.lifecycle import Illegal
from events.queue.settlement import rescue_decision
from events.runtime.clock import Clock, Ids
from events.runtime.errors import Transient

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
GAP_MAX_S: Final = 3 * TICK_S


@dataclass(slots=True)
class Rescuer:
    """Watches every lease. Several replicas may run it at once."""

    runs: Runs
    clock: Clock
    ids: Ids
    ttl_s: float | None = None  # None: as long as each lease
    gap_max_s: float = GAP_MAX_S
    watches: dict[str, Watch] = field(default_factory=dict)

    async def run_once(self) -> int:
        """Do one round; return the number of rescued runs. A lease that was renewed meanwhile is kept."""
        try:
            return sum([await self._queue(collection) for collection in QUEUES])
        except Transient:
            # What we did not see cannot count as silence of the owner.
            self.watches.clear()
            raise

    async def _queue(self, collection: str) -> int:
        leases = await self.runs.leases(collection)
        now_s = self.clock.monotonic_s()
        before = self.watches.get(collection, Watch({}, now_s))
        watch = observe(before, leases, now_s=now_s, gap_max_s=self.gap_max_s)
        self.watches[collection] = watch
        return sum(
            [
                await self._rescue(run_id, watch.seen[run_id])
                for run_id in gone(watch, leases, now_s=now_s, ttl_s=self.ttl_s)
            ]
        )

    async def _rescue(self, run_id: str, seen: Seen) -> bool:
        found = await self.runs.find(run_id)
        if found is None or found.run.lease is None:
            return False
        run = found.run
        if (run.attempt, found.run.lease.renewals) != (seen.attempt, seen.renewals):
            return False  # renewed since the look that our patience speaks of
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
