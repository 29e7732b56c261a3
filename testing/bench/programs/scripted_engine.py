"""`python -m testing.bench.programs.scripted_engine`: an engine that does what the name of its model says.

The name of the model in a request is the script, `NAME` or `NAME=NUMBER`: see `SCRIPTS`. `GET /log` tells of
the requests so far, with moments of this machine's monotonic clock, and forgets them. It prints its port, and
ends with its standard input.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

LENGTH: Final = b"content-length:"
BESIDE: Final = 7  # tokens of a prompt that are none of its words
WORD_TOKENS: Final = 1.5
FOR_EVER_S: Final = 3_600.0
SSE: Final = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
OK: Final = b"HTTP/1.1 200 OK\r\n"


@dataclass(slots=True)
class Asked:
    """One request: what it said, and its moments here."""

    number: int
    path: str
    headers: str
    body: dict[str, Any]
    received_s: float
    at_once: int
    first_s: float | None = None
    reader: asyncio.StreamReader = field(repr=False, kw_only=True)
    writer: asyncio.StreamWriter = field(repr=False, kw_only=True)

    @property
    def script(self) -> tuple[str, float]:
        """The name of the script and its number."""
        name, _, number = str(self.body.get("model", "plain")).partition("=")
        return name, float(number or 0)

    @property
    def tokens(self) -> int:
        """How many tokens the answer is to have."""
        return int(self.body.get("max_tokens") or self.body.get("max_completion_tokens") or 0)

    @property
    def prompt(self) -> str:
        """The text that was sent."""
        messages = self.body.get("messages") or [{"content": self.body.get("input", "")}]
        return str(messages[-1]["content"])

    @property
    def usage(self) -> dict[str, int]:
        """What is counted of it."""
        words = len(self.prompt.split())
        return {"prompt_tokens": BESIDE + round(WORD_TOKENS * words), "completion_tokens": self.tokens}

    def told(self) -> dict[str, Any]:
        """Return what the log says of it."""
        told = {name: getattr(self, name) for name in ("number", "path", "headers", "received_s", "first_s")}
        return {**told, "at_once": self.at_once, "body": self.body, "prompt": self.prompt}

    async def rest(self, seconds: float = FOR_EVER_S) -> None:
        """Wait so long, or until the client is gone."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.reader.read(1), seconds)
            raise ConnectionResetError

    def piece(self, data: bytes) -> None:
        """Send one piece of a chunked answer."""
        if self.writer.is_closing():
            raise ConnectionResetError
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    def say(self, **fields: Any) -> None:
        """Send one event."""
        self.piece(b"data: " + json.dumps({"id": f"r{self.number}", **fields}).encode() + b"\n\n")

    def token(self) -> None:
        """Send one token."""
        self.first_s = self.first_s or time.monotonic()
        self.say(choices=[{"index": 0, "delta": {"content": " word"}, "finish_reason": None}])

    def finish(self) -> None:
        """Send why it ends."""
        self.say(choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])

    def end(self, usage: object = None) -> None:
        """Send the end, and what was counted."""
        if usage is not None:
            self.say(choices=[], usage=usage)
        self.piece(b"data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")


async def plain(asked: Asked, _: float) -> None:
    """Answer at once."""
    for _ in range(asked.tokens):
        asked.token()
    asked.finish()
    asked.end(asked.usage)


async def paced(asked: Asked, every_s: float) -> None:
    """Send a token every so many seconds."""
    for number in range(1, asked.tokens + 1):
        await asyncio.sleep(asked.received_s + number * every_s - time.monotonic())
        asked.token()
    asked.finish()
    asked.end(asked.usage)


async def late(asked: Asked, after_s: float) -> None:
    """Answer after so many seconds."""
    await asked.rest(after_s)
    await plain(asked, 0)


SLOT: Final = asyncio.Lock()


async def slot(asked: Asked, seconds: float) -> None:
    """Answer one request at a time, each in so many seconds."""
    async with SLOT:
        await late(asked, seconds)


async def uncounted(asked: Asked, _: float) -> None:
    """Count nothing."""
    for _ in range(asked.tokens):
        asked.token()
    asked.finish()
    asked.end()


async def lying(asked: Asked, _: float) -> None:
    """Count more tokens than were asked for."""
    asked.token()
    asked.end({"prompt_tokens": 10, "completion_tokens": 1_000_000})


async def boasting(asked: Asked, _: float) -> None:
    """Count a thousand times what it was sent."""
    asked.token()
    asked.end({"prompt_tokens": 1_000 * len(asked.prompt), "completion_tokens": 1})


async def negative(asked: Asked, _: float) -> None:
    """Count less than nothing."""
    asked.token()
    asked.end({"prompt_tokens": -1, "completion_tokens": -1})


async def cut(asked: Asked, after: float) -> None:
    """End the connection after so many tokens."""
    for _ in range(int(after)):
        asked.token()
    raise ConnectionResetError


async def unfinished(asked: Asked, _: float) -> None:
    """End the answer in good order, without its end."""
    asked.token()
    asked.writer.write(b"0\r\n\r\n")


async def unmarked(asked: Asked, _: float) -> None:
    """Name a reason to end, and leave the mark of the end out."""
    asked.token()
    asked.finish()
    asked.writer.write(b"0\r\n\r\n")


async def held(asked: Asked, _: float) -> None:
    """Mark the end, and keep the answer open."""
    asked.token()
    asked.say(choices=[], usage=asked.usage | {"completion_tokens": 1})
    asked.piece(b"data: [DONE]\n\n")
    await asked.rest()


async def empty(asked: Asked, _: float) -> None:
    """Answer with no token."""
    asked.finish()
    asked.end({"prompt_tokens": 3, "completion_tokens": 0})


