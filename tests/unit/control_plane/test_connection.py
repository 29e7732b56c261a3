"""Each guard of a connection by itself, on a wire that only records."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import pytest
import uvicorn

from control_plane.server.http import connection
from control_plane.server.http.connection import (
    CONNECTIONS_MAX,
    CONNECTIONS_MIN,
    FILES_KEPT,
    Connection,
    Limits,
    connection_class,
)

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"


class Wire(asyncio.Transport):
    """Records what is done with it; `buffered` is what nobody has read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.buffered = 0
        self.is_closed = self.is_aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Served:
    """Connections of one server whose application answers when it is `free`."""

    def __init__(self, **limits: Any) -> None:
        fields = {"limits": Limits(**limits), "waiting": {}, "sending": {}, "unread": {}}
        self.kind: Any = type("Tried", (Connection,), fields)
        self.free = asyncio.Event()
        self.config = uvicorn.Config(
            self.answer, interface="asgi3", ws="none", lifespan="off", log_config=None
        )
        self.config.load()
        self.state = uvicorn.server.ServerState()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.free.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"xx"})

    def connect(self) -> tuple[Any, Wire]:
        made, wire = self.kind(config=self.config, server_state=self.state, app_state={}), Wire()
        made.connection_made(wire)
        return made, wire

    async def settle(self) -> None:
        """Let everything answer that can."""
        self.free.set()
        for _ in range(20):
            await asyncio.sleep(0)


async def test_two_that_come_at_once_end_two_others() -> None:
    served = Served(connections=2)
    wires = [served.connect()[1] for _ in range(4)]
    assert [wire.is_aborted for wire in wires] == [True, True, False, False]


async def test_where_nobody_can_go_it_is_who_came_last_and_nothing_waits_for_him() -> None:
    served = Served(connections=1)
    first, wire = served.connect()
    first.data_received(ASK)
    last, late = served.connect()
    assert (wire.is_aborted, late.is_aborted) == (False, True)
    assert (served.kind.waiting, last._head_ends) == ({}, None)


@pytest.mark.parametrize("begun", [b"", b"GET", HALF])
async def test_a_connection_that_is_lost_is_in_no_list_and_no_timer_goes_on(begun: bytes) -> None:
    served = Served()
    lost, _ = served.connect()
    lost.data_received(begun)
    lost.pause_writing()
    head, stall = lost._head_ends, lost._stall_ends
    lost.connection_lost(None)
    assert (served.kind.waiting, served.kind.sending, served.kind.unread) == ({}, {}, {})
    assert stall.cancelled()
    assert head is None or head.cancelled()


async def test_what_comes_behind_the_end_is_not_read() -> None:
    made, wire = Served().connect()
    wire.close()
    made.data_received(ASK)
    assert made.cycle is None


async def test_a_head_may_have_so_many_bytes_in_any_number_of_pieces() -> None:
    made, wire = Served(head_bytes=100).connect()
    made.data_received(b"GET /" + b"x" * 45)
    made.data_received(b"x" * 50)
    assert not wire.is_closed
    made.data_received(b"x")
    assert wire.is_closed


async def test_each_head_is_counted_by_itself() -> None:
    served = Served(head_bytes=100)
    made, wire = served.connect()
    for _ in range(3):
        made.data_received(ASK[:16] + b"X: " + b"x" * 50)
        made.data_received(b"\r\n\r\n")
        await served.settle()
    assert (wire.written.count(b"200 OK"), wire.is_closed) == (3, False)


async def test_the_next_head_has_its_time_too() -> None:
    served = Served()
    made, _ = served.connect()
    made.data_received(ASK)
    await served.settle()
    assert made._head_ends is None
    made.data_received(b"GET")
    assert made._head_ends is not None


async def test_a_body_has_no_time_for_a_head() -> None:
    made, _ = Served().connect()
    made.data_received(HALF)
    made.data_received(b"x")
    assert made._head_ends is None


async def test_so_many_requests_may_wait_behind_one() -> None:
    made, wire = Served(queued=2).connect()
    made.data_received(ASK * 3)
    assert not wire.is_closed
    made.data_received(ASK)
    assert b"400" in wire.written
    assert wire.is_closed


