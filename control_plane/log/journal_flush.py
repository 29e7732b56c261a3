"""Flushes decisions from a run's journal into the log, and onto their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from control_plane.model.run import Run
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Arrival, Events
from events.runtime.clock import Clock, Ids


@dataclass(frozen=True, slots=True)
class JournalFlush:
    """Writes journal entries into the log; the caller removes them from the run afterwards."""

    events: Events
    documents: Documents
    clock: Clock
    ids: Ids

    async def write(self, run: Run) -> int:
        """Store every entry of the run's journal; return the number of the last one, 0 for none."""
        return (await self.write_all([run]))[0]

    async def write_all(self, runs: Sequence[Run]) -> list[int]:
        """Store the journals of several runs; return the last entry number of each."""
        entries = [(run.id, entry) for run in runs for entry in run.journal]
        if entries:
            arrivals = [Arrival(self.ids.ulid(), self.clock.now()) for _ in entries]
            await self.events.chronicle(entries, arrivals)
            await self.documents.chronicle(entries)
        return [run.journal[-1].n if run.journal else 0 for run in runs]
