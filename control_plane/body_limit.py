"""A bound on every request's body, before anything reads it into memory.

Ingest has its own, lower bound and its own words for it; this one stands behind all routes.
FastAPI's `max_body_size` would answer in plain text and go on swallowing what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.bodies import WIRE_BYTES_MAX

BODY_BYTES_MAX: Final = 2 * WIRE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """Counts what arrives, whatever was declared."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bounded = _bounded(receive) if scope["type"] == "http" else receive
        await self.app(scope, bounded, send)


def _bounded(receive: Receive) -> Receive:
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > BODY_BYTES_MAX:
            raise HTTPException(
                413,
                f"the body is over the limit body_bytes = {BODY_BYTES_MAX:,}",
                # the rest is not wanted, and a kept connection would have to swallow it
                {"Connection": "close"},
            )
        return message

    return bounded
