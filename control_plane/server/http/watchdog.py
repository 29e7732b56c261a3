"""Detects a step that blocks the event loop, and names its route: meanwhile no other request is answered.

Law: a thread of its own polls the loop ten times a second, since a blocked loop cannot check itself. The
cost does not grow with the requests.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from events.runtime.clock import Clock

log = logging.getLogger(__name__)

ASK_S: Final = 0.1
STALL_S: Final = 0.25
NOBODY: Final = "none"

OnStall = Callable[[str, float], None]


@dataclass(slots=True, eq=False)
class Watchdog:
    """Measures each stall of the loop beyond `stall_s`; `on_stall` gets the route and the seconds."""

    clock: Clock
    on_stall: OnStall
    ask_s: float = ASK_S
    stall_s: float = STALL_S
    _asked: dict[asyncio.Task[Any], Scope] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the running loop."""
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._watch, args=(loop,), name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()  # a thread that waits for a loop that ends is not waited for

    @contextmanager
    def serving(self, scope: Scope) -> Iterator[None]:
        """Know meanwhile that the running task serves this request; the innermost scope names the route."""
        task = asyncio.current_task()
        assert task is not None, "a request is served in a task"
        outer = self._asked.get(task)
        self._asked[task] = scope
        try:
            yield
        finally:
            if outer is None:
                del self._asked[task]
            else:
                self._asked[task] = outer

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.wait(self.ask_s):
            came = threading.Event()
            asked_s = self.clock.monotonic_s()
            try:
                loop.call_soon_threadsafe(came.set)
            except RuntimeError:  # the loop is closed
                return
            if came.wait(self.stall_s):
                continue
            route = self._route(asyncio.current_task(loop))
            while not came.wait(self.ask_s):
                if self._stop.is_set():
                    return
            seconds = self.clock.monotonic_s() - asked_s
            log.warning("loop.stalled", extra={"route": route, "seconds": round(seconds, 3)})
            self.on_stall(route, seconds)

    def _route(self, task: asyncio.Task[Any] | None) -> str:
        """Return the pattern of the route that a task serves, or else what the task is."""
        if task is None:
            return NOBODY
        scope = self._asked.get(task)
        if scope is None:
            return str(getattr(task.get_coro(), "__qualname__", NOBODY))
        pattern = getattr(scope.get("route"), "path", "unknown")  # a stranger chooses paths, not patterns
        return f"{scope['method']} {pattern}"


@dataclass(frozen=True, slots=True)
class Watched:
    """Lets the watchdog know which task serves which request."""

    app: ASGIApp
    watchdog: Watchdog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self.watchdog.serving(scope):
            await self.app(scope, receive, send)
