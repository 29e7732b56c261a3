"""A body that is a file goes to the disk, within its bounds, and its sender is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from control_plane.server.http import received_file
from control_plane.server.http.bodies import SlowBody
from control_plane.server.http.body_limit import BODY_BYTES_MAX, OF_FILES, BodyLimit
from control_plane.server.http.received_file import received
from events.codec import TooLarge
from events.runtime.errors import Transient

MIB = 1 << 20
((METHOD, PATH),) = OF_FILES


def request(pieces: list[bytes], length: int | None = None, *, is_whole: bool = True) -> Request:
    """Return a request with such a body; one that is not whole never ends."""
    left = list(pieces)

    async def receive() -> Any:
        if not left:
            await asyncio.Event().wait()
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left) or not is_whole}

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    return Request({"type": "http", "method": METHOD, "path": PATH, "headers": headers}, receive)


async def content_of(asked: Request, most: int = 10 * MIB) -> bytes:
    async with received(asked, most) as file:
        return file.read()


async def test_a_file_comes_whole_in_pieces_of_any_size() -> None:
    pieces = [bytes([each]) * (each * 70_000) for each in range(1, 12)]
    assert await content_of(request(pieces)) == b"".join(pieces)
    assert await content_of(request([b""], 0)) == b""


async def test_a_file_has_its_size_its_time_and_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooLarge):
        await content_of(request([b"x"], 11 * MIB))  # refused before any of it is read
    with pytest.raises(TooLarge):
        await content_of(request([bytes(MIB)] * 11, 5))  # whatever was declared
    monkeypatch.setattr(received_file, "PIECE_S", 0.01)
    with pytest.raises(SlowBody):
        await content_of(request([b"x"], is_whole=False))
    monkeypatch.setattr(received_file, "FREE_BYTES_MIN", 1 << 60)
    with pytest.raises(Transient) as refused:
        await content_of(request([b"x"]))
    assert refused.value.code == "no_room"


async def test_the_body_of_such_a_route_is_bounded_by_the_route_alone() -> None:
    async def answer(status: int, *, reads: bool) -> tuple[dict[str, Any], int]:
        left, sent = [bytes(MIB)] * 20, list[dict[str, Any]]()

        async def receive() -> Any:
            body = left.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(left)}

        async def send(message: Any) -> None:
            sent.append(message)

        async def app(_: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
            while reads and (await receive())["more_body"]:
                pass
            await send({"type": "http.response.start", "status": status, "headers": []})

        limit = BodyLimit(app, body_s=0.001)
        await limit({"type": "http", "method": METHOD, "path": PATH, "headers": []}, receive, send)
        return sent[0], len(left)

    assert 20 * MIB > BODY_BYTES_MAX
    assert await answer(201, reads=True) == (
        {"type": "http.response.start", "status": 201, "headers": []}, 0,
    )  # fmt: skip
    refused, left = await answer(401, reads=False)
    assert (refused["headers"], left) == ([(b"connection", b"close")], 4)