async def test_who_has_read_nothing_for_longest_ends_until_the_rest_fits() -> None:
    served = Served(unread_bytes=100)
    made = [served.connect() for _ in range(4)]
    for each, wire in made:
        wire.buffered = 50
        each.pause_writing()
    assert [wire.is_aborted for _, wire in made] == [True, True, False, False]
    assert [*served.kind.unread] == [each for each, _ in made[2:]]
    made[2][0].resume_writing()
    assert [*served.kind.unread] == [made[3][0]]
    assert made[2][0]._stall_ends is None


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "room"),
    [
        (256, 100_000, CONNECTIONS_MAX + FILES_KEPT, CONNECTIONS_MAX),
        (256, resource.RLIM_INFINITY, CONNECTIONS_MAX + FILES_KEPT, CONNECTIONS_MAX),
        (256, 1_024, 1_024, 1_024 - FILES_KEPT),
        (256, 260, 260, CONNECTIONS_MIN),
        (100_000, 100_000, None, CONNECTIONS_MAX),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, CONNECTIONS_MAX),
    ],
)
def test_there_are_as_many_connections_as_the_process_may_have_files_for(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, room: int
) -> None:
    told: list[int] = []
    monkeypatch.setattr(connection.resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(connection.resource, "setrlimit", lambda _, limits: told.append(limits[0]))
    found = connection_class()
    assert (found.limits.connections, told) == (room, [] if raised is None else [raised])
    assert found.waiting is not Connection.waiting


async def test_where_all_send_the_longest_with_half_a_body_goes() -> None:
    served = Served(connections=2)
    made = [served.connect() for _ in range(2)]
    for each, _ in made:
        each.data_received(HALF)
    served.connect()
    assert [wire.is_aborted for _, wire in made] == [True, False]


async def test_who_was_answered_may_go_unless_a_request_of_his_waits() -> None:
    served = Served()
    made, _ = served.connect()
    made.data_received(ASK)
    await served.settle()
    assert [*served.kind.waiting] == [made]
    other, _ = served.connect()
    served.free.clear()
    other.data_received(ASK * 2)
    assert other not in served.kind.waiting
    assert not other._is_idle()


async def test_half_a_head_behind_an_answer_has_its_time() -> None:
    served = Served()
    made, _ = served.connect()
    made.data_received(ASK + b"GET")
    assert made._head_ends is None
    await served.settle()
    assert made._head_ends is not None


async def test_the_last_answer_of_a_connection_has_to_be_read() -> None:
    served = Served()
    made, wire = served.connect()
    made.data_received(ASK.replace(b"Host", b"Connection: close\r\nHost"))
    await served.settle()
    assert wire.is_closed
    assert made._stall_ends is not None


async def test_what_is_no_http_is_counted_and_its_answer_has_to_be_read() -> None:
    counter = connection.ANSWERS.labels("4xx")
    before = counter._value.get()
    made, wire = Served().connect()
    made.data_received(b"nonsense\r\n\r\n")
    assert (b"400" in wire.written, counter._value.get() - before) == (True, 1)
    assert made._stall_ends is not None


async def test_who_stays_idle_for_too_long_is_ended() -> None:
    made, wire = Served().connect()
    made.timeout_keep_alive_handler()
    assert wire.is_closed
    assert made._stall_ends is not None


async def test_each_wait_has_the_time_of_its_limit() -> None:
    made, _ = Served(head_s=7.0, stall_s=3.0).connect()
    now_s = asyncio.get_running_loop().time()
    assert made._head_ends.when() - now_s == pytest.approx(7.0, abs=1.0)
    made.pause_writing()
    first = made._stall_ends
    assert first.when() - now_s == pytest.approx(3.0, abs=1.0)
    made.pause_writing()
    assert first.cancelled()


async def test_nobody_waits_for_a_connection_that_is_lost_already() -> None:
    made, _ = Served().connect()
    made.connection_lost(None)
    made._end()
    assert made._stall_ends is None


async def test_one_answer_alone_may_be_larger_than_the_room() -> None:
    made, wire = Served(unread_bytes=100).connect()
    wire.buffered = 1_000
    made.pause_writing()
    assert not wire.is_aborted


async def test_no_more_are_ended_than_have_to() -> None:
    served = Served(unread_bytes=100)
    made = [served.connect() for _ in range(3)]
    for buffered, (each, wire) in zip((60, 30, 30), made, strict=True):
        wire.buffered = buffered
        each.pause_writing()
    assert [wire.is_aborted for _, wire in made] == [True, False, False]


def test_a_stranger_writes_no_log() -> None:
    connection.log.setLevel("DEBUG")
    connection_class()
    assert not connection.log.isEnabledFor(30)


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"


async def test_what_stands_behind_a_body_is_no_part_of_the_head() -> None:
    made, wire = Served().connect()
    made.data_received(CHUNKED + b"Authorization: Bearer x\r\nHost: y\r\nX-Forwarded-For: 8.8.8.8\r\n\r\n")
    assert made.cycle.scope["headers"] == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
    assert not made.cycle.more_body
    assert not wire.is_closed


@pytest.mark.parametrize("line", [b"a: b\r\n", b"a: b", b"x"])
async def test_what_stands_behind_a_body_has_an_end(line: bytes) -> None:
    served = Served(head_bytes=100)
    made, wire = served.connect()
    made.data_received(CHUNKED + (b"" if line.endswith(b"\n") else b"a: "))
    for _ in range(100 // len(line) - 1):
        made.data_received(line)
    assert not wire.is_closed
    for _ in range(100 // len(line)):
        made.data_received(line)
    assert wire.is_closed


async def test_a_body_may_be_longer_than_a_head_in_any_number_of_chunks() -> None:
    made, wire = Served(head_bytes=100).connect()
    made.data_received(CHUNKED[: CHUNKED.index(b"0\r\n")])
    for _ in range(30):
        for piece in (b"4\r\n", b"abcd", b"\r\n", b"c8\r\n" + b"x" * 200 + b"\r\n"):
            made.data_received(piece)
    assert not wire.is_closed
    made.data_received(b"0\r\n\r\n")
    assert (len(made.cycle.body), made.cycle.more_body) == (2 + 30 * 204, False)


@pytest.mark.parametrize("second", [b"Host: x\r\n", b"HOST: y\r\n"])
async def test_a_request_has_one_host(second: bytes) -> None:
    made, wire = Served().connect()
    made.data_received(ASK[:-2] + second + b"\r\n")
    assert wire.written.startswith(b"HTTP/1.1 400 ")
    assert made.cycle is None


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://y/z", b"y"),
        (b"http://y:81/z", b"y:81"),
        (b"https://a@y/z", b"y"),
        (b"/z", b"x"),
        (b"//y/z", b"x"),
    ],
)
async def test_the_host_of_an_address_of_the_whole_form_is_the_one_that_counts(
    target: bytes, host: bytes
) -> None:
    made, _ = Served().connect()
    made.data_received(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target)
    assert made.cycle.scope["headers"] == [(b"host", host)]
    assert made.cycle.scope["path"].endswith("/z")
