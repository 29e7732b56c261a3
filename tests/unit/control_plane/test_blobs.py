"""What object storage is never asked."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import threading
from collections.abc import Coroutine, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from minio.error import S3Error

from control_plane.config import read_storage
from control_plane.files import blobs as module
from control_plane.files.blobs import DOWNLOAD, PIECE_BYTES, SHOWN_CHARS_MAX, Blobs, open_blobs
from control_plane.files.multipart import PART_BYTES_MIN, PARTS_MAX, Cutting, Multipart
from control_plane.files.signing import URL_LIFE, Content, with_headers
from control_plane.files.trees import TreeStore
from control_plane.server.api.contract.bodies import SoughtArtifact
from control_plane.server.api.worker.uploads import artifact_key, cut, named
from events.files.trees import named_trees
from events.runtime.errors import PodfleetError, Rejected, Transient
from pod_worker.files.multipart import PART_BYTES, PART_BYTES_MAX, parts_of

NOWHERE = {
    "MINIO_ENDPOINT": "127.0.0.1:1",
    "MINIO_ACCESS_KEY": "key",
    "MINIO_SECRET_KEY": "secret-secret",
    "MINIO_REGION": "us-east-1",
}


@pytest.mark.parametrize("key", ["runs/a/a1/../../b/a1/x", "runs/./x", "", "é" * 513, "runs/a\nb"])
def test_a_key_that_no_object_can_have_is_refused_in_words(key: str) -> None:
    blobs = open_blobs(read_storage(NOWHERE))
    asked = (blobs.get_url(key, name="x"), blobs.digest(key, 9), blobs.beginning(key, 9), blobs.version(key))
    for ask in asked:
        with pytest.raises(Rejected) as refused:
            asyncio.run(ask)
        assert refused.value.code == "bad_key"


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, Rejected, "storage_refuses"),
        (414, Rejected, "storage_refuses"),
        (403, Transient, "storage_unreachable"),
        (429, Transient, "storage_unreachable"),
    ],
)
def test_what_the_storage_refuses_for_good_is_no_outage(
    status: int, error: type[PodfleetError], code: str
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        blobs = open_blobs(read_storage({**NOWHERE, "MINIO_ENDPOINT": f"127.0.0.1:{storage.server_port}"}))
        with pytest.raises(error) as refused:
            asyncio.run(blobs.version("runs/x"))
        storage.shutdown()
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("status", "etag", "pinged", "put"),
    [
        (200, '"abc"', None, None),
        (200, None, None, "storage_unreachable"),  # another server answers in its place
        (403, None, "storage_refused", "storage_unreachable"),
    ],
)
def test_a_storage_is_what_knows_our_keys_and_names_what_it_took(
    status: int, etag: str | None, pinged: str | None, put: str | None
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            if etag is not None:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_GET = do_HEAD

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def code_of(step: Coroutine[Any, Any, None]) -> str | None:
        try:
            asyncio.run(step)
        except PodfleetError as error:
            return error.code
        return None

    with HTTPServer(("127.0.0.1", 0), Answer) as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        endpoint = f"127.0.0.1:{storage.server_port}"
        blobs = open_blobs(read_storage({**NOWHERE, "MINIO_ENDPOINT": endpoint}))
        assert (code_of(blobs.ping()), code_of(blobs.try_put())) == (pinged, put)
        storage.shutdown()


def test_what_the_storage_says_of_a_refusal_is_shown_in_short() -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<Error><Code>Bad</Code><Message>%s</Message></Error>" % (b"x" * 5_000)
            self.send_response(400)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    async def ask() -> None:
        client = open_blobs(read_storage({**NOWHERE, "MINIO_ENDPOINT": f"127.0.0.1:{storage.server_port}"}))
        await module.storage_call(lambda: client.client.get_object("podfleet", "runs/x"))

    with HTTPServer(("127.0.0.1", 0), Answer) as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        with pytest.raises(Rejected) as refused:
            asyncio.run(ask())
        storage.shutdown()
    assert len(refused.value.message) == SHOWN_CHARS_MAX


@pytest.mark.parametrize(
    ("content_type", "kind", "told"),
    [
        ("application/pdf", "inline", "application/pdf"),
        ("image/png", "inline", "image/png"),
        ("text/html", "attachment", DOWNLOAD),
        ("image/svg+xml; charset=utf-8", "attachment", DOWNLOAD),
        ("text/html\r\nx: y", "attachment", DOWNLOAD),
    ],
)
def test_a_file_is_shown_in_place_as_what_we_signed_and_else_a_download(
    content_type: str, kind: str, told: str
) -> None:
    blobs = open_blobs(read_storage(NOWHERE))
    url = asyncio.run(blobs.get_url("runs/x", name='a/b"\r\n;é.pdf', content_type=content_type))
    query = parse_qs(urlsplit(url).query)
    (disposition,) = query["response-content-disposition"]
    assert disposition == f"{kind}; filename*=UTF-8''b%22%0D%0A%3B%C3%A9.pdf"
    assert query["response-content-type"] == [told]
    assert query["X-Amz-Expires"] == [str(int(URL_LIFE.total_seconds()))]
    assert URL_LIFE.total_seconds() <= 15 * 60


SHA256 = "ab" * 32


@pytest.mark.parametrize(
    ("digests", "conditions", "is_part", "headers"),
    [
        (False, False, False, {}),
        (True, False, False, {"x-amz-checksum-sha256"}),
        (True, True, False, {"x-amz-checksum-sha256", "if-none-match"}),
        (False, True, True, {}),
    ],
)
def test_a_put_is_signed_with_its_length_and_all_that_the_storage_holds_to(
    *, digests: bool, conditions: bool, is_part: bool, headers: set[str]
) -> None:
    puts = open_blobs(read_storage(NOWHERE)).puts
    puts.knows.digests, puts.knows.conditions = digests, conditions
    part = {"partNumber": "1", "uploadId": "u"} if is_part else {}
    signed = puts.sign("runs/x", Content(7, SHA256), **part)
    query = parse_qs(urlsplit(signed.url).query)
    assert set(query["X-Amz-SignedHeaders"][0].split(";")) == {"host", "content-length", *headers}
    assert set(signed.headers) == set(headers)
    if digests:
        (told,) = (value for name, value in signed.headers.items() if "checksum" in name)
        assert base64.b64decode(told).hex() == SHA256
    assert "secret-secret" not in repr(puts)
    longer = with_headers(signed.url, puts.secret_key, {**signed.headers, "content-length": "8"})
    assert parse_qs(urlsplit(longer).query)["X-Amz-Signature"] != query["X-Amz-Signature"]


def sought(**more: object) -> SoughtArtifact:
    return SoughtArtifact.model_validate({"name": "x", "size": 4 * PART_BYTES_MIN, **more})


def test_a_file_is_cut_into_parts_that_storage_takes() -> None:
    assert cut(sought(sha256=SHA256)) is None
    assert cut(sought(sha256=SHA256, parts=4)) is not None
    for size, advice in ((4 * PART_BYTES_MIN, "ask for 4 at most"), (PART_BYTES_MIN, "leave parts out")):
        with pytest.raises(Rejected, match=advice):
            cut(sought(sha256=SHA256, parts=5, size=size))


@pytest.mark.parametrize("size", [4 * PART_BYTES, 80_000 * 2**20 + 1, 5 * 2**40])
def test_files_of_any_size_are_cut_into_parts_that_storage_takes(size: int) -> None:
    cutting = cut(sought(sha256=SHA256, size=size, parts=parts_of(size)))
    assert cutting is not None
    sizes = cutting.sizes()
    assert (sum(sizes.values()), len(sizes) <= PARTS_MAX, min(sizes.values()) > 0) == (size, True, True)
    assert PART_BYTES - 10_000 <= cutting.part_bytes <= PART_BYTES_MAX


def test_a_file_has_one_name_for_its_content_and_lies_below_its_attempt() -> None:
    ulid = "01K0000000000000000000000A"
    assert named(sought(sha256=SHA256)) == SHA256[:16]
    assert named(sought(upload=ulid, parts=2)) == ulid
    for wrong in ({"upload": ulid}, {}, {"sha256": SHA256, "upload": ulid, "parts": 2}):
        with pytest.raises(Rejected) as refused:
            named(sought(**wrong))
        assert refused.value.code == "bad_upload"
    assert artifact_key("r", 1, "a/b", "c") == "runs/r/a1/c/a/b"
    with pytest.raises(Rejected) as refused:
        artifact_key("r", 1, "../b", "c")
    assert refused.value.code == "bad_name"


def test_of_a_large_object_the_beginning_alone_is_asked_for() -> None:
    ranges: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.send_header("ETag", "e")
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()

        def do_GET(self) -> None:
            ranges.append(self.headers["Range"])
            self.send_response(206)
            self.send_header("Content-Length", "9")
            self.send_header("ETag", "e")
            self.end_headers()
            self.wfile.write(b"beginning")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        blobs = open_blobs(read_storage({**NOWHERE, "MINIO_ENDPOINT": f"127.0.0.1:{storage.server_port}"}))
        found = asyncio.run(blobs.beginning("runs/x", 9))
        assert found is not None
        assert (found[0].size, found[1]) == (1_000_000, b"beginning")
        storage.shutdown()
    assert ranges == ["bytes=0-8"]


LONG_AGO = "Thu, 01 Jan 2026 00:00:00 GMT"
PACKED = gzip.compress(b"a" * 1_000_000)
# Of an object: status, headers, and the body of a GET.
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "no-length": (200, {"Content-Length": "many"}, b""),
    "no-date": (200, {"Last-Modified": "yesterday", "Content-Length": "3"}, b"abc"),
    "conflict": (409, {"Content-Length": "0"}, b""),
    "no-text": (403, {"Content-Length": "2"}, b"\xff\xfe"),
    "no-xml": (409, {"Content-Type": "application/xml", "Content-Length": "7"}, b"<Error>"),
    "short": (200, {"Content-Length": "10"}, b"abc"),
    "endless": (200, {}, b"x" * PIECE_BYTES),
    "old": (200, {"Last-Modified": LONG_AGO, "Content-Length": "3"}, b"abc"),
    "new": (200, {"Content-Length": "3"}, b"abc"),
    "no-time": (200, {"X-Leaves": "Last-Modified", "Content-Length": "3"}, b"abc"),
    "packed": (200, {"Content-Encoding": "gzip", "Content-Length": str(len(PACKED))}, PACKED),
}


class Odd(BaseHTTPRequestHandler):
    """Answers as no storage should."""

    sent = 0

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key = parse_qs(parts.query).get("prefix", [parts.path.rpartition("/")[2]])[0]
        status, headers, body = ANSWERS.get(key, (200, {"Content-Length": "0"}, b""))  # told its time only
        self.send_response(status)
        known = {"ETag": "e", "Last-Modified": formatdate(usegmt=True), "Connection": "close"}
        for name, value in {**known, **headers}.items():
            if name != headers.get("X-Leaves"):
                self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        is_endless = "endless" in self.path
        try:
            while self.command == "GET" and Odd.sent < 1_000 * PIECE_BYTES:
                self.wfile.write(body)
                Odd.sent += len(body)
                if not is_endless:
                    return
        except ConnectionError:
            return

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def odd() -> Iterator[Blobs]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as storage:
        threading.Thread(target=storage.serve_forever, args=(0.01,), daemon=True).start()
        yield open_blobs(read_storage({**NOWHERE, "MINIO_ENDPOINT": f"127.0.0.1:{storage.server_port}"}))
        storage.shutdown()


@pytest.mark.parametrize("key", ["no-length", "no-date", "conflict", "no-text", "no-xml", "short"])
def test_an_answer_that_no_storage_gives_is_an_outage_and_no_fault_of_ours(odd: Blobs, key: str) -> None:
    multipart = Multipart(odd.client, odd.bucket, odd.puts)
    for ask in (odd.read(key, 9), odd.beginning(key, 9), multipart.open(key, Cutting(10, 2))):
        with pytest.raises(Transient) as refused:
            asyncio.run(ask)
        assert refused.value.code == "storage_unreachable"


def test_an_object_without_an_end_is_read_as_far_as_it_was_registered(odd: Blobs) -> None:
    Odd.sent = 0
    looked = asyncio.run(odd.read("endless", 5))
    assert looked is not None
    assert 5 < looked.version.size <= PIECE_BYTES
    found = asyncio.run(odd.beginning("old", 2))  # it knows no ranges
    assert found is not None
    assert found[1] == b"ab"
    assert Odd.sent < 500 * PIECE_BYTES


def test_an_object_that_takes_too_long_is_given_up(odd: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_S", -1.0)
    for ask in (odd.read("old", 3), odd.beginning("old", 3)):
        with pytest.raises(Transient) as refused:
            asyncio.run(ask)
        assert refused.value.code == "storage_slow"


def test_no_object_is_unpacked_whatever_the_storage_says_of_it(odd: Blobs) -> None:
    looked, found = (
        asyncio.run(odd.read("packed", 10_000_000)),
        asyncio.run(odd.beginning("packed", 10_000_000)),
    )
    assert looked is not None
    assert found is not None
    assert (looked.version.size, looked.sha256) == (len(PACKED), hashlib.sha256(PACKED).hexdigest())
    assert found[1] == PACKED


def test_a_version_is_settled_that_no_later_object_can_have(odd: Blobs) -> None:
    looked = {key: asyncio.run(odd.read(key, 3)) for key in ("old", "new", "no-time")}
    assert {key: each is not None and each.is_settled for key, each in looked.items()} == {
        "old": True, "new": False, "no-time": False,
    }  # fmt: skip


class Parts:
    """A storage with an upload of two parts, and perhaps an object at its key."""

    def __init__(self, *, is_there: bool) -> None:
        self.is_there, self.joined, self.dropped = is_there, 0, 0

    def _list_multipart_uploads(self, *_: object, **__: object) -> Any:
        upload = SimpleNamespace(object_name="k", upload_id="u", initiated_time=None)
        return SimpleNamespace(uploads=[upload])

    def _list_parts(self, *_: object, **__: object) -> Any:
        parts = [SimpleNamespace(size=4), SimpleNamespace(size=3)]
        return SimpleNamespace(parts=parts, is_truncated=False, next_part_number_marker=None)

    def stat_object(self, bucket: str, key: str) -> None:
        if not self.is_there:
            response: Any = None
            raise S3Error(response, "NoSuchKey", "none", key, None, None)

    def _complete_multipart_upload(self, *_: object) -> Any:
        self.joined += 1
        return SimpleNamespace(etag="e")

    def _abort_multipart_upload(self, *_: object) -> None:
        self.dropped += 1


@pytest.mark.parametrize(
    ("is_there", "size", "joined", "dropped"), [(False, 7, 1, 0), (False, 8, 0, 0), (True, 7, 0, 1)]
)
def test_parts_become_an_object_of_the_size_that_was_said_and_never_in_the_place_of_another(
    *, is_there: bool, size: int, joined: int, dropped: int
) -> None:
    storage, no_puts = Parts(is_there=is_there), cast("Any", None)
    assert asyncio.run(Multipart(cast("Any", storage), "b", no_puts).join("k", size)) is bool(joined)
    assert (storage.joined, storage.dropped) == (joined, dropped)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"tree": "a", "inputs": {"x": "images/3@b", "y": "c", "z": 5, "w": {"tree": "d"}}}, {"a", "b", "c"}),
        ({"inputs": [{"tree": "a"}, "b", None, [["c"]]]}, set()),
        ({"tree": {"$ne": "a"}, "inputs": "a"}, set()),
        ([{"tree": "a"}], set()),
        ({"tree": "", "inputs": {"x": ""}}, set()),
        (None, set()),
    ],
)  # fmt: skip
def test_a_run_names_trees_by_its_specification_whatever_that_is(spec: object, named: set[str]) -> None:
    assert named_trees(spec) == named


class FullTrees:
    """A store that has a tree, and as many versions of data sets as there may be."""

    async def find(self, tree_id: str, *, is_whole: bool = False) -> dict[str, Any]:
        return {"_id": tree_id, "size": 1, "files": 1}

    async def latest(self, name: str) -> None:
        return None

    async def count_versions(self, most: int) -> int:
        return most


def test_no_version_of_a_data_set_is_added_beyond_the_most() -> None:
    trees = TreeStore(cast("Any", None), cast("Any", None), cast("Any", FullTrees()))
    with pytest.raises(Rejected, match="100,000 versions of data sets, which is the most"):
        asyncio.run(trees.add_version("images", "0" * 64, by="vera"))
