"""What passes files on, between senders and storages that do not go on, or lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from control_plane.config import read_settings, read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.handing_out import ASKED_HERE, handed_out
from control_plane.files.signing import Content
from control_plane.server.http.asked_from import is_from_here
from control_plane.server.http.stored_files import Pace, StoredFiles
from events.runtime.errors import ConfigError

PUBLIC = "https://fleet.example:8443"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Message = dict[str, Any]
DISCONNECT: Message = {"type": "http.disconnect"}


async def never(*_: Any) -> Any:
    await asyncio.Event().wait()


def said(text: bytes) -> Answer:
    """Answer every request with this text, and end the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        await writer.drain()
        writer.close()

    return answer


@asynccontextmanager
async def storage(answer: Answer) -> AsyncIterator[Blobs]:
    """Run a storage of one's own; return its bucket."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        yield of_port(server.sockets[0].getsockname()[1])


def of_port(port: int) -> Blobs:
    keys = {"MINIO_ACCESS_KEY": "access", "MINIO_SECRET_KEY": "secret"}
    return open_blobs(read_storage({**keys, "MINIO_ENDPOINT": f"127.0.0.1:{port}"}), public_url=PUBLIC)


async def ask(
    blobs: Blobs,
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    receive: Callable[[], Awaitable[Message]] | None = None,
    **limits: Any,
) -> list[Message]:
    """Send a request as a server would; return the messages of its answer."""
    parts = urlsplit(url)
    listed = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope: Message = {"type": "http", "method": method, "raw_path": parts.path.encode(), "headers": listed}
    scope |= {"path": parts.path, "query_string": parts.query.encode()}
    sent: list[Message] = []
    waiting = [{"type": "http.request", "body": b"", "more_body": False}]

    async def whole() -> Message:
        if not waiting:
            await never()
        return waiting.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    assert blobs.public is not None
    served = StoredFiles(never, blobs.public, blobs.clock, **limits)
    await served(scope, receive or whole, send)
    assert served._open == 0
    return sent


def status(sent: list[Message]) -> int:
    return int(sent[0]["status"])


def headers_of(sent: list[Message]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def code(sent: list[Message]) -> str:
    return str(json.loads(sent[1]["body"])["code"])


async def get(answer: Answer, **limits: Any) -> list[Message]:
    async with storage(answer) as blobs:
        url = await blobs.get_url("a b/ü", name="x.pdf", content_type="application/pdf")
        return await ask(blobs, url, **limits)


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n"


def test_only_harmless_headers_of_the_storage_reach_a_browser() -> None:
    evil = b"content-type: text/html\r\nset-cookie: a=b\r\nlocation: http://x\r\nserver: x\r\n"
    sent = asyncio.run(get(said(OK + evil + b'etag: "1"\r\n\r\nabc')))
    assert (status(sent), sent[1]["body"]) == (200, b"abc")
    found = headers_of(sent)
    assert found["content-type"] == "application/pdf"
    assert found["content-disposition"] == "inline; filename*=UTF-8''x.pdf"
    names = {"content-length", "etag", "content-type", "content-disposition"}
    assert set(found) == names | {"content-security-policy", "x-content-type-options"}


def test_what_goes_on_names_the_storage_and_nothing_else_of_the_sender() -> None:
    async def run() -> bytes:
        heads: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(OK + b"\r\nabc")

        async with storage(answer) as blobs:
            url = await blobs.get_url("a b/ü", name="x")
            more = {"authorization": "AWS4", "cookie": "x=1", "x-amz-acl": "x", "range": "bytes=0-2"}
            await ask(blobs, url, headers={**more, "host": "fleet.example", "connection": "upgrade"})
            host = urlsplit(blobs.client.get_presigned_url("GET", "podfleet", "x")).netloc
            return heads[0].replace(host.encode(), b"HOST")

    head = asyncio.run(run())
    lines = head.decode().split("\r\n")
    assert lines[0].startswith("GET /podfleet/a%20b/%C3%BC?X-Amz-Algorithm=")
    assert lines[1:] == ["range: bytes=0-2", "host: HOST", "connection: close", "", ""]


@pytest.mark.parametrize(
    "answer",
    [
        said(b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"),
        said(b"no HTTP at all\r\n\r\n"),
        said(b""),
        said(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000),
        said(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
    ],
)
def test_an_answer_that_no_storage_gives_is_an_outage(answer: Answer) -> None:
    sent = asyncio.run(get(answer))
    assert (status(sent), headers_of(sent)["retry-after"]) == (503, "2")


def test_an_answer_that_breaks_off_does_not_end_as_a_whole_one() -> None:
    sent = asyncio.run(get(said(OK + b"\r\nab")))
    assert [each.get("body") for each in sent[1:]] == [b"ab"]
    assert sent[-1]["more_body"]


def test_a_storage_that_says_nothing_is_not_waited_for_for_ever() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\na")
        await reader.read()
        await reader.read()

    sent = asyncio.run(get(begun, idle_s=0.05))
    assert [each.get("body") for each in sent[1:]] == [b"a"]
    assert status(asyncio.run(get(silent, answer_s=0.05))) == 503
    gone = of_port(1)
    url = asyncio.run(gone.get_url("x", name="x"))
    assert status(asyncio.run(ask(gone, url))) == 503


async def put(answer: Answer, receive: Callable[[], Awaitable[Message]], **limits: Any) -> list[Message]:
    async with storage(answer) as blobs:
        signed = blobs.puts.sign("x", Content(1 << 20))
        sent = {"content-length": str(1 << 20), "expect": "100-continue"}
        return await ask(blobs, signed.url, "PUT", sent, receive, **limits)


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65_536):
        pass


def test_who_sends_nothing_or_too_slowly_loses_his_place() -> None:
    async def drip() -> Message:
        return {"type": "http.request", "body": b"x", "more_body": True}

    assert code(asyncio.run(put(swallow, never, idle_s=0.05))) == "slow_body"
    assert code(asyncio.run(put(swallow, drip, slow_s=0.0))) == "slow_body"
    pace = Pace(100.0, 60.0, moved=32 * 1024)
    assert (pace.until_s(101.0, 30.0), pace.until_s(150.0, 30.0)) == (131.0, 162.0)


def test_a_body_that_ends_early_or_is_too_long_is_not_put() -> None:
    async def cut() -> Message:
        return {"type": "http.request", "body": b"x", "more_body": False}

    async def gone() -> Message:
        return DISCONNECT

    async def much() -> Message:
        return {"type": "http.request", "body": bytes(2 << 20), "more_body": True}

    for receive in (cut, gone, much):
        assert code(asyncio.run(put(swallow, receive))) == "slow_body"


def test_a_refusal_of_the_storage_is_told_before_the_body_has_come() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 4\r\ncontent-type: text/html\r\n\r\nno <"
    sent = asyncio.run(put(said(refusal), never))
    assert (status(sent), sent[1]["body"]) == (403, b"no <")
    found = headers_of(sent)
    assert (found["content-type"], found["connection"]) == ("application/xml", "close")


def test_so_many_at_once_and_no_more() -> None:
    sent = asyncio.run(get(said(OK + b"\r\nabc"), at_once_max=0))
    assert (status(sent), code(sent)) == (503, "too_many_files")


def test_an_answer_is_not_sent_to_who_has_gone() -> None:
    async def run() -> list[Message]:
        waiting = [{"type": "http.request", "body": b"", "more_body": False}]

        async def leaving() -> Message:
            return waiting.pop() if waiting else DISCONNECT

        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")
            while True:
                writer.write(bytes(65_536))
                await writer.drain()

        async with storage(endless) as blobs:
            return await ask(blobs, await blobs.get_url("x", name="x"), receive=leaving)

    assert len(asyncio.run(run())) < 100


@pytest.mark.parametrize(
    ("client", "headers", "version", "expected"),
    [
        ("127.0.0.1", {"host": "localhost:8700"}, "1.1", True),
        ("::1", {"host": "[::1]:8700"}, "1.1", True),
        ("127.0.0.1", {"host": "fleet.example"}, "1.1", False),
        ("10.0.0.7", {"host": "127.0.0.1"}, "1.1", False),
        ("127.0.0.1", {"host": "127.0.0.1", "x-forwarded-for": "10.0.0.7"}, "1.1", False),
        ("127.0.0.1", {"host": "127.0.0.1:8700"}, "1.0", False),
        ("", {}, "1.1", False),
    ],
)
def test_a_request_is_from_here_only_when_nothing_says_otherwise(
    client: str, headers: dict[str, str], version: str, expected: bool
) -> None:
    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "client": (client, 1), "headers": listed, "http_version": version}
    assert is_from_here(scope) is expected


def test_a_url_has_its_public_form_for_others_alone() -> None:
    form = of_port(9).public
    url = "http://127.0.0.1:9/podfleet/a%20b?X-Amz-Date=1"
    assert handed_out(form, url) == f"{PUBLIC}/files/podfleet/a%20b?X-Amz-Date=1"
    assert handed_out(None, url) == url
    token = ASKED_HERE.set(True)
    assert handed_out(form, url) == url
    ASKED_HERE.reset(token)


NEEDED = dict.fromkeys(("MONGODB_URL", "MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"), "x")


def test_files_go_through_a_public_address_unless_the_settings_say_otherwise() -> None:
    def read(keyless: bool = False, **values: str) -> str | None:
        given = {**NEEDED, "PODFLEET_API_KEY": "k", **values}
        return read_settings(given, host="127.0.0.1", port=1, keyless=keyless).files_url

    assert read() is None
    assert read(PODFLEET_PUBLIC_URL=f"{PUBLIC}/") == PUBLIC
    assert read(PODFLEET_PUBLIC_URL=PUBLIC, PODFLEET_FILES="storage") is None
    wrong = [
        {"PODFLEET_PUBLIC_URL": f"{PUBLIC}/path"},
        {"PODFLEET_PUBLIC_URL": "fleet.example"},
        {"PODFLEET_PUBLIC_URL": "https://me@fleet.example"},
        {"PODFLEET_PUBLIC_URL": PUBLIC, "PODFLEET_FILES": "both"},
        {"PODFLEET_FILES": "control-plane"},
    ]
    for values in wrong:
        with pytest.raises(ConfigError, match=r"PODFLEET_(PUBLIC_URL|FILES)"):
            read(**values)
    with pytest.raises(ConfigError, match="--keyless"):
        read(keyless=True, PODFLEET_PUBLIC_URL=PUBLIC)
