"""Passes presigned requests for files on to the storage, which only this machine may reach.

Law: what goes on was signed by us for one object (`files/public_urls.py`), and the storage checks it again.
Both ways are streamed: a request holds a few pieces, however large its file is. A place is held only by who
goes on: each step has a time, and so has each byte. An answer carries the type that was signed, never to run
as a page of ours.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from control_plane.files.exchange import Exchange, Head, opened
from control_plane.files.public_urls import CHECKSUMS, RAW_FOLDER, Passed, PublicFiles
from control_plane.server.http.body_limit import LAST, RETRY_AFTER_S, drain
from control_plane.server.http.head_requests import HEADED
from events.runtime.clock import Clock
from events.runtime.errors import Rejected, Transient

T = TypeVar("T")

AT_ONCE_MAX: Final = 64  # a megabyte each at most; more than two cores can serve
IDLE_S: Final = 30.0  # as long as a connection may leave an answer unread
ANSWER_S: Final = 120.0  # storage may put a file of 5 GiB together before it answers
# Who moves less a second, after a while, is slower than any pod: 5 GiB would take four days.
BYTES_A_SECOND_MIN: Final = 16 * 1024
SLOW_S: Final = 60.0
STATUSES: Final = {"bad_method": 405, "length_required": 411, "too_large": 413, "bad_file_url": 400}
REDIRECTS: Final = range(300, 400)
NOT_MODIFIED: Final = 304
ANSWERED: Final = frozenset({"content-length", "content-range", "accept-ranges", "etag", "last-modified"})
ERROR_TYPE: Final = "application/xml"
PDF: Final = "application/pdf"
# A browser's viewer of PDF does not work in a sandbox, and runs no script of ours anyway.
POLICY: Final = "default-src 'none'; frame-ancestors 'self'"
PDF_POLICY: Final = f"{POLICY}; object-src 'self'; style-src 'unsafe-inline'"
SANDBOX: Final = f"{POLICY}; sandbox"


class _GoneError(Exception):
    """Whoever asked has gone, or is too slow: there is nobody to answer."""


@dataclass(slots=True)
class Pace:
    """How long a request may still take, by the bytes that it has moved; times are the loop's, in seconds."""

    begun_s: float
    slow_s: float
    moved: int = 0

    def until_s(self, now_s: float, idle_s: float) -> float:
        """Return until when the next step has to be done."""
        return min(now_s + idle_s, self.begun_s + self.slow_s + self.moved / BYTES_A_SECOND_MIN)


