"""Files by the control plane's own address: what a signed URL opens there, and what opens nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import httpx
import pytest

from control_plane.config import read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.multipart import Cutting, Multipart
from control_plane.files.signing import Content, Knows
from events.delivery.control_plane_client import bearer
from events.runtime.clock import SystemIds
from podfleet.embedded.mongod import Mongod
from podfleet.embedded.ports import choose
from tests.integration.conftest import end, local_client, start_control_plane
from tests.servers import S3Server, own_database

pytestmark = pytest.mark.slow("real servers and processes")

KEY = "a key of these tests"
LARGE = os.urandom(11 << 20)
CONTENT = b"<script>alert(1)</script>"
ELSEWHERE = {"host": "fleet.example", **bearer(KEY)}


@pytest.fixture(scope="module")
def address(mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a control plane with a public one, which here is the same."""
    port = choose(SystemIds())
    settings = {"PODFLEET_API_KEY": KEY, "PODFLEET_PUBLIC_URL": f"http://127.0.0.1:{port}"}
    with own_database(mongod) as url:
        home = tmp_path_factory.mktemp("public")
        process, found = start_control_plane(home, url, s3, port=port, **settings)
        try:
            yield found
        finally:
            end([process])


@pytest.fixture(scope="module")
def blobs(s3: S3Server, address: str) -> Blobs:
    """The bucket, as the control plane hands it out to others."""
    return open_blobs(read_storage(s3.environment), public_url=address)


@pytest.fixture
def key() -> str:
    return f"runs/{SystemIds().ulid()}/a1/some file (ü)+%2e%2e.html"


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with local_client(address, timeout=30.0) as client:
        yield client


def stored(blobs: Blobs, key: str, content: bytes) -> str:
    """Put an object beside the control plane; return the public URL to read it."""
    asyncio.run(blobs.put(key, content))
    return asyncio.run(blobs.get_url(key, name=key, content_type="text/html"))


def test_a_file_goes_up_and_comes_down_as_it_is(blobs: Blobs, key: str, http: httpx.Client) -> None:
    signed = blobs.puts.sign(key, Content(len(LARGE), hashlib.sha256(LARGE).hexdigest()))
    assert signed.url.startswith(f"{str(http.base_url).rstrip('/')}/files/podfleet/runs/")
    answer = http.put(signed.url, content=LARGE, headers=signed.headers)
    assert (answer.status_code, "etag" in answer.headers) == (200, True)
    assert asyncio.run(blobs.digest(key, len(LARGE))) == (len(LARGE), hashlib.sha256(LARGE).hexdigest())
    url = asyncio.run(blobs.get_url(key, name=key))
    assert http.get(url).content == LARGE


def test_a_download_is_resumed_by_its_range(blobs: Blobs, key: str, http: httpx.Client) -> None:
    url = stored(blobs, key, LARGE)
    with http.stream("GET", url) as begun:
        first = next(begun.iter_raw(1 << 20))
        version = begun.headers["etag"]
    more = {"range": f"bytes={len(first)}-", "if-match": version}
    rest = http.get(url, headers=more)
    assert (rest.status_code, rest.headers["content-range"]) == (
        206,
        f"bytes {len(first)}-{len(LARGE) - 1}/{len(LARGE)}",
    )
    assert first + rest.content == LARGE
    assert http.get(url, headers={"range": f"bytes={len(LARGE)}-"}).status_code == 416


def test_an_upload_goes_on_with_the_parts_that_are_missing(
    blobs: Blobs, key: str, http: httpx.Client
) -> None:
    multipart, cutting = Multipart(blobs.client, blobs.bucket, blobs.puts), Cutting(len(LARGE), 2)
    first = asyncio.run(multipart.open(key, cutting))
    assert http.put(first.urls[1], content=LARGE[: cutting.part_bytes]).status_code == 200
    again = asyncio.run(multipart.open(key, cutting))
    assert list(again.urls) == [2]
    assert http.put(again.urls[2], content=LARGE[cutting.part_bytes :]).status_code == 200
    assert asyncio.run(multipart.join(key, len(LARGE)))
    assert asyncio.run(blobs.digest(key, len(LARGE))) == (len(LARGE), hashlib.sha256(LARGE).hexdigest())


def test_what_a_run_stored_never_is_a_page_of_ours(blobs: Blobs, key: str, http: httpx.Client) -> None:
    url = stored(blobs, key, CONTENT)
    answer = http.get(url)
    assert answer.content == CONTENT
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; filename")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert not {"access-control-allow-origin", "server", "x-amz-id-2"} & set(answer.headers)
    head = http.head(url)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(CONTENT)))


def changed(url: str, **parts: str) -> str:
    return urlsplit(url)._replace(**parts).geturl()


