"""Counts HTTP answers by status class; an answer that an error cut off counts as 5xx."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.server.metrics import ANSWERS


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """ASGI middleware that counts answers by status class."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                ANSWERS.labels(f"{message['status'] // 100}xx").inc()
            await send(message)

        try:
            await self.app(scope, receive, counted)
        except Exception:  # raised again: its own answer is made further out, where nobody counts
            ANSWERS.labels("5xx").inc()
            raise