@dataclass(slots=True)
class StoredFiles:
    """ASGI middleware that serves what is below `/files/`; `clock` is the storage's."""

    app: ASGIApp
    files: PublicFiles
    clock: Clock
    at_once_max: int = AT_ONCE_MAX
    idle_s: float = IDLE_S
    slow_s: float = SLOW_S
    answer_s: float = ANSWER_S
    _tls: ssl.SSLContext | None = field(init=False)
    _open: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._tls = ssl.create_default_context() if self.files.is_secure else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: bytes = scope.get("raw_path", b"")
        if scope["type"] != "http" or not path.startswith(RAW_FOLDER):
            await self.app(scope, receive, send)
            return
        try:
            passed = self.files.passed(
                scope["method"], path, scope["query_string"], scope["headers"], self.clock.now()
            )
        except Rejected as error:
            status = STATUSES.get(error.code, 403)
            await _refuse(status, error.code, error.message, scope, receive, send)
            return
        if self._open >= self.at_once_max:
            words = "too many files are under way here; ask again"
            await _refuse(503, "too_many_files", words, scope, receive, send)
            return
        self._open += 1
        try:
            await self._pass_on(passed, scope, receive, send)
        finally:
            self._open -= 1

    async def _pass_on(self, passed: Passed, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False
        try:
            async with opened(
                *(self.files.origin, self._tls, passed.method, passed.target, passed.headers)
            ) as storage:
                head, is_whole = await self._ask(storage, passed, receive)
                if head.status in REDIRECTS and head.status != NOT_MODIFIED:
                    raise Transient("storage_redirects", "object storage names another address")
                if not is_whole:
                    await _drain(scope, receive)
                has_begun = True
                await send(_begin(head, passed, is_last=not is_whole))
                if HEADED not in scope:
                    await self._answer(storage, receive, send, is_whole=is_whole)
        except _GoneError:
            if not has_begun:
                await _refuse(408, "slow_body", "the file did not arrive in time", scope, receive, send)
        except Transient as error:
            if not has_begun:  # else the answer breaks off, and its length tells
                await _refuse(503, error.code, error.message, scope, receive, send)

    async def _ask(self, storage: Exchange, passed: Passed, receive: Receive) -> tuple[Head, bool]:
        """Send the body while the answer is awaited; return its head, and whether the body was sent whole."""
        sending = asyncio.create_task(self._send_body(storage, passed.length, receive))
        answering = asyncio.create_task(storage.head())
        try:
            await asyncio.wait({sending, answering}, return_when=asyncio.FIRST_COMPLETED)  # each step ends
            if not answering.done():
                # Where the storage ends its side early, its answer is there already.
                if not isinstance(sending.exception(), Transient):
                    sending.result()
                await asyncio.wait({answering}, timeout=self.answer_s)
            if not answering.done():
                raise Transient("storage_unreachable", "object storage does not answer in time")
            return answering.result(), sending.done() and sending.exception() is None
        finally:
            for task in (sending, answering):
                task.cancel()
            await asyncio.gather(sending, answering, return_exceptions=True)

    async def _send_body(self, storage: Exchange, length: int, receive: Receive) -> None:
        left, loop = length, asyncio.get_running_loop()
        pace = Pace(loop.time(), self.slow_s)
        while left > 0:
            until_s = pace.until_s(loop.time(), self.idle_s)
            if until_s < loop.time():  # what is there already never waits, so that no time ends it
                raise _GoneError
            try:
                async with asyncio.timeout_at(until_s):
                    message = await receive()
            except TimeoutError:
                raise _GoneError from None
            piece = message.get("body", b"")
            left -= len(piece)
            pace.moved += len(piece)
            if message["type"] != "http.request" or left < 0 or (left and not message.get("more_body")):
                raise _GoneError
            if piece:
                await self._step(storage.send(piece))

    async def _answer(self, storage: Exchange, receive: Receive, send: Send, *, is_whole: bool) -> None:
        loop = asyncio.get_running_loop()
        pace = Pace(loop.time(), self.slow_s)
        gone = asyncio.create_task(_gone(receive)) if is_whole else None
        try:
            while True:
                piece = await self._step(storage.piece())
                if gone is not None and gone.done():
                    return
                async with asyncio.timeout_at(pace.until_s(loop.time(), self.idle_s)):
                    await send({"type": "http.response.body", "body": piece, "more_body": bool(piece)})
                pace.moved += len(piece)
                if not piece:
                    return
        except TimeoutError:
            raise _GoneError from None
        finally:
            if gone is not None:
                gone.cancel()
                with suppress(asyncio.CancelledError):
                    await gone

    async def _step(self, step: Awaitable[T]) -> T:
        """Have the storage go on. Raises `Transient` where it does not in time."""
        try:
            async with asyncio.timeout(self.idle_s):
                return await step
        except TimeoutError:
            raise Transient("storage_unreachable", "object storage does not go on") from None


def _begin(head: Head, passed: Passed, *, is_last: bool) -> Message:
    """Return the head of the answer: of the storage's own only what is harmless in our place."""
    headers = {
        name: value
        for name, value in head.headers.items()
        if name in ANSWERED or (name.startswith(CHECKSUMS) and name.isascii())
    }
    is_file = head.status < REDIRECTS.start and passed.method == "GET"
    headers["content-type"] = passed.shown_as if is_file else ERROR_TYPE
    headers["content-disposition"] = passed.disposition if is_file else "attachment"
    headers["content-security-policy"] = PDF_POLICY if is_file and passed.shown_as == PDF else SANDBOX
    headers["x-content-type-options"] = "nosniff"
    # Some storages answer a range with 200, which a client takes for the whole.
    status = 206 if head.status == 200 and "content-range" in headers else head.status
    if is_last:
        headers |= {name.lower(): value for name, value in LAST.items()}
    listed = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": listed}


async def _gone(receive: Receive) -> None:
    """Return when whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(status: int, code: str, words: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in words, and end the connection, whose body nobody wants."""
    headers = {**LAST, **({"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {})}
    if status == 405:
        headers["Allow"] = "GET, HEAD, PUT"
    body = {"type": "about:blank", "status": status, "code": code, "detail": words}
    await _drain(scope, receive)
    await JSONResponse(body, status, headers, "application/problem+json")(scope, receive, send)


async def _drain(scope: Scope, receive: Receive) -> None:
    """Read a body to its end, as far as that is bounded, unless its sender waits for our word to begin."""
    if all(name != b"expect" for name, _ in scope["headers"]):
        await drain(receive)
