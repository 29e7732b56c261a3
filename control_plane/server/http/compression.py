"""Compresses answers for those who accept it: pages, JSON and static files, never a stream or a stored file.

Law: no answer to a request that another site may have led here is compressed, because the size of a page that
holds both a secret and what the request says would tell the secret (BREACH). A browser says where a request
comes from; one that brings a cookie and does not say it is answered as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipResponder, IdentityResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.access.auth import is_led_here

GZIP: Final = "gzip"
SMALL_BYTES: Final = 1024  # fits into one packet with its head, compressed or not
# A page of a run of 315 kB: 43 kB in 1.4 ms at level 1, 13 kB in 2.7 ms at 6, no less in twice the time at 9.
LEVEL: Final = 6
ITEMS_MAX: Final = 20  # of an Accept-Encoding; what follows is not read
UNCOMPRESSED: Final = (
    *DEFAULT_EXCLUDED_CONTENT_TYPES,
    *("application/octet-stream", "application/pdf", "application/vnd.apache.parquet", "application/x-tar"),
)
NOT_MODIFIED: Final = 304


@dataclass(frozen=True, slots=True)
class Compression:
    """ASGI middleware that compresses what an application answers, whole or piece by piece."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not may_compress(headers := Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif accepts_gzip(", ".join(headers.getlist("accept-encoding"))):
            zipped = GZipResponder(self.app, SMALL_BYTES, LEVEL, exclude_content_types=UNCOMPRESSED)
            await zipped(scope, receive, validated(send, is_read=True))
        else:
            plain = IdentityResponder(self.app, SMALL_BYTES, exclude_content_types=UNCOMPRESSED)
            await plain(scope, receive, validated(send, is_read=False))


def may_compress(headers: Mapping[str, str]) -> bool:
    """Say whether nobody but the reader can have asked for this, as far as the request tells; pure."""
    is_told = "cookie" not in headers or "sec-fetch-site" in headers
    return is_told and not is_led_here(headers)


def accepts_gzip(accepted: str) -> bool:
    """Say whether an Accept-Encoding takes gzip; one that names it with a weight of zero does not; pure."""
    weights: dict[str, bool] = {}
    for item in accepted.split(",", ITEMS_MAX)[:ITEMS_MAX]:
        name, *parameters = (part.strip().lower() for part in item.split(";", 2))
        weights[name] = not any(_is_zero(each) for each in parameters)
    return weights.get(GZIP, weights.get("*", False))


def _is_zero(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and weight.strip().rstrip("0") in ("", "0.")


def validated(send: Send, *, is_read: bool) -> Send:
    """Return `send` with the headers that a cache compares right, also without a body; `is_read`: by gzip.

    A strong ETag names the bytes of the file as it is, so that of compressed ones, or of one that a cache may
    have compressed, is weak.
    """

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers, is_kept = MutableHeaders(raw=message["headers"]), message["status"] == NOT_MODIFIED
            if is_kept:
                headers.add_vary_header("Accept-Encoding")
            if headers.get("content-encoding") == GZIP or (is_kept and is_read):
                tag = headers.get("etag", "")
                if tag.startswith('"'):
                    headers["etag"] = f"W/{tag}"
        await send(message)

    return told
