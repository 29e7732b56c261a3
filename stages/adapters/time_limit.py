"""Enforces a time limit on network work: it ends in time, whatever the other side does.

Law: the caller waits no longer than the limit, and handles a stop at once. The work runs in a thread and an
event loop of its own: a signal interrupts the caller, never the middle of the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import Final, TypeVar

from events.runtime.errors import Canceled

LOOK_EVERY_S: Final = 0.1
GRACE_S: Final = 5.0  # for a name look-up, which no event loop can break off
CLOSE_S: Final = 5.0  # for what keeps connections to close them

T = TypeVar("T")


async def _nothing() -> None:
    pass


class NetworkLoop:
    """One event loop in a thread of its own, for the work of any number of threads; it begins when needed.

    `last` closes what the work has kept open, such as connections.
    """

    def __init__(self, last: Callable[[], Awaitable[None]] = _nothing) -> None:
        self._last = last
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    def run_within(self, seconds: float, work: Callable[[], Awaitable[T]], stop: threading.Event) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises `TimeoutError` after `seconds`, and `Canceled` soon after `stop` was set or the loop was
        closed; the work is then canceled, its connection closed.
        """
        future = asyncio.run_coroutine_threadsafe(_within(seconds, work), self._opened())
        try:
            for _ in range(int((seconds + GRACE_S) / LOOK_EVERY_S) + 1):
                if _is_done(future):
                    return future.result()
                if stop.is_set():
                    raise Canceled("the pipeline was asked to stop")
            raise TimeoutError
        except CancelledError as error:
            raise Canceled("the connection was closed") from error
        finally:
            future.cancel()

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Cancel what is open, close what was kept, and end the thread; work that comes later begins anew."""
        with self._lock:
            loop, thread, end, self._loop = self._loop, self._thread, self._end, None
        if loop is not None and thread is not None and end is not None:
            loop.call_soon_threadsafe(end.set)
            thread.join(wait_s)

    def _opened(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                begun: Future[asyncio.AbstractEventLoop] = Future()
                self._end = end = asyncio.Event()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._live(begun, end)), name="network", daemon=True
                )
                self._thread.start()
                self._loop = begun.result()
            return self._loop

    async def _live(self, begun: Future[asyncio.AbstractEventLoop], end: asyncio.Event) -> None:
        begun.set_result(asyncio.get_running_loop())
        await end.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._last()


def run_within(seconds: float, work: Callable[[], Awaitable[T]], stop: threading.Event) -> T:
    """Do one work as `NetworkLoop.run_within` does, in a loop that ends with it."""
    loop = NetworkLoop()
    try:
        return loop.run_within(seconds, work, stop)
    finally:
        loop.close(wait_s=0.0)


async def _within(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(seconds):
        return await work()


def _is_done(future: Future[T]) -> bool:
    """Wait a moment for the work to end."""
    try:
        future.exception(LOOK_EVERY_S)
    except TimeoutError:
        return future.done()
    return True
