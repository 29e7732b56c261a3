"""Enforces a time limit on network work: it ends in time, whatever the other side does.

Law: the caller waits no longer than the limit, and handles a stop at once. The work runs in a thread and an
event loop of its own: a signal interrupts the caller, never the middle of the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

from events.runtime.errors import Canceled

LOOK_EVERY_S: Final = 0.1
GRACE_S: Final = 5.0  # for a name look-up, which no event loop can break off

T = TypeVar("T")


def run_within(seconds: float, work: Callable[[], Awaitable[T]], stop: threading.Event) -> T:
    """Return what `work` returns, or raise what it raises.

    Raises `TimeoutError` after `seconds`, and `Canceled` soon after `stop` was set; the work is
    then canceled, its connection closed.
    """
    given_up = threading.Event()
    thread = ThreadPoolExecutor(1, thread_name_prefix="time_limit")
    try:
        future = thread.submit(lambda: asyncio.run(_watched(seconds, work, given_up)))
        for _ in range(int((seconds + GRACE_S) / LOOK_EVERY_S) + 1):
            if wait([future], LOOK_EVERY_S).done:
                return future.result()
            if stop.is_set():
                raise Canceled("the pipeline was asked to stop")
        raise TimeoutError
    finally:
        given_up.set()
        thread.shutdown(wait=False)


async def _watched(seconds: float, work: Callable[[], Awaitable[T]], given_up: threading.Event) -> T:
    task = asyncio.ensure_future(work())
    try:
        async with asyncio.timeout(seconds):
            while not task.done() and not given_up.is_set():
                await asyncio.wait({task}, timeout=LOOK_EVERY_S)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return task.result()
