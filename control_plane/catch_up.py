"""The backstop of application: what a dead replica stored and did not apply is applied here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from control_plane.projector import Projector
from control_plane.store.events import Events
from control_plane.store.runs import BATCH_MAX, Runs
from control_plane.store.schema import QUEUES

TICK_S: Final = 5.0
LOG_GRACE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Any number of replicas may catch up at once."""

    runs: Runs
    events: Events
    projector: Projector
    log_grace_s: float = LOG_GRACE_S

    async def run_once(self) -> int:
        """Return how many runs were moved."""
        moved = 0
        for collection in QUEUES:
            moved += await self._apply(collection)
            await self.runs.close_stale_logs(collection, self.log_grace_s)
        return moved + await self._adopt()

    async def _apply(self, collection: str) -> int:
        moved, after = 0, ""
        while page := await self.runs.with_open_log(collection, after):
            for run in page:
                if await self.events.holds(run.id, run.attempt, run.last_event_seq + 1):
                    await self.projector.apply(run.id, run.attempt)
                    moved += 1
            after = page[-1].id
            if len(page) < BATCH_MAX:
                break
        return moved

    async def _adopt(self) -> int:
        adopted = 0
        for run_id in await self.events.orphan_runs(BATCH_MAX):
            if await self.runs.find(run_id) is None:
                continue
            for attempt in await self.events.adopt(run_id):
                await self.projector.apply(run_id, attempt)
            adopted += 1
        return adopted
