"""Serves the routes of another package's kind on the event loop of that kind, their streams included.

Law: nothing that a route does, or leaves running, stops another request or ends the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from control_plane.access.auth import HOME
from control_plane.reads.kinds.errors import route_failed
from control_plane.reads.kinds.loops import KindLoop
from events.runtime.errors import PodfleetError

ANSWER_S: Final = 30.0  # until an answer begins, from the end of the request's body
PART_S: Final = 60.0  # between two parts of an answer, from when the reader took the first

T = TypeVar("T")


class KindRouter(APIRouter):
    """The routes of one kind, whose code runs on the loop of the kind."""

    def __init__(self, kind: str, loop: KindLoop, routes: APIRouter) -> None:
        super().__init__()
        self._kind = kind
        self._loop = loop
        self.include_router(routes)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; a failure is `KindFailed`, or ends the connection of an answer that has begun."""
        here = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(ANSWER_S) as limit:
                ends = _Ends(here, limit, receive, send)
                scope[HOME] = here
                await self._loop.run(lambda _: APIRouter.handle(self, scope, ends.receive, ends.send))
        except (PodfleetError, HTTPException):
            raise
        except BaseException as error:  # noqa: BLE001 - a package may do anything
            path = getattr(scope.get("route"), "path", scope["path"])
            raise route_failed(self._kind, f"{scope['method']} {path}", error) from None


@dataclass(slots=True)
class _Ends:
    """Both ends of a request for another loop; time that the client takes is not counted."""

    here: asyncio.AbstractEventLoop
    limit: asyncio.Timeout
    request: Receive
    answer: Send
    _is_whole: bool = False

    async def receive(self) -> Message:
        """Return the next part of the request."""
        return await self._on_home(self._received())

    async def send(self, message: Message) -> None:
        """Send a part of the answer; return when it is taken."""
        await self._on_home(self._sent(message))

    async def _received(self) -> Message:
        if self._is_whole:  # what comes now is the end of the connection
            return await self.request()
        message: Message = await self._unlimited(self.request(), ANSWER_S)
        self._is_whole = not message.get("more_body", False)
        return message

    async def _sent(self, message: Message) -> None:
        await self._unlimited(self.answer(message), PART_S)

    async def _unlimited(self, waited: Awaitable[T], then_s: float) -> T:
        self.limit.reschedule(None)
        try:
            return await waited
        finally:
            if not self.limit.expired():
                self.limit.reschedule(self.here.time() + then_s)

    async def _on_home(self, call: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self.here))
