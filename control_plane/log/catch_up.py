"""Catch-up: applies events that a dead replica stored and did not apply.

A run that moved since the last look has a replica that applies its events, and is left alone. If two
replicas fold the same events, one does it in vain, and the requests of its batch are applied alone. A log is
given up only after all that is stored of it was applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from control_plane.log.projector import Projector
from control_plane.log.unclaimed_lines import UnclaimedLines
from control_plane.model.projection import attempt_id
from control_plane.store.log.events import Events
from control_plane.store.queue.runs import BATCH_MAX, Runs
from events.kinds.declaring.queues import QUEUES
from events.text.attempt_id import AttemptId

TICK_S: Final = 5.0
LOG_GRACE_S: Final = 600.0


@dataclass(slots=True)
class CatchUp:
    """Applies stored events that no replica has applied. Several replicas may run it at once."""

    runs: Runs
    events: Events
    unclaimed: UnclaimedLines
    projector: Projector
    log_grace_s: float = LOG_GRACE_S
    _stood: dict[str, tuple[int, int]] = field(default_factory=dict)  # attempt and cursor at the last look

    async def run_once(self) -> int:
        """Do one round; return the number of updated runs and of unclaimed lines made dead letters."""
        moved = 0
        stands: dict[str, tuple[int, int]] = {}
        for collection in QUEUES:
            moved += await self._look(collection, stands)
        self._stood = stands
        return moved + await self._finish_left() + await self._adopt() + await self.unclaimed.run_once()

    async def _look(self, collection: str, stands: dict[str, tuple[int, int]]) -> int:
        """Apply what is behind runs that stand still, give up their logs in time, note where all stand."""
        moved, after = 0, ""
        while page := await self.runs.with_open_log(collection, after):
            stands |= {run.id: (run.attempt, run.last_event_seq) for run in page}
            still = [run for run in page if self._stood.get(run.id) == stands[run.id]]
            for run in still:
                if await self.events.holds(run.attempt_id, run.last_event_seq + 1):
                    await self.projector.apply(run.attempt_id)
                    moved += 1
            await self._give_up(collection, [run.id for run in still if run.settled is not None])
            after = page[-1].id
            if len(page) < BATCH_MAX:
                break
        return moved

    async def _give_up(self, collection: str, settled: Sequence[str]) -> None:
        """Close the logs that stayed short for too long.

        Their attempts are watched first: what is stored at this very moment may be of a replica that dies.
        """
        stale = await self.runs.stale_logs(collection, settled, self.log_grace_s) if settled else []
        if stale:
            await self.projector.documents.watch([run.attempt_id for run in stale])
            await self.runs.close_stale_logs(collection, [run.id for run in stale], self.log_grace_s)

    async def _finish_left(self) -> int:
        """Apply what was stored of attempts whose run went on without them."""
        moved, after = 0, ""
        documents = self.projector.documents
        while page := await documents.watched(after):
            for left in page:
                moved += await self._apply_left(left)
            after = attempt_id(*page[-1])
            if len(page) < BATCH_MAX:
                break
        await documents.forget_watched()
        return moved

    async def _apply_left(self, left: AttemptId) -> bool:
        found = await self.runs.find(left.run_id)
        if found is None:
            return False
        record = await self.projector.documents.attempt(left)
        cursor = found.run.last_event_seq if left.attempt == found.run.attempt else record.seq
        if not await self.events.holds(left, cursor + 1):
            return False
        await self.projector.apply(left)
        return True

    async def _adopt(self) -> int:
        adopted = 0
        for run_id in await self.events.orphan_runs(BATCH_MAX):
            if await self.runs.find(run_id) is None:
                continue
            await self.events.adopt(run_id)
            adopted += 1
        return adopted
