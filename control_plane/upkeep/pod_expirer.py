"""Removes the rows of workers that are gone: each start of a worker has one, and they would bury the living.

Law: a row goes when its worker has not reported for `GONE` and owns no attempt that has not ended. What the
ledger reads of it is kept. Attempts and verdicts name a worker by its id, and need no row.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from control_plane.store.log.pod_lives import PAGE, PodLives, Position
from events.runtime.clock import Clock

log = logging.getLogger(__name__)

TICK_S: Final = 3600.0
GONE: Final = timedelta(days=7)  # what people look back at, beside the work itself
PAGES_MAX: Final = 100  # of one round; the next goes on


@dataclass(frozen=True, slots=True)
class PodExpirer:
    """Removes rows of workers. Several replicas may run it at once."""

    lives: PodLives
    clock: Clock
    gone: timedelta = GONE

    async def run_once(self) -> int:
        """Return how many rows were removed."""
        before, removed = self.clock.now() - self.gone, 0
        after: Position | None = None
        for _ in range(PAGES_MAX):
            page = await self.lives.silent(before, after)
            busy = await self.lives.with_work([row["_id"] for row in page]) if page else set()
            removed += await self.lives.retire([row for row in page if row["_id"] not in busy], before)
            if len(page) < PAGE:
                break
            after = (page[-1]["reportedAt"], page[-1]["_id"])
        if removed:
            log.info("pod.expired", extra={"removed": removed})
        return removed
