"""The background loops of the control plane: one shape, stopped at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from events.runtime.errors import Transient

log = logging.getLogger(__name__)

TROUBLE_FACTOR: Final = 5
AT_ONCE_MAX: Final = 20
AGAIN_S: Final = 1.0  # until a cancellation comes again

# The period of a background loop in seconds, its name, and one round of it.
Loop = tuple[float, str, Callable[[], Awaitable[object]]]

T = TypeVar("T")
R = TypeVar("R")


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


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended: a library that opens a connection can lose a cancellation."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_S)


async def serve_all(
    items: Sequence[T], serve: Callable[[T], Awaitable[R]], *, at_once: int = AT_ONCE_MAX
) -> list[R]:
    """Serve every item, `at_once` at a time; return the results, or raise the first failure at the end.

    A failing item does not keep the others from being served.
    """
    results: list[R] = []
    failures: list[BaseException] = []
    for start in range(0, len(items), at_once):
        turn = [serve(item) for item in items[start : start + at_once]]
        for result in await asyncio.gather(*turn, return_exceptions=True):
            if isinstance(result, BaseException):
                failures.append(result)
            else:
                results.append(result)
    if failures:
        raise failures[0]
    return results