def unfit(url: str, key: str) -> dict[str, tuple[str, int]]:
    """Return addresses that are not the one that was signed, and the status of each."""
    query, path = urlsplit(url).query, urlsplit(url).path
    begun = path.removesuffix(path.rpartition("/")[2])
    return {
        "unsigned": (changed(url, query=""), 403),
        "another signature": (url[:-1] + ("0" if url[-1] != "0" else "1"), 403),
        "another file": (f"{changed(url, path=begun + 'other')}", 403),
        "another bucket": (changed(url, path=path.replace("/podfleet/", "/other/")), 400),
        "the bucket": (changed(url, path="/files/podfleet/"), 400),
        "all buckets": (changed(url, path="/files/"), 400),
        "a way out": (changed(url, path="/files/podfleet/%2e%2e/other/x"), 400),
        "a slash of a way out": (changed(url, path="/files/podfleet/..%2fother%2fx"), 400),
        "a way out twice": (changed(url, path="/files/podfleet/%252e%252e/x"), 403),
        "no text": (changed(url, path="/files/podfleet/%ff"), 400),
        "a zero": (changed(url, path="/files/podfleet/a%00b"), 400),
        "one word more": (f"{url}&acl=", 400),
        "a word twice": (f"{url}&X-Amz-Expires=604800", 403),
        "a longer life": (url.replace("X-Amz-Expires=900", "X-Amz-Expires=604800"), 403),
        "another type": (url.replace("octet-stream", "pdf"), 403),
        "another key": (changed(url, query=query.replace("Credential=", "Credential=X")), 403),
        "an endless query": (f"{url}&{'x' * 20_000}=", 403),
    }


def test_no_other_address_opens_anything(blobs: Blobs, key: str, http: httpx.Client) -> None:
    url = stored(blobs, key, CONTENT)
    found = {name: http.get(each).status_code for name, (each, _) in unfit(url, key).items()}
    assert found == {name: status for name, (_, status) in unfit(url, key).items()}
    late = blobs.clock.now() - timedelta(hours=1)
    old = blobs.client.get_presigned_url("GET", blobs.bucket, key, timedelta(seconds=60), None, late)
    assert blobs.public is not None
    answer = http.get(blobs.public.public(old))
    assert (answer.status_code, answer.json()["code"]) == (403, "url_expired")


@pytest.mark.parametrize("method", ["DELETE", "POST", "PATCH", "OPTIONS", "PUT"])
def test_a_url_to_read_does_nothing_else(blobs: Blobs, key: str, http: httpx.Client, method: str) -> None:
    url = stored(blobs, key, CONTENT)
    assert http.request(method, url, content=b"x").status_code in (400, 403, 405)
    assert asyncio.run(blobs.digest(key, 100)) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert http.request("GET", url, content=b"x").status_code == 400
    for words in ("?list-type=2", "?uploads", "?versioning"):
        assert http.get(f"/files/podfleet/{words}").status_code == 400


def test_a_put_takes_what_it_was_signed_for(blobs: Blobs, key: str, http: httpx.Client) -> None:
    strict = replace(blobs.puts, knows=Knows(digests=True))
    signed = strict.sign(key, Content(len(CONTENT), hashlib.sha256(CONTENT).hexdigest()))
    assert http.put(signed.url, content=CONTENT).status_code == 403  # without its digest
    assert http.put(signed.url, content=CONTENT + b"!", headers=signed.headers).status_code == 403
    assert http.put(signed.url, content=CONTENT[1:], headers=signed.headers).status_code == 403
    assert http.put(signed.url, content=iter([CONTENT]), headers=signed.headers).status_code == 411
    assert asyncio.run(blobs.version(key)) is None
    smuggled = {
        **signed.headers,
        "x-amz-copy-source": "/podfleet/other",
        "authorization": "AWS4 x",
        "x-amz-acl": "public",
    }
    assert http.put(signed.url, content=CONTENT, headers=smuggled).status_code == 200
    assert asyncio.run(blobs.digest(key, 100)) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def exchange(address: str, text: bytes, then: bytes = b"") -> bytes:
    """Send a request as it is written, and what comes after its head; return all of the answer."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        connection.sendall(text + then)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def head_of(method: str, url: str, *headers: str) -> bytes:
    parts = urlsplit(url)
    lines = [f"{method} {parts.path}?{parts.query} HTTP/1.1", f"host: {parts.netloc}", *headers, "", ""]
    return "\r\n".join(lines).encode()


def test_requests_that_are_cut_or_doubled_put_nothing(blobs: Blobs, key: str, address: str) -> None:
    url = blobs.puts.sign(key, Content(len(CONTENT))).url
    assert b" 200 " not in exchange(
        address, head_of("PUT", url, f"content-length: {len(CONTENT)}"), CONTENT[:-1]
    )
    twice = ("content-length: 25", "content-length: 25")
    assert exchange(address, head_of("PUT", url, *twice), CONTENT).startswith(b"HTTP/1.1 400")
    chunked = head_of("PUT", url, "transfer-encoding: chunked")
    assert exchange(address, chunked, b"19\r\n" + CONTENT + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 411")
    endless = head_of("PUT", url, f"content-length: {6 << 30}", "expect: 100-continue")
    assert exchange(address, endless).startswith(b"HTTP/1.1 413")
    waiting = head_of("PUT", url + "0", f"content-length: {len(CONTENT)}", "expect: 100-continue")
    assert exchange(address, waiting).startswith(b"HTTP/1.1 403")  # and asks for no body
    assert asyncio.run(blobs.version(key)) is None


def test_urls_are_public_for_others_and_direct_on_this_machine(
    blobs: Blobs, address: str, http: httpx.Client, s3: S3Server
) -> None:
    body = {"pod": "p1", "size": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}
    here = http.post("/api/upload-tests", json=body, headers=bearer(KEY)).json()["url"]
    assert here.startswith(f"http://{s3.endpoint}/podfleet/")
    for others in (ELSEWHERE, {"x-forwarded-for": "10.0.0.7", **bearer(KEY)}):
        url = http.post("/api/upload-tests", json=body, headers=others).json()["url"]
        assert url.startswith(f"{address}/files/podfleet/.podfleet/uploads/")
        assert http.put(url, content=b"abc").status_code == 200
