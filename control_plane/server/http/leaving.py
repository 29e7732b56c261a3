"""Answers the requests that a stopping server cuts off: 503, to be asked elsewhere or again.

The server cancels what has no answer yet when its grace is over; for anything else it cancels nothing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

RETRY_AFTER_S: Final = 1
BODY: Final = json.dumps(
    {"type": "about:blank", "status": 503, "code": "leaving", "detail": "this server stops; ask again"}
).encode()
HEADERS: Final = [
    (b"content-type", b"application/problem+json"),
    (b"content-length", str(len(BODY)).encode()),
    (b"retry-after", str(RETRY_AFTER_S).encode()),
    (b"connection", b"close"),
]


@dataclass(frozen=True, slots=True)
class Leaving:
    """ASGI middleware that answers a canceled request."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except asyncio.CancelledError:
            if has_begun:
                raise
            await send({"type": "http.response.start", "status": 503, "headers": HEADERS})
            await send({"type": "http.response.body", "body": BODY})
