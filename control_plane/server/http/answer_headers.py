"""Security headers of every answer: no caching, no type guessing, no framing by other pages.

An answer may hold a key or the log of a run; only static files may be cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}
KEPT: Final = "/static/"


@dataclass(frozen=True, slots=True)
class AnswerHeaders:
    """ASGI middleware that adds the security headers that an answer lacks."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        may_keep = scope["path"].startswith(KEPT)

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if not (may_keep and name == "Cache-Control"):
                        headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, headed)
