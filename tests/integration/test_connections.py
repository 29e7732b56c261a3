"""Connections that cost a stranger nothing: each limit ends one, and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from control_plane.server.http.connection import Connection, Limits, connection_class

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 32 << 20  # more than the kernel buffers
Conversation = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Any]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer `/` at once, `/large` with much, `/wait` when the client is gone."""
    size = LARGE if scope["path"] == "/large" else 2
    while scope["path"] == "/wait" and (await receive())["type"] != "http.disconnect":
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
    await send({"type": "http.response.body", "body": b"x" * size})


@asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[tuple[Connect, set[Any], type[Connection]]]:
    """Serve with these limits; give a way to connect, the open connections, and their class."""
    kind = type(
        "Tried",
        (connection_class(),),
        {"limits": Limits(**limits), "waiting": {}, "sending": {}, "unread": {}},
    )
    config = uvicorn.Config(
        answer, http=kind, ws="none", lifespan="off", log_config=None, timeout_keep_alive=60
    )
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: kind(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    port = listener.sockets[0].getsockname()[1]
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> Conversation:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        return reader, writer

    try:
        yield connect, state.connections, kind
    finally:
        for writer in opened:
            writer.transport.abort()
        listener.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until the connection ends."""
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""


async def is_answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(ASK)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    return head.startswith(b"HTTP/1.1 200") and await reader.readexactly(2) == b"xx"


async def test_a_head_that_is_never_whole_ends_the_connection_and_no_other() -> None:
    async with served() as (connect, connections, kind), asyncio.timeout(60):
        honest, waiting, behind = await connect(), await connect(), await connect()
        waiting[1].write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        while len(connections) < 3 or not any(each.cycle for each in connections):
            await asyncio.sleep(0.01)
        assert await is_answered(*honest)
        kind.limits = Limits(head_s=0.3)  # for those alone that do not keep to it
        behind[1].write(ASK + b"GET")
        slow = {ASK + b"GET": behind}
        for begun in (b"", b"\r\n", b"GET / HT", ASK[:-2]):
            slow[begun] = await connect()
            slow[begun][1].write(begun)
        for begun, (reader, _) in slow.items():
            assert (await ended(reader)).startswith(b"HTTP/1.1 200") == (ASK in begun), begun
        assert await is_answered(*honest)  # an idle one may stay for as long as uvicorn keeps it
        assert len(connections) == 2
        assert len(kind.waiting) == 1


async def test_a_head_without_end_is_not_kept() -> None:
    async with served(head_bytes=10_000, head_s=60.0) as (connect, _, _kind):
        for begun in (b"GET /", b"GET / HTTP/1.1\r\nX: "):
            reader, writer = await connect()
            writer.write(begun)
            for _ in range(4):
                writer.write(b"x" * 4_000)
                await asyncio.sleep(0.02)
            assert await ended(reader) == b""
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
        assert await reader.readuntil(b"\r\n\r\n")  # what is no head is not counted


async def test_requests_behind_one_another_are_few(caplog: pytest.LogCaptureFixture) -> None:
    async with served(queued=2) as (connect, _, _kind):
        reader, writer = await connect()
        writer.write(ASK * 3)
        for _ in range(3):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readexactly(2)
        writer.write(ASK * 1_000)
        told = await ended(reader)
        assert b"HTTP/1.1 400" in told
        assert caplog.messages == []  # a stranger writes no log
        assert told.count(b"HTTP/1.1 200") <= 3


async def test_an_answer_that_nobody_reads_ends_the_connection() -> None:
    async with served(stall_s=0.3) as (connect, connections, _):
        reader, writer = await connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined] # nothing public stops reading
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            while not connections:
                await asyncio.sleep(0.01)
            while connections:
                await asyncio.sleep(0.01)
    async with served() as (connect, _, _kind):
        other, asking = await connect()
        asking.write(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert len(await ended(other)) > LARGE


async def test_where_too_much_is_unread_those_that_read_nothing_for_longest_end() -> None:
    async with served(unread_bytes=2 * LARGE) as (connect, _, kind):
        slow = [await connect() for _ in range(5)]
        for reader, writer in slow:
            reader._transport.pause_reading()
            writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await is_answered(*await connect())  # one after the other
            assert sum(each.transport.get_write_buffer_size() for each in kind.unread) <= 2 * LARGE
        read = []
        for reader, _ in slow:
            reader._transport.resume_reading()
            try:
                await reader.readuntil(b"\r\n\r\n")
                read.append(len(await asyncio.wait_for(reader.readexactly(LARGE), 60)))
            except (asyncio.IncompleteReadError, ConnectionResetError):
                read.append(0)
        assert read == [0, 0, 0, LARGE, LARGE]


async def test_where_there_are_too_many_the_longest_without_a_request_makes_room() -> None:
    async with served(connections=3) as (connect, connections, _):
        busy = await connect()
        busy[1].write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        first = await connect()
        assert await is_answered(*first)
        second, third = await connect(), await connect()
        assert await ended(first[0]) == b""
        assert await is_answered(*second)
        assert await is_answered(*third)
        for each in (second, third):
            each[1].write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            while any(each.cycle is None or each.cycle.response_complete for each in connections):
                await asyncio.sleep(0.01)
        late, _ = await connect()
        assert await ended(late) == b""
        assert len(connections) == 3


async def test_where_all_are_busy_the_longest_with_half_a_body_makes_room() -> None:
    async with served(connections=3) as (connect, _, kind):
        whole, slow, slower = await connect(), await connect(), await connect()
        whole[1].write(b"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
        async with asyncio.timeout(60):
            for number, each in enumerate((slower, slow), 1):
                each[1].write(b"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
                while len(kind.sending) < number:
                    await asyncio.sleep(0.01)
            while kind.waiting:
                await asyncio.sleep(0.01)
        late = await connect()
        assert await is_answered(*late)
        assert await ended(slower[0]) == b""
        assert len(kind.sending) == 1
