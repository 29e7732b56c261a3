"""Reads the configured listing of models when a control plane starts.

Law: of replicas that start together one reads it. One that could not says so, and tries again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from control_plane.runs.models.catalogue import Catalogue
from events.answers.kinds.models import SyncedModels
from events.runtime.clock import Ids
from events.runtime.errors import Rejected, Transient

log = logging.getLogger(__name__)

TICK_S: Final = 60.0
TOGETHER_S: Final = 300  # replicas that start within it share one look
BY: Final = "start"


@dataclass(slots=True)
class StartSync:
    """Syncs the catalogue once after the start, from the listing at `url`; an empty one is none."""

    catalogue: Catalogue
    url: str
    ids: Ids
    _is_done: bool = field(default=False, init=False)

    async def run_once(self) -> SyncedModels | None:
        """Return what the sync did; None where nothing is left to do. Raises `Transient`."""
        if not self.url or self._is_done:
            return None
        if not await self.catalogue.store.claim_sync(self.url, self.ids.ulid(), TOGETHER_S):
            self._is_done = True
            return None
        try:
            done = await self.catalogue.sync(self.url, by=BY)
        except Transient:
            await self.catalogue.store.release_sync(self.url)
            raise
        except Rejected as error:
            log.warning("models.refused", extra={"url": self.url, "why": error.message})
            done = None
        self._is_done = True
        return done
