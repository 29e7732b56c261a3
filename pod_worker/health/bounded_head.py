"""Asks a server that may lie: only the head of its answer is read, and all of it ends in time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx

ASK_S: Final = 15.0  # a busy machine is slow, and not away


@dataclass(frozen=True, slots=True)
class Head:
    """The status of an answer, and the type that its body claims to have."""

    status: int
    content_type: str


def ask(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    content: bytes | None = None,
    uses_proxy: bool,
    tls: ssl.SSLContext | None = None,
) -> Head:
    """Return the head of an answer; no redirect is followed, so that no key goes elsewhere.

    Raises `TimeoutError` after `ASK_S`, `httpx.HTTPError`, or `httpx.InvalidURL`.
    """

    async def asked() -> Head:
        verify = tls or url.startswith("https:")
        async with (
            asyncio.timeout(ASK_S),
            httpx.AsyncClient(verify=verify, trust_env=uses_proxy, timeout=ASK_S) as client,
            client.stream(method, url, headers=dict(headers), content=content) as response,
        ):
            return Head(response.status_code, response.headers.get("content-type", ""))

    return asyncio.run(asked())
