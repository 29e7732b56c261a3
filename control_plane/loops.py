"""The background loops of the control plane: one shape, stopped at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from events.errors import Transient

log = logging.getLogger(__name__)

TROUBLE_FACTOR: Final = 5


async def run_every(seconds: float, name: str, step: Callable[[], Awaitable[object]]) -> None:
    """Run `step` at once and then every `seconds`, until canceled; a failure waits for a later turn."""
    while True:
        pause_s = seconds
        try:
            await step()
        except Transient as error:
            log.warning("loop.retried", extra={"loop": name, "code": error.code, "why": error.message})
        except Exception:
            log.exception("loop.failed", extra={"loop": name})
            pause_s = seconds * TROUBLE_FACTOR
        await asyncio.sleep(pause_s)
