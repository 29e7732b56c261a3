"""Headers of every answer: the store's time, no caching, no type guessing, no framing by other pages.

An answer may hold a key or the log of a run; only static files may be cached. A reader that compares moments
with its own clock has in `Date` the clock that they are of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from events.runtime.clock import Clock

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}
KEPT: Final = "/static/"


@dataclass(frozen=True, slots=True)
class AnswerHeaders:
    """ASGI middleware that adds the date, and the security headers that an answer lacks."""

    app: ASGIApp
    clock: Clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        may_keep = scope["path"].startswith(KEPT)

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Date", format_datetime(self.clock.now(), usegmt=True))
                for name, value in HEADERS.items():
                    if not (may_keep and name == "Cache-Control"):
                        headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, headed)
