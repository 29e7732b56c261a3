"""The smallest event loop: it has nothing to wait for, and shares its thread with others of its kind.

With the store double nothing in the product's coroutines really waits. What gives way does so
below the loop, in `kernel`, which therefore keeps apart whose loop is the running one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Turns:
    """Runs what is ready, in order, until its one task is done."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._self(), context)
        self._ready.append(handle)
        return handle

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self._self(), **options)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._self())

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        raise error if error is not None else AssertionError(context["message"])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end."""
        task: asyncio.Task[T] = self.create_task(work)
        asyncio._set_running_loop(self._self())
        try:
            while not task.done():
                assert self._ready, "something waits for the world outside, which no simulation has"
                self._ready.popleft()._run()
        finally:
            asyncio._set_running_loop(None)
        return task.result()

    def _self(self) -> asyncio.AbstractEventLoop:
        # What asyncio's tasks and futures ask of a loop is above; the rest is for the world outside.
        return cast("asyncio.AbstractEventLoop", self)


def driven(work: Awaitable[T]) -> T:
    """Run a coroutine of the product to its end, in the line of work of the caller."""
    assert isinstance(work, Coroutine)
    result: T = Turns().run(work)
    return result
