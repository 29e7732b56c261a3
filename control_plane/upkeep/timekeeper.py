"""Measures the clocks of the store and of the storage, and says when a machine's own is wrong."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from control_plane.files.blobs import Blobs
from events.runtime.errors import Transient
from events.runtime.measured_clock import ALARM_S, THE_STORES, MeasuredClock, ahead_words

log = logging.getLogger(__name__)

TICK_S: Final = 2.0  # so long a jump of another machine's clock goes unnoticed
CONTROL_PLANE: Final = "control_plane"
STORAGE: Final = "storage"
AWAY: Final = "away"


@dataclass(frozen=True, slots=True)
class Timekeeper:
    """Keeps `clock` the store's, and the clock of `blobs` the storage's."""

    clock: MeasuredClock
    ask: Callable[[], Awaitable[datetime]]
    blobs: Blobs
    told: dict[str, bool] = field(default_factory=dict)  # what was logged, and is still so

    async def run_once(self) -> None:
        """Measure the store's clock. Raises `Transient`."""
        asked_s = self.clock.monotonic_s()
        self.clock.note(await self.ask(), asked_s=asked_s)
        self._tell()

    async def measure_storage(self) -> None:
        """Measure the storage's clock; a storage that is away is logged once."""
        try:
            await self.blobs.measure()
        except Transient as error:
            if not self.told.get(AWAY):
                log.warning("storage.away", extra={"code": error.code, "why": error.message})
            self.told[AWAY] = True
            return
        self.told[AWAY] = False
        self._tell()

    def offsets(self) -> dict[str, float]:
        """Return by how much the clock of each part is ahead of the store's, as far as it was measured."""
        found: dict[str, float] = {}
        if (ahead_s := self.clock.machine_ahead_s) is not None:
            found[CONTROL_PLANE] = ahead_s
            if self.blobs.clock.known is not None:
                found[STORAGE] = (self.blobs.clock.now() - self.clock.now()).total_seconds()
        return found

    def _tell(self) -> None:
        """Log a clock that is off, and one that is right again, once each."""
        for part, ahead_s in self.offsets().items():
            is_off = abs(ahead_s) >= ALARM_S
            if is_off and not self.told.get(part):
                says = f"the clock of the {part.replace('_', ' ')} is {ahead_words(ahead_s, THE_STORES)}"
                log.warning("clock.off", extra={"part": part, "ahead_s": round(ahead_s, 3), "why": says})
            elif self.told.get(part) and not is_off:
                log.info("clock.right", extra={"part": part, "ahead_s": round(ahead_s, 3)})
            self.told[part] = is_off
