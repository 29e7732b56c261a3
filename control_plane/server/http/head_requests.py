"""HEAD for every route that has GET: the same answer, without its body.

Monitors, caches and link checkers send HEAD. The server drops the body by itself, and an answer without
end, such as a stream, ends with its headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADED: Final = "podfleet.headed"  # in the scope of a request that was a HEAD


@dataclass(frozen=True, slots=True)
class HeadRequests:
    """Asks the application for GET where somebody asked for HEAD."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                # From here on the server says that nobody listens, which ends what streams.
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET", HEADED: True}, receive, headed)
