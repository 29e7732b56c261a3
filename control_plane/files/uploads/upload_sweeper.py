"""Removes abandoned multipart uploads, whose parts storage would keep for ever."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from control_plane.files.multipart import Multipart
from control_plane.model.projection import ARTIFACTS
from events.runtime.clock import Clock

log = logging.getLogger(__name__)

TICK_S: Final = 3600.0
GRACE: Final = timedelta(days=1)  # as MinIO and rclone give such uploads, which need no sweeper


@dataclass(frozen=True, slots=True)
class UploadSweeper:
    """Removes abandoned uploads. Several replicas may run it at once."""

    multipart: Multipart
    clock: Clock
    prefix: str = ARTIFACTS
    grace: timedelta = GRACE

    async def run_once(self) -> int:
        """Return how many uploads were given up; one that may still be under way is left alone."""
        dropped = await self.multipart.drop_older(self.prefix, self.clock.now() - self.grace)
        if dropped:
            log.info("upload.swept", extra={"dropped": dropped})
        return dropped
