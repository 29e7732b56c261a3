"""Many open pages in one process: each a connection that listens, or that asks again and again."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

from testing.bench.machine import CLOCK

POLL_S: Final = 2.0
CHUNK: Final = 1 << 16
WORD: Final = re.compile(rb"change-\d+[.]")


@dataclass(slots=True)
class Heard:
    """When the readers first saw each word, by the machine's monotonic clock, and how much they read."""

    at_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bytes_read: int = 0

    def see(self, text: bytes, known: set[bytes]) -> None:
        """Note what a reader sees for the first time."""
        self.bytes_read += len(text)
        now_s = CLOCK.monotonic_s()
        for word in set(WORD.findall(text)) - known:
            known.add(word)
            self.at_s[word.decode()].append(now_s)


Reader = Callable[[int, Heard], Coroutine[None, None, None]]


async def listen(port: int, heard: Heard) -> None:
    """Hold one live page open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request("/live?topic=runs"))
    known: set[bytes] = set()
    rest = b""
    while chunk := await reader.read(CHUNK):
        text = rest + chunk
        heard.see(text, known)
        heard.bytes_read -= len(rest)
        rest = text[-20:]  # where a word may be cut in two


async def poll(port: int, heard: Heard) -> None:
    """Fetch the page again and again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    known: set[bytes] = set()
    while True:
        writer.write(_request("/runs"))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.findall(rb"content-length: (\d+)", head.lower())[0])
        heard.see(await reader.readexactly(length), known)
        await asyncio.sleep(POLL_S)


READERS: Final[dict[str, Reader]] = {"listen": listen, "poll": poll}


def read(port: int, way: str, count: int, there: Connection) -> None:
    """Read until told to end, and tell what was heard: the whole life of a process."""
    asyncio.run(_read(port, READERS[way], count, there))


async def _read(port: int, reader: Reader, count: int, there: Connection) -> None:
    heard = Heard()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for _ in range(count):
            tasks.append(group.create_task(reader(port, heard)))
            await asyncio.sleep(POLL_S / count)  # pages are not opened all at once
        there.send("open")
        await asyncio.to_thread(there.recv)
        for task in tasks:
            task.cancel()
    there.send((dict(heard.at_s), heard.bytes_read))


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
