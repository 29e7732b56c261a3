"""Bounds on the bodies of all requests, before any is read: size and time of each, size of all.

A body is read before its sender's key is checked. Ingest has its own, lower bounds and its own messages;
these bounds are behind all routes. FastAPI's `max_body_size` would answer in plain text and go on reading.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.server.http.bodies import WIRE_BYTES_MAX

BODY_BYTES_MAX: Final = 2 * WIRE_BYTES_MAX
BODY_S: Final = 30.0
HELD_BYTES_MAX: Final = 128 * WIRE_BYTES_MAX  # of all bodies that are not answered yet
RETRY_AFTER_S: Final = 2
PAIRS_MAX: Final = 1_000  # of a form; an empty one is counted by nobody else, and costs as much
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/"
# Their bodies are files, which they bound themselves after they know who sends them.
OF_FILES: Final = frozenset({("POST", "/api/archives")})
# the rest of a body is not wanted, and a kept connection would have to swallow it
LAST: Final = {"Connection": "close"}
# Read and dropped before such an answer: a connection that is closed over unread bytes is reset, and the
# client may never read why.
DRAINED_BYTES_MAX: Final = 16 * WIRE_BYTES_MAX
DRAINED_S: Final = 5.0


@dataclass(slots=True)
class BodyLimit:
    """ASGI middleware that counts the received bytes, whatever length was declared."""

    app: ASGIApp
    body_s: float = BODY_S
    held_bytes_max: int = HELD_BYTES_MAX
    _held_bytes: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if (scope.get("method"), scope.get("path")) in OF_FILES:
            await self._file(scope, receive, send)
            return
        taken = 0
        is_whole = False
        media = _media_of(scope)
        pairs = 1
        until_s = asyncio.get_running_loop().time() + self.body_s

        async def bounded() -> Message:
            nonlocal taken, is_whole, pairs
            if is_whole:  # what comes now is the end of the connection
                return await receive()
            message = await _in_time(receive, until_s, self.body_s)
            size = len(message.get("body", b""))
            taken += size
            self._held_bytes += size
            is_whole = not message.get("more_body", False)
            # No page of ours sends any, and each of its parts has a head.
            if media.startswith(MULTIPART) and (size or not is_whole):
                raise HTTPException(415, f"{media[:60]} is not accepted: send a form as {URLENCODED}", LAST)
            if taken > BODY_BYTES_MAX:
                raise HTTPException(413, f"the body is over the limit body_bytes = {BODY_BYTES_MAX:,}", LAST)
            if media == URLENCODED:
                pairs += message.get("body", b"").count(b"&")
                if pairs > PAIRS_MAX:
                    raise HTTPException(413, f"the form has over {PAIRS_MAX:,} fields", LAST)
            if self._held_bytes > self.held_bytes_max:
                waits = {"Retry-After": str(RETRY_AFTER_S), **LAST}
                raise HTTPException(503, "too many bodies are open here; send it again", waits)
            return message

        async def last(message: Message) -> None:
            if not is_whole and message["type"] == "http.response.start" and _is_last(message):
                await drain(receive)
            await send(message)

        try:
            await self.app(scope, bounded, last)
        finally:
            self._held_bytes -= taken

    async def _file(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a route whose body is a file; where it is answered before its end, the rest is not wanted."""
        is_whole = False

        async def noted() -> Message:
            nonlocal is_whole
            message = await receive()
            is_whole = not message.get("more_body", False)
            return message

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_whole:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
                await drain(noted)
            await send(message)

        await self.app(scope, noted, last)


def _is_last(answer: Message) -> bool:
    return (b"connection", b"close") in answer["headers"]


async def drain(receive: Receive) -> None:
    """Read the rest of a body, as far as it is bounded, and drop it."""
    left = DRAINED_BYTES_MAX
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAINED_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _media_of(scope: Scope) -> str:
    """Return the declared type of a body without its parameters, or the empty text."""
    declared = next((value for name, value in scope.get("headers", ()) if name == b"content-type"), b"")
    return bytes(declared).partition(b";")[0].strip().lower().decode("latin-1")


async def _in_time(receive: Receive, until_s: float, body_s: float) -> Message:
    try:
        async with asyncio.timeout_at(until_s):
            return await receive()
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {body_s:g} s", LAST) from None
