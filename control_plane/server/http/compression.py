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
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Compression:
    """ASGI middleware that compresses what an application answers, whole or piece by piece."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not may_compress(headers := Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif accepts_gzip(", ".join(headers.getlist("accept-encoding"))):
            zipped = _Zipped(self.app, SMALL_BYTES, LEVEL, exclude_content_types=UNCOMPRESSED)
            await zipped(scope, receive, validated(send, headers.get("if-none-match", "")))
        else:
            plain = IdentityResponder(self.app, SMALL_BYTES, exclude_content_types=UNCOMPRESSED)
            await plain(scope, receive, validated(send))


class _Zipped(GZipResponder):
    """Leaves alone JSON with an ETag: that is its revision, and only a strong one fits into an If-Match."""

    async def send_with_compression(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            if "etag" in headers and headers.get("content-type") == JSON:
                self.exclude_content_types = (JSON,)
        await super().send_with_compression(message)


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


def validated(send: Send, kept: str = "") -> Send:
    """Return `send` with the headers that a cache compares right, also without a body.

    A strong ETag names the bytes of the file as it is, so that of compressed ones is weak, and so is that of
    an answer without a body to a cache that has it so, by the ETags of what it has `kept`.
    """

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers, is_kept = MutableHeaders(raw=message["headers"]), message["status"] == NOT_MODIFIED
            if is_kept:
                headers.add_vary_header("Accept-Encoding")
            weak = f"W/{headers.get('etag', '')}"
            is_weak = headers.get("content-encoding") == GZIP or (is_kept and weak in kept)
            if is_weak and weak.startswith('W/"'):
                headers["etag"] = weak
        await send(message)

    return told
