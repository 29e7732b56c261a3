"""Fetching a listing of models from servers that lie, hang, redirect, or stand where nobody may ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from control_plane.runs.models.fetching import LISTING_BYTES_MAX, Fetcher
from events.runtime.egress_policy import read_egress_policy
from events.runtime.errors import Rejected, Transient

HERE = Fetcher(read_egress_policy("127.0.0.1"))


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@asynccontextmanager
async def server(answer: bytes, asked: list[bytes], *, hangs: bool = False) -> AsyncIterator[str]:
    """Answer each request in these bytes, and end; or hang after them."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if hangs:
            await ended.wait()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1/models"
        ended.set()


def response(head: str, body: bytes = b"{}") -> bytes:
    return f"HTTP/1.1 {head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def test_a_listing_is_asked_for_without_a_key() -> None:
    asked: list[bytes] = []
    async with server(response("200 OK", b'{"data": []}'), asked) as url:
        assert await HERE.fetch(url) == b'{"data": []}'
    (head,) = asked
    assert head.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"authorization" not in head.lower()
    assert b"cookie" not in head.lower()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (response("301 Moved\r\nlocation: http://127.0.0.1:1/"), Rejected, "the server answers 301"),
        (response("401 Who"), Rejected, "401; a listing that needs a key cannot be read"),
        (response("404 No"), Rejected, "the server answers 404"),
        (response("429 Slow"), Transient, "the server answers 429"),
        (response("503 Busy"), Transient, "the server answers 503"),
        (response("200 OK\r\ncontent-encoding: gzip"), Rejected, "is compressed"),
        (response("200 OK", bytes(LISTING_BYTES_MAX + 1)), Rejected, "has more than 4194304 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", Transient, "cannot be reached"),
        (b"SSH-2.0-OpenSSH\r\n", Transient, "cannot be reached"),
        (b"", Transient, "cannot be reached"),
    ],
)
async def test_what_is_no_listing_is_said(answer: bytes, error: type[Exception], words: str) -> None:
    asked: list[bytes] = []
    async with server(answer, asked) as url:
        with pytest.raises(error, match=words):
            await HERE.fetch(url)
    assert len(asked) == 1, "no redirect is followed, and nothing is tried again"


async def test_a_server_that_hangs_is_left() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n{", [], hangs=True) as url:
        with pytest.raises(Transient, match="was not there within"):
            await Fetcher(HERE.egress, time_max_s=0.3).fetch(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://127.0.0.1:1/",
        "http://169.254.169.254/latest",
        "http://[::ffff:10.0.0.1]/",
    ],
)
async def test_nobody_beside_the_public_internet_is_asked(url: str) -> None:
    with pytest.raises(Rejected) as caught:
        await Fetcher().fetch(url)
    assert caught.value.code == "address_refused"
    assert "PODFLEET_PRIVATE_HOSTS" in caught.value.message
