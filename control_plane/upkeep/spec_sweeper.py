"""Removes specifications without a run, such as after a replica died between the two writes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from control_plane.store.queue.submissions import PAGE_MAX, SPEC_GRACE_S, Submissions

log = logging.getLogger(__name__)

TICK_S: Final = 60.0
PAGES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SpecSweeper:
    """Removes orphaned specifications. Several replicas may run it at once."""

    queue: Submissions
    grace_s: float = SPEC_GRACE_S

    async def run_once(self) -> int:
        """Return how many orphans were removed; whoever may still be submitting is left alone."""
        removed = 0
        for _ in range(PAGES_MAX):
            page = await self.queue.old_specs(self.grace_s)
            if orphans := await self.queue.check_specs(page):
                removed += await self.queue.drop_orphans(orphans, self.grace_s)
            if len(page) < PAGE_MAX:
                break
        if removed:
            log.info("spec.swept", extra={"removed": removed})
        return removed
