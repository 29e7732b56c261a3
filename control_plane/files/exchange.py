"""One request to the storage on a connection of its own: its body and its answer in pieces, none kept.

Law: whatever the storage sends, a piece has a bounded size and a head ends. The answer may begin before the
request is sent whole; so the two ways are independent of each other.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import httptools

from events.runtime.errors import Transient

CONNECT_S: Final = 3.0
PIECE_BYTES: Final = 256 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024
CLOSE_S: Final = 1.0
UNREACHABLE: Final = "storage_unreachable"
INFORMATIONAL: Final = range(100, 200)
PORTS: Final = {True: 443, False: 80}


@dataclass(slots=True)
class Head:
    """The head of an answer; the names of `headers` are lower case, the last of two values counts."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Exchange:
    """An open request. Every method raises `Transient` where the storage does not go on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _parser: httptools.HttpResponseParser = field(init=False)
    _head: Head = field(default_factory=Head)
    _has_head: bool = False
    _is_over: bool = False
    _head_bytes: int = 0
    _pieces: deque[bytes] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body."""
        try:
            self.writer.write(piece)
            await self.writer.drain()
        except OSError as error:
            raise _away(error) from error

    async def head(self) -> Head:
        """Return the head of the answer."""
        while not self._has_head:
            await self._read()
            if not self._has_head and self._head_bytes > HEAD_BYTES_MAX:
                raise Transient(UNREACHABLE, "the head of the storage's answer does not end")
        return self._head

    async def piece(self) -> bytes:
        """Return the next piece of the answer's body; empty at its end."""
        while not self._pieces:
            if self._is_over:
                return b""
            await self._read()
        return self._pieces.popleft()

    async def _read(self) -> None:
        try:
            data = await self.reader.read(PIECE_BYTES)
            if not data:
                raise Transient(UNREACHABLE, "object storage ended the connection")
            self._head_bytes += len(data)
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise _away(error) from error
        except (httptools.HttpParserError, OSError) as error:
            raise _away(error) from error

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, from the parser."""
        self._head.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take the end of a head, from the parser."""
        status = self._parser.get_status_code()
        if status in INFORMATIONAL:
            self._head = Head()
            return
        self._head.status = status
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Take a piece, from the parser."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Take the end of an answer, from the parser."""
        self._is_over = self._has_head


@asynccontextmanager
async def opened(
    origin: str, tls: ssl.SSLContext | None, method: str, target: str, headers: Mapping[str, str]
) -> AsyncIterator[Exchange]:
    """Send the head of a request, and end its connection afterwards. Raises `Transient`.

    `origin` is the scheme, host and port of the storage; names and values of `headers` are ASCII text.
    """
    parts = urlsplit(origin)
    port = parts.port or PORTS[parts.scheme == "https"]
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls, limit=PIECE_BYTES)
    except (OSError, TimeoutError) as error:
        raise _away(error) from error
    try:
        exchange = Exchange(reader, writer)
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        await exchange.send("\r\n".join([*lines, "connection: close", "", ""]).encode("ascii"))
        yield exchange
    finally:
        writer.transport.abort()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await writer.wait_closed()


def _away(error: Exception) -> Transient:
    return Transient(UNREACHABLE, f"object storage does not answer ({type(error).__name__})")