async def failing(asked: Asked, _: float) -> None:
    """Say behind the status that it failed."""
    asked.token()
    asked.say(error={"message": "the cache is full", "code": 500})
    asked.end()


async def garbage(asked: Asked, _: float) -> None:
    """Send what is no JSON."""
    asked.piece(b"data: {nothing\n\n")
    await asked.rest()


async def page(asked: Asked, _: float) -> None:
    """Send a page for people."""
    asked.piece(b"<html>502 Bad Gateway</html>\n")
    asked.writer.write(b"0\r\n\r\n")


async def odd(asked: Asked, _: float) -> None:
    """Divide characters among pieces, as halves and as bytes, and leave half a character alone."""
    for half in ("\ud83d", "\ude00", "\ud800", "!"):
        asked.say(choices=[{"index": 0, "delta": {"content": half}}])
    for part in (b"\xf0\x9f", b"\x98\x80"):
        asked.piece(b'data: {"choices":[{"index":0,"delta":{"content":"' + part + b'"}}]}\n\n')
    asked.finish()
    asked.end(asked.usage)


async def behind(asked: Asked, _: float) -> None:
    """Say more behind the end."""
    asked.token()
    asked.finish()
    asked.piece(b'data: [DONE]\n\ndata: {"choices":[{"index":0,"delta":{"content":" more"}}]}\n\n')
    await asked.rest()


async def timed(asked: Asked, prompt_ms: float) -> None:
    """Say its own times, as llama.cpp does."""
    asked.token()
    asked.token()
    end = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    asked.say(choices=end, timings={"prompt_ms": prompt_ms, "predicted_per_second": 50.0, "cache_n": 3})
    asked.end(asked.usage | {"completion_tokens": 2})


async def silent(asked: Asked, _: float) -> None:
    """Never answer."""
    await asked.rest()


async def endless(asked: Asked, _: float) -> None:
    """Send tokens for ever, as fast as they are read."""
    while True:
        for _ in range(100):
            asked.token()
        await asked.writer.drain()


async def giant(asked: Asked, _: float) -> None:
    """Send a line without end."""
    asked.piece(b"data: ")
    while True:
        asked.piece(b"x" * 65_536)
        await asked.writer.drain()


async def slow(asked: Asked, every_s: float) -> None:
    """Send a byte now and then, and never a line."""
    while True:
        asked.piece(b":")
        await asked.rest(every_s)


Script = Callable[[Asked, float], Awaitable[None]]
SCRIPTS: Final[dict[str, Script]] = {
    each.__name__: each
    for each in (
        *(plain, paced, late, slot, uncounted, lying, boasting, negative, cut, unfinished, unmarked, held),
        *(empty, failing, garbage, page, silent, endless, giant, slow, odd, behind, timed),
    )
}


class Engine:
    """Serves connections, and keeps the log."""

    def __init__(self) -> None:
        self.log: list[Asked] = []
        self.at_once = 0
        self.number = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it is closed."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            async with aclosing(self._requests(reader, writer)) as requests:
                async for asked in requests:
                    await self._answer(asked)
        writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> AsyncGenerator[Asked, None]:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next((int(each.split(b":")[1]) for each in lines if each.startswith(LENGTH)), 0)
            body = await reader.readexactly(length)
            if head.startswith(b"GET"):
                log = json.dumps([each.told() for each in self.log]).encode()
                self.log.clear()
                writer.write(OK + b"content-length: %d\r\n\r\n" % len(log) + log)
                continue
            self.number += 1
            path, headers = head.split(b" ")[1].decode(), head.decode()
            received_s, at_once = time.monotonic(), self.at_once + 1
            yield Asked(
                self.number,
                path,
                headers,
                json.loads(body),
                received_s,
                at_once,
                reader=reader,
                writer=writer,
            )

    async def _answer(self, asked: Asked) -> None:
        self.log.append(asked)
        self.at_once += 1
        name, number = asked.script
        try:
            if name == "status":
                signed = next((each for each in asked.headers.splitlines() if "Bearer" in each), "")
                said = json.dumps({"error": {"message": f"no: {int(number)}", "to": signed}}).encode()
                words = (int(number), len(said), said)
                asked.writer.write(
                    b"HTTP/1.1 %d No\r\nretry-after: 0\r\nlocation: /v1/elsewhere\r\n"
                    b"content-length: %d\r\n\r\n%s" % words
                )
            elif name == "nonsense":
                asked.writer.write(b"\0\1\2 nothing of HTTP\r\n\r\n" * 3)
            elif name == "headed":
                asked.writer.write(OK + b"x-large: " + b"x" * 1_000_000 + b"\r\n\r\n")
            elif name == "packed":
                body = gzip.compress(b'data: {"choices":[{"delta":{"content":"word"}}]}\n\ndata: [DONE]\n\n')
                head = b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
                asked.writer.write(OK + head + body)
            elif asked.path.endswith("/embeddings"):
                size = {"empty": 0, "giant": 2_000_000}.get(name, 3)
                vector = b",".join([b"0.5"] * size)
                usage = json.dumps(None if name == "uncounted" else asked.usage).encode()
                body = b'{"data":[{"embedding":[%b]}],"usage":%b}' % (vector, usage)
                asked.writer.write(OK + b"content-length: %d\r\n\r\n%s" % (len(body), body))
            else:
                asked.writer.write(OK + SSE)
                await SCRIPTS[name](asked, number)
        finally:
            self.at_once -= 1


async def main() -> None:
    """Serve until nobody listens any more."""
    server = await asyncio.start_server(Engine().serve, "127.0.0.1", 0, backlog=1_024, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
