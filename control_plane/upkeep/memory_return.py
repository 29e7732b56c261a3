"""Returns freed memory to the machine: the allocator of the C library keeps it for what may come.

After a flood of large pages two thirds of the process was such memory, in pieces between what lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from events.runtime.allocator import trim

TICK_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class MemoryReturn:
    """Returns what is free, beside the event loop: it takes milliseconds for a hundred MiB."""

    trim: Callable[[], object] = trim

    async def run_once(self) -> None:
        """Return what is free now."""
        await asyncio.to_thread(self.trim)
