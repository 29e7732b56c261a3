"""The bounds on bodies that stand behind every route."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from control_plane.server.http.body_limit import BODY_BYTES_MAX, PAIRS_MAX, BodyLimit

MIB = 1 << 20


async def hold(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body, and keep it until the scope says so."""
    while (await receive())["more_body"]:
        pass
    scope["read"].set()
    await scope["go_on"].wait()


async def asked(
    limit: BodyLimit, sizes: Sequence[int], go_on: asyncio.Event, *, is_whole: bool = True
) -> None:
    """Send a body in pieces of these sizes; one that is not whole never ends."""
    pieces = list(sizes)

    async def receive() -> Any:
        if not pieces:
            await asyncio.Event().wait()
        body = bytes(pieces.pop(0))
        return {"type": "http.request", "body": body, "more_body": bool(pieces) or not is_whole}

    scope = {"type": "http", "read": asyncio.Event(), "go_on": go_on}
    await limit(scope, receive, hold)  # type: ignore[arg-type] # a part of ASGI


async def test_a_body_has_its_size_and_its_time() -> None:
    go_on = asyncio.Event()
    go_on.set()
    limit = BodyLimit(hold, body_s=0.05)
    await asked(limit, [BODY_BYTES_MAX // 2] * 2, go_on)
    for sizes, is_whole, status in (([BODY_BYTES_MAX, 1], True, 413), ([1], False, 408), ([], False, 408)):
        with pytest.raises(HTTPException) as caught:
            await asked(limit, sizes, go_on, is_whole=is_whole)
        assert caught.value.status_code == status
        assert caught.value.headers is not None
        assert caught.value.headers["Connection"] == "close"
    assert limit._held_bytes == 0


async def test_the_bodies_of_all_have_a_size_together_and_give_it_back() -> None:
    limit = BodyLimit(hold, held_bytes_max=4 * MIB)
    go_on = asyncio.Event()
    held = [asyncio.ensure_future(asked(limit, [MIB, MIB], go_on)) for _ in range(2)]
    await asyncio.sleep(0.01)
    with pytest.raises(HTTPException) as caught:
        await asked(limit, [1], go_on)
    assert caught.value.status_code == 503
    assert caught.value.headers is not None
    assert caught.value.headers["Retry-After"]
    go_on.set()
    await asyncio.gather(*held)
    await asked(limit, [MIB, MIB], go_on)
    assert limit._held_bytes == 0


@pytest.mark.parametrize(
    ("body", "more", "is_refused"), [(b"", False, False), (b"x", False, True), (b"", True, True)]
)
async def test_a_type_alone_is_no_multipart_body(body: bytes, *, more: bool, is_refused: bool) -> None:
    async def read(scope: Any, receive: Any, send: Any) -> None:
        assert not (await receive())["more_body"]

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": more}

    scope = {"type": "http", "headers": [(b"content-type", b"multipart/form-data")]}
    answered = BodyLimit(read)(scope, receive, None)  # type: ignore[arg-type] # a part of ASGI
    if is_refused:
        with pytest.raises(HTTPException, match="not accepted"):
            await answered
    else:
        await answered


@pytest.mark.parametrize(
    "media", ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded ;a"]
)
@pytest.mark.parametrize("pair", ["a=b", ""])
async def test_a_form_has_so_many_fields_in_all_of_its_pieces_empty_ones_too(media: str, pair: str) -> None:
    async def read(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass

    async def sent(pairs: int, media: str) -> None:
        body = "&".join([pair] * pairs).encode()
        pieces = [body[: len(body) // 2], body[len(body) // 2 :]]

        async def receive() -> Any:
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        scope = {"type": "http", "headers": [(b"content-type", media.encode())]}
        await BodyLimit(read)(scope, receive, None)  # type: ignore[arg-type] # a part of ASGI

    await sent(PAIRS_MAX, media)
    await sent(PAIRS_MAX + 1, "application/json")
    with pytest.raises(HTTPException, match="over 1,000 fields"):
        await sent(PAIRS_MAX + 1, media)


async def test_who_has_sent_a_whole_body_may_wait_for_its_answer() -> None:
    messages = [{"type": "http.request", "body": b"x", "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await asyncio.sleep(0.03)
        return {"type": "http.disconnect"}

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        assert [(await receive())["type"] for _ in range(2)] == ["http.request", "http.disconnect"]

    await BodyLimit(slow, body_s=0.01)({"type": "http"}, receive, None)  # type: ignore[arg-type] # a part of ASGI


@pytest.mark.parametrize("media", [b"Multipart/Form-Data", b" multipart/form-data; boundary=x"])
async def test_a_multipart_body_is_known_however_its_type_is_written(media: bytes) -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"x", "more_body": False}

    scope = {"type": "http", "headers": [(b"content-type", media)]}
    with pytest.raises(HTTPException, match="not accepted"):
        await BodyLimit(hold)(scope, receive, None)  # type: ignore[arg-type] # a part of ASGI
