"""Reads the database's log of changes for live pages and waiting pods, for as long as the process lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from control_plane.doorbell import Doorbell
from control_plane.live import Hub
from control_plane.store.changes import Changes, HistoryLost

TICK_S: Final = 1.0
BACK_S: Final = 120  # a reader that was cut off by a restart finds what it missed


@dataclass(frozen=True, slots=True)
class Watcher:
    """One a process: a change stream for each reader would cost the store two hundred times as much."""

    changes: Changes
    hub: Hub
    doorbell: Doorbell

    async def run_once(self) -> None:
        """Follow the log until that breaks, and from there on the next time. Raises `Transient`."""
        try:
            async for step in self.changes.steps(self.hub.token, BACK_S):
                self.hub.publish(step)
                if step.change is not None:
                    self.doorbell.hear(step.change)
        except HistoryLost:
            self.hub.forget()
