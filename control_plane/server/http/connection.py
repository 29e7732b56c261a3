"""One connection of the HTTP server, with limits where uvicorn has none.

A connection costs its client nothing. So the head of a request has to arrive within seconds and kilobytes,
few requests are queued behind one another, and answers have to be read. What stands behind a body is
bounded too, and is no part of the head: a proxy that looks at heads has not seen it. If there are too many
connections, the one that has waited longest for a request is closed, else the one that has sent a body for
longest. If too many bytes are unread, the connections that have read nothing for longest are closed.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from control_plane.server.metrics import ANSWERS

log = logging.getLogger(__name__)

HEAD_S: Final = 10.0
HEAD_BYTES_MAX: Final = 64 * 1024
QUEUED_MAX: Final = 8  # requests behind the one that is answered; browsers and our pods send none
STALL_S: Final = 30.0
UNREAD_BYTES_MAX: Final = 128 << 20  # of all answers together: one may be 8 MiB, and connections are many
CONNECTIONS_MAX: Final = 4_000
FILES_KEPT: Final = 256  # of the process' open files: MongoDB, the storage, the program itself
CONNECTIONS_MIN: Final = 64
# By which a request is admitted: of two values one would be judged, and another one used.
SINGLE: Final = frozenset({b"host", b"origin", b"authorization", b"sec-fetch-site", b"content-type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a connection may take."""

    head_s: float = HEAD_S
    head_bytes: int = HEAD_BYTES_MAX
    queued: int = QUEUED_MAX
    stall_s: float = STALL_S
    unread_bytes: int = UNREAD_BYTES_MAX
    connections: int = CONNECTIONS_MAX


class Connection(HttpToolsProtocol):
    """A connection as uvicorn's, which ends where it breaks a limit."""

    limits: ClassVar[Limits] = Limits()
    # Who has sent no whole head yet, or none since the last answer: the longest first.
    waiting: ClassVar[dict[Connection, None]] = {}
    # Whose request is not whole yet, in the order in which they began.
    sending: ClassVar[dict[Connection, None]] = {}
    # Who has not read what was written, the longest first.
    unread: ClassVar[dict[Connection, None]] = {}

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = log
        self._is_in_head = False
        self._head_bytes = 0  # or those of what is neither head nor body
        self._is_body = False
        self._head_ends: asyncio.TimerHandle | None = None
        self._stall_ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            oldest = next(iter(self.waiting), None) or next(iter(self.sending), self)
            oldest.forget()
            oldest.transport.abort()
            if oldest is self:
                return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self.unread.pop(self, None)
        self._stop_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._is_body = False
        super().data_received(data)
        if self._is_in_head or (self in self.sending and not self._is_body):
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.head_bytes:
                self._end()
                return
        if self._head_ends is None and self._is_idle():
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._is_body = True
        self._head_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.limits.queued:
            raise httptools.HttpParserError("too many requests at once")  # answered by 400, and closed
        self._require_single_headers()
        self._is_in_head = False
        self.forget()
        self.sending[self] = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.sending.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_flush()
        elif self._is_in_head and self._is_idle():
            self._await_head()
        elif self._is_idle():
            self.waiting[self] = None  # it may go; how long it may stay is uvicorn's keep-alive

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        ANSWERS.labels("4xx").inc()
        self._await_flush()

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_flush()
        self.unread[self] = None
        self._make_room()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread.pop(self, None)
        self._stop_stall()

    def forget(self) -> None:
        """Take the connection off those that may go."""
        self.waiting.pop(self, None)
        self.sending.pop(self, None)
        if self._head_ends is not None:
            self._head_ends.cancel()
            self._head_ends = None

    def _require_single_headers(self) -> None:
        """Refuse a header of `SINGLE` twice; an absolute address's host takes the place of the header's."""
        named = [name for name, _ in self.headers if name in SINGLE]
        if len(named) > len(set(named)):
            raise httptools.HttpParserError("a header that may be there once is there twice")
        address = httptools.parse_url(self.url)
        if address.host is not None:
            port = b"" if address.port is None else b":%d" % address.port
            self.headers[:] = [each for each in self.headers if each[0] != b"host"]
            self.headers.append((b"host", address.host + port))

    def _is_idle(self) -> bool:
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _await_head(self) -> None:
        self.waiting[self] = None
        self._head_ends = self.loop.call_later(self.limits.head_s, self._end)

    def _end(self) -> None:
        self.forget()
        self.transport.close()
        self._await_flush()

    def _await_flush(self) -> None:
        """Give the client a while to read the output, also if the connection is closed afterwards."""
        self._stop_stall()
        if self.parser is not None:  # else the connection is lost already
            self._stall_ends = self.loop.call_later(self.limits.stall_s, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connections that have read nothing for longest, if too much output is buffered."""
        held = sum(each.transport.get_write_buffer_size() for each in self.unread)
        for each in [*self.unread][:-1]:
            if held <= self.limits.unread_bytes:
                return
            held -= each.transport.get_write_buffer_size()
            del self.unread[each]
            each.transport.abort()

    def _stop_stall(self) -> None:
        if self._stall_ends is not None:
            self._stall_ends.cancel()
            self._stall_ends = None


def connection_class() -> type[Connection]:
    """Return the connections of one server, as many as the process may have files for."""
    log.setLevel(logging.ERROR)  # what is no HTTP is counted; lines of it would fill a disk
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + FILES_KEPT
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else soft - FILES_KEPT
    limits = Limits(connections=max(CONNECTIONS_MIN, min(CONNECTIONS_MAX, room)))
    return type(
        "ServedConnection", (Connection,), {"limits": limits, "waiting": {}, "sending": {}, "unread": {}}
    )
