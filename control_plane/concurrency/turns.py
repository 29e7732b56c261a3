"""Long work on the event loop, in short turns: others go on between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

AT_ONCE: Final = 50

T = TypeVar("T")


async def in_turns(items: Iterable[T], at_once: int = AT_ONCE) -> AsyncIterator[T]:
    """Yield every item; after `at_once` of them whatever else is ready has its turn."""
    for number, item in enumerate(items, 1):
        yield item
        if number % at_once == 0:
            await asyncio.sleep(0)
