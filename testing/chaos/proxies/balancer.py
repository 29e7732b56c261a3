"""The one address of the control planes: a balancer over HTTP/1.1 that loses and garbles on purpose.

Law: each request is forwarded whole or not at all, on a connection of its own; what goes wrong
afterwards is drawn from the seed and counted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, get_args

from testing.chaos.proxies.network import LOOPBACK, Network, reset

Mishap = Literal["dropped", "delayed", "duplicated", "eaten", "reset", "cut", "500", "503", "429"]
MISHAPS: Final[tuple[Mishap, ...]] = get_args(Mishap)

DELAY_S_MAX: Final = 3.0
ANSWER_S: Final = 20.0
REASONS: Final = {"500": "Internal Server Error", "503": "Service Unavailable", "429": "Too Many Requests"}


class Broken(Exception):
    """The other side went away in the middle, or never was there."""


@dataclass(slots=True)
class Balancer:
    """Forwards to whichever replica accepts; `rate` is the part of the requests that suffer."""

    network: Network
    chance: Random
    replicas: list[int]
    rate: float = 0.0
    requests: int = 0
    mishaps: Counter[Mishap] = field(default_factory=Counter)
    _deck: list[Mishap] = field(default_factory=list)
    _turn: itertools.count[int] = field(default_factory=itertools.count)

    def open(self, port: int) -> None:
        """Listen."""
        self.network.listen(port, self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            if request:
                self.requests += 1
                await self._answer(request, writer)
        except (Broken, OSError, asyncio.CancelledError):
            # Canceled: the network ends. The loop would report a task that says so.
            reset(writer)
        finally:
            writer.close()

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        mishap = self._deal() if self.chance.random() < self.rate else None
        match mishap:
            case "dropped":
                return
            case "500" | "503" | "429":
                writer.write(refusal(mishap))
            case "delayed":
                await asyncio.sleep(self.chance.random() * DELAY_S_MAX)
                writer.write(await self._forward(request))
            case "duplicated":
                first, second = await asyncio.gather(
                    self._forward(request), self._forward(request), return_exceptions=True
                )
                writer.write(_the_better(first, second))
            case "eaten":
                await self._forward(request)
            case "reset":
                await self._forward(request)
                reset(writer)
            case "cut":
                answer = await self._forward(request)
                writer.write(answer[: 1 + self.chance.randrange(len(answer))])
            case None:
                writer.write(await self._forward(request))
        await writer.drain()

    def _deal(self) -> Mishap:
        """Return the next mishap of a shuffled deck, so that each kind comes."""
        if not self._deck:
            self._deck = list(MISHAPS)
            self.chance.shuffle(self._deck)
        mishap = self._deck.pop()
        self.mishaps[mishap] += 1
        return mishap

    async def _forward(self, request: bytes) -> bytes:
        """Return the whole answer of the first replica that accepts the connection."""
        start = next(self._turn)
        for step in range(len(self.replicas)):
            port = self.replicas[(start + step) % len(self.replicas)]
            try:
                reader, writer = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                continue  # this one is down
            try:
                writer.write(request)
                await writer.drain()
                answer = await asyncio.wait_for(reader.read(-1), ANSWER_S)
            except TimeoutError as error:
                raise Broken("no answer in time") from error
            finally:
                reset(writer)
            if not answer:
                raise Broken("the replica died over the request")
            return answer
        return refusal("503")


def _the_better(first: bytes | BaseException, second: bytes | BaseException) -> bytes:
    for answer in (second, first):
        if isinstance(answer, bytes):
            return answer
    raise Broken("neither of the two was answered")


def refusal(status: Literal["500", "503", "429"]) -> bytes:
    """Return an answer that takes nothing and asks to come again."""
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    return f"{head}Connection: close\r\n\r\n".encode()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request and return it with `Connection: close`; nothing where the client says nothing.

    Raises `Broken` where it ends in the middle.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return b""
        raise Broken("the head ends in the middle") from error
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    headers = [line for line in lines if not line.lower().startswith((b"connection:", b"keep-alive:"))]
    values = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in headers)}
    try:
        if values.get(b"transfer-encoding", b"").lower() == b"chunked":
            body = await _chunks(reader)
        else:
            body = await reader.readexactly(int(values.get(b"content-length", b"0")))
    except asyncio.IncompleteReadError as error:
        raise Broken("the body ends in the middle") from error
    return b"\r\n".join([first, *headers, b"Connection: close", b"", b""]) + body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """Return a chunked body as it came."""
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if size == 0:
            return body
