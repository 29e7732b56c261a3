"""Sends one request to an engine, and reads its answer within bounds of time and bytes.

Law: a failure is a name and never raised; nothing is sent twice, no redirect is followed,
no proxy is asked, and nothing is decompressed.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Final

import aiohttp
import msgspec

from events.runtime.clock import Clock
from stages.engines.load.measurement import Answered
from stages.engines.load.plan import Load, Target
from stages.engines.load.stream import (
    EMBEDDING_BYTES_MAX,
    BadAnswer,
    Failure,
    Reading,
    Usage,
    read_embeddings,
)

SAID_BYTES_MAX: Final = 2_000
FILES: Final = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True)
class Asking:
    """One request: its prompt, how many tokens that was to have, and how many the answer is to have."""

    prompt: str
    tokens_in: int
    tokens_out: int


@dataclass(slots=True)
class Got:
    """What is known of an answer so far; it is on its way once its body is written."""

    sent_s: float
    sent_bytes: int = 0
    failure: str = ""
    said: str = ""
    usage: Usage = field(default_factory=Usage)

    def is_beyond(self, tokens: int | None) -> bool:
        """Return whether a prompt cannot have so many tokens: more than what was sent has bytes.

        No token is shorter than a letter; what a template adds has room in what is sent beside the prompt.
        """
        return (tokens or 0) > self.sent_bytes


async def exchange(
    session: aiohttp.ClientSession,
    request: tuple[str, bytes],
    read: Callable[[aiohttp.ClientResponse, Got], Awaitable[None]],
    limit_s: float,
    got: Got,
) -> Got:
    """Send a body to an address, and let `read` have an answer with the status 200; no failure is raised."""
    url, body = request
    got.sent_bytes = len(body)
    try:
        async with (
            asyncio.timeout(limit_s),
            session.post(url, data=body, allow_redirects=False, trace_request_ctx=got) as response,
        ):
            if response.status == 200:
                await read(response, got)
            else:
                got.failure = str(response.status)
                got.said = (await response.content.read(SAID_BYTES_MAX)).decode(errors="replace")
    except BadAnswer as error:
        got.failure, got.said = got.failure or error.failure, error.said
    except TimeoutError:
        got.failure = got.failure or "timeout"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        got.failure, got.said = got.failure or _failure(error), got.said or str(error)
    return got


@dataclass(frozen=True, slots=True)
class Client:
    """Asks one server."""

    session: aiohttp.ClientSession
    target: Target
    load: Load
    clock: Clock

    async def ask(self, asking: Asking, until_s: float, due_s: float | None = None) -> Answered:
        """Return what came of a request; the measurement is over at `until_s`.

        It is timed from when it was due; one that was due at no moment, from when it is on its way.
        """
        begun_s = self.clock.monotonic_s()
        end_s = min(begun_s + self.load.request_s, until_s)
        reading = Reading(asking.tokens_out)

        async def read(response: aiohttp.ClientResponse, got: Got) -> None:
            if asking.tokens_out:
                await self._stream(response, reading)
            else:
                got.usage = read_embeddings(await _whole(response))

        got = await exchange(self.session, self._request(asking), read, end_s - begun_s, Got(begun_s))
        if got.failure == "timeout" and end_s >= until_s:
            got.failure = "unfinished"
        wanted_s = begun_s if due_s is None else due_s
        timed_s = got.sent_s if due_s is None else due_s
        return self._answered(asking, reading, got, (wanted_s, timed_s))

    def _request(self, asking: Asking) -> tuple[str, bytes]:
        """Return the address and the body of a request."""
        target, base_url = self.target, self.target.base_url.rstrip("/")
        if not asking.tokens_out:
            body = {"model": target.model, "input": asking.prompt}
            return f"{base_url}/embeddings", msgspec.json.encode(body)
        chat = chat_body(target.model, asking.prompt, asking.tokens_out, target.takes_ignore_eos)
        return f"{base_url}/chat/completions", msgspec.json.encode(chat)

    async def _stream(self, response: aiohttp.ClientResponse, reading: Reading) -> None:
        async for data in response.content.iter_any():
            reading.feed(data, self.clock.monotonic_s())
            if reading.done_s is not None:
                break
        reading.end(self.clock.monotonic_s())

    def _answered(self, asking: Asking, reading: Reading, got: Got, moments: tuple[float, float]) -> Answered:
        usage = reading.usage if asking.tokens_out else got.usage
        counted = reading.counted if asking.tokens_out else 0
        is_beyond = got.is_beyond(usage.prompt_tokens)
        is_counted = usage.prompt_tokens is not None and counted is not None and not is_beyond
        return Answered(
            due_s=moments[0],
            sent_s=got.sent_s,
            timed_s=moments[1],
            first_s=reading.first_s,
            ended_s=reading.done_s or self.clock.monotonic_s(),
            gaps_s=tuple(reading.gaps_s),
            wanted_in=asking.tokens_in,
            tokens_in=usage.prompt_tokens or asking.tokens_in if is_counted else asking.tokens_in,
            tokens_out=counted or 0 if is_counted else reading.chunks,
            is_counted=is_counted,
            is_beyond=is_beyond,
            failure=got.failure,
            said=got.said.replace(self.target.key, "***") if self.target.key else got.said,
            id=reading.id,
        )


def chat_body(model: str, prompt: str, tokens_max: int, is_eos_ignored: bool) -> dict[str, object]:
    """Return what asks for an answer of the API of OpenAI, in pieces and with its usage."""
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens_max,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return body | {"ignore_eos": True} if is_eos_ignored else body


@asynccontextmanager
async def opened(target: Target, load: Load, clock: Clock) -> AsyncIterator[Client]:
    """Open a client, and close it."""
    async with opened_session(clock, target.key) as session:
        yield Client(session, target, load, clock)


@asynccontextmanager
async def opened_session(clock: Clock, key: str = "") -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session of which each request has a connection of its own, and notes when it is on its way.

    A server may end a connection behind an answer without a word (llama.cpp does after a stream): the next
    request on it would fail, and count as a failure of the server.
    """
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    traced = aiohttp.TraceConfig()

    async def note(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.sent_s = clock.monotonic_s()

    traced.on_request_chunk_sent.append(note)
    async with aiohttp.ClientSession(
        trace_configs=[traced],
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        headers=headers,
    ) as session:
        yield session


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > EMBEDDING_BYTES_MAX:
            raise BadAnswer("too_large")
    return bytes(body)


def _failure(error: Exception) -> Failure:
    """Return the name of what went wrong below the answer."""
    if isinstance(error, OSError) and error.errno in FILES:
        return "too_many_files"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "refused" if isinstance(error.os_error, ConnectionRefusedError) else "no_connection"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | OSError):
        return "cut_off"
    return "malformed"
