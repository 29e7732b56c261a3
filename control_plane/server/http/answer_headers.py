"""Headers that every answer has: nobody keeps it, no browser guesses its type, no other page holds ours.

What is sent may be a key or the log of a run; static files alone may be kept.
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
    """Adds what an answer does not say itself."""

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
