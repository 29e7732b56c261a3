"""Bounds on the heads of all requests, before any parser of a library reads them.

Law: input without a key is parsed in linear time. FastAPI parses every cookie of every request, with a
parser that is quadratic in older Pythons (CVE-2024-7592: 64 KB took 16 s), and forms have a Content-Type
that is parsed in quadratic time. So only our own cookies are passed on, and no header is long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from control_plane.access.cookies import COOKIE, COOKIE_BYTES_MAX, LOGIN_COOKIE, login_in, secret_in

HEADERS_MAX: Final = 200
VALUE_BYTES_MAX: Final = 8 * 1024
# What some library parses by more than a search, and nobody honest writes at length.
SHORT: Final = {b"content-type": 256, b"range": 256, b"if-range": 256, b"if-modified-since": 64}


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """Refuses a head that is too long with 431, and leaves of the cookies only our own."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if objection := _objection(headers):
            words = {"type": "about:blank", "status": 431, "code": "head_too_long", "detail": objection}
            answer = JSONResponse(words, 431, media_type="application/problem+json")
            await answer(scope, receive, send)
            return
        sent = [value.decode("latin-1") for name, value in headers if name == b"cookie"]
        found = {COOKIE: [secret_in(each) for each in sent], LOGIN_COOKIE: [login_in(each) for each in sent]}
        kept = [header for header in headers if header[0] != b"cookie"]
        ours = ((name, next(filter(None, values), None)) for name, values in found.items())
        if pairs := [f"{name}={value}" for name, value in ours if value is not None]:
            kept.append((b"cookie", "; ".join(pairs).encode()))
        await self.app({**scope, "headers": kept}, receive, send)


def _objection(headers: list[tuple[bytes, bytes]]) -> str | None:
    if len(headers) > HEADERS_MAX:
        return f"the request has {len(headers):,} headers; the limit is {HEADERS_MAX}"
    for name, value in headers:
        most = COOKIE_BYTES_MAX if name == b"cookie" else SHORT.get(name, VALUE_BYTES_MAX)
        if len(value) > most:
            shown = name[:40].decode("latin-1")
            return f"the header {shown} has {len(value):,} bytes; the limit is {most:,}"
    return None
