"""What a URL that was signed for a PUT lets its holder put."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest
from minio import Minio

from control_plane.config import read_storage
from control_plane.files.blobs import Blobs, open_blobs
from control_plane.files.multipart import Cutting, Multipart
from control_plane.files.signing import NEW_ONLY, Content, Knows, checksum, with_headers
from events.runtime.clock import SystemIds

CONTENT = b"hello"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def put(url: str, content: bytes, headers: Any = None) -> int:
    return httpx.put(url, content=content, headers=headers, trust_env=False).status_code


@pytest.fixture(scope="module")
def blobs(s3: Any) -> Blobs:
    found = open_blobs(read_storage(s3.environment))
    asyncio.run(found.prepare())
    return found


@pytest.fixture
def key() -> str:
    return f"runs/{SystemIds().ulid()}/a1/some file (ü)+.txt"


def test_a_url_takes_as_many_bytes_as_it_was_signed_for(blobs: Blobs, key: str) -> None:
    signed = blobs.puts.sign(key, Content(len(CONTENT), SHA256))
    assert put(signed.url, CONTENT + b"!", signed.headers) == 403
    assert put(signed.url, CONTENT[1:], signed.headers) == 403
    assert asyncio.run(blobs.digest(key, len(CONTENT))) is None
    assert put(signed.url, CONTENT, signed.headers) == 200
    assert asyncio.run(blobs.digest(key, len(CONTENT))) == (len(CONTENT), SHA256)


def test_a_part_is_as_long_as_it_was_signed_for(blobs: Blobs, key: str) -> None:
    multipart = Multipart(blobs.client, blobs.bucket, blobs.puts)
    opened = asyncio.run(multipart.open(key, Cutting(11 << 20, 2)))
    assert put(opened.urls[2], bytes(6 << 20)) == 403
    assert asyncio.run(multipart.open(key, Cutting(11 << 20, 2))).missing == 2
    assert put(opened.urls[2], bytes(11 << 19)) == 200
    assert asyncio.run(multipart.open(key, Cutting(11 << 20, 2))).missing == 1


def test_headers_that_were_signed_have_to_be_sent(blobs: Blobs, key: str) -> None:
    strict = replace(blobs.puts, knows=Knows(digests=True, conditions=True))
    signed = strict.sign(key, Content(len(CONTENT), SHA256))
    assert signed.headers == {**checksum(SHA256), **NEW_ONLY}
    assert put(signed.url, CONTENT) == 403
    assert put(signed.url, CONTENT, {**signed.headers, **checksum("0" * 64)}) == 403
    assert put(signed.url, CONTENT, signed.headers) == 200


def test_without_more_headers_a_url_is_as_the_sdk_signs_it(s3: Any) -> None:
    client = Minio("s3.example", s3.access_key, s3.secret_key, region=s3.region)
    url = client.get_presigned_url("PUT", s3.bucket, "a b/ü+~", extra_query_params={"partNumber": "1"})
    assert httpx.URL(with_headers(url, s3.secret_key, {})).params == httpx.URL(url).params


class Strict(BaseHTTPRequestHandler):
    """A storage that holds a PUT to its digest and to its condition, as S3 and MinIO do."""

    held: dict[str, bytes]

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        told = self.headers.get("x-amz-checksum-sha256")
        true = checksum(hashlib.sha256(content).hexdigest())["x-amz-checksum-sha256"]
        status = 200
        if told is not None and told != true:
            status = 400
        elif self.headers.get("if-none-match") == "*" and self.path.partition("?")[0] in self.held:
            status = 412
        else:
            self.held[self.path.partition("?")[0]] = content
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def strict() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Strict,), {"held": {}}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_a_storage_holds_to_is_found_out_and_signed(s3: Any, blobs: Blobs, strict: str) -> None:
    assert blobs.puts.knows == Knows(digests=False, conditions=False)  # rclone takes what it does not know
    found = open_blobs(read_storage({**s3.environment, "MINIO_ENDPOINT": strict}))
    for _ in range(2):  # the second time the object of the first is there
        found.puts.learn(found.http)
        assert found.puts.knows == Knows(digests=True, conditions=True)
    signed = found.puts.sign("x", Content(len(CONTENT), SHA256))
    assert [put(signed.url, CONTENT, signed.headers) for _ in range(2)] == [200, 412]
    assert found.puts.sign("x", Content(9), partNumber="1", uploadId="u").headers == {}
