"""Moves decisions from a run's journal into the log, and onto the attempts they speak of."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.run import Run
from control_plane.store.documents import Documents
from control_plane.store.events import Arrival, Events
from events.clock import Clock, Ids


@dataclass(frozen=True, slots=True)
class Chronicler:
    """Writes journal entries where they stay; the caller takes them out of the run afterwards."""

    events: Events
    documents: Documents
    clock: Clock
    ids: Ids

    async def write(self, run: Run) -> int:
        """Store every entry of the run's journal; return the number of the last one, 0 for none."""
        if not run.journal:
            return 0
        arrivals = [Arrival(self.ids.ulid(), self.clock.now()) for _ in run.journal]
        await self.events.chronicle(run.id, run.journal, arrivals)
        await self.documents.chronicle(run.id, run.journal)
        return run.journal[-1].n
