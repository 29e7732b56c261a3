"""Uploads into a real S3 server, by URLs that a small control plane signs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from minio import Minio
from minio.error import S3Error

from control_plane.files import multipart
from control_plane.files.multipart import Cutting, Multipart
from control_plane.files.signing import PutSigner
from control_plane.files.uploads.upload_sweeper import UploadSweeper
from events.catalog import ArtifactFailed, ArtifactRegistered
from events.delivery.control_plane_client import ControlPlane, control_plane_client
from events.delivery.pipe import Made
from events.kinds.declaring.fact import Fact
from events.queue.claims import Claim
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import LeaseLost
from pod_worker.files.multipart import FROM_BYTES, PART_BYTES
from pod_worker.files.storage import HttpStorage, Reply
from pod_worker.files.uploads import NotStored, Uploader

KEY = "pf_test_key"
LARGE = 160 << 20  # many parts, and more than a worker may hold of them
Until = Callable[..., None]


class Signer(ThreadingHTTPServer):
    """The artifact routes of the control plane that a worker asks, for one attempt."""

    daemon_threads = True

    def __init__(self, s3: Any) -> None:
        super().__init__(("127.0.0.1", 0), SignerHandler)
        self.bucket = s3.bucket
        self.minio = Minio(
            s3.endpoint.removeprefix("http://"),
            access_key=s3.access_key,
            secret_key=s3.secret_key,
            secure=False,
            region=s3.region,
        )
        if not self.minio.bucket_exists(self.bucket):
            self.minio.make_bucket(self.bucket)
        self.run_id = SystemIds().ulid()
        self.attempt = 1
        self.url_life = timedelta(minutes=5)
        signer = PutSigner(self.minio, self.bucket, s3.secret_key)
        self.multipart = Multipart(self.minio, self.bucket, signer)
        self.signed = 0
        self.on_signed: Callable[[], None] = lambda: None
        self.on_complete: Callable[[dict[str, Any]], None] = lambda _: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def presign(self, body: dict[str, Any]) -> dict[str, Any]:
        key = self.key(body)
        if "parts" in body:
            self.signed += 1
            self.on_signed()
            cutting = Cutting(body["size"], body["parts"])
            opened = asyncio.run(self.multipart.open(key, cutting))
            parts = [{"number": number, "url": url} for number, url in opened.urls.items()]
            return {
                "key": key,
                "upload_id": opened.upload_id,
                "part_size": cutting.part_bytes,
                "parts": parts,
            }
        url = self.minio.presigned_put_object(self.bucket, key, expires=self.url_life)
        self.signed += 1
        self.on_signed()
        return {"key": key, "url": url, "headers": {}, "upload_id": None}

    def key(self, body: dict[str, Any]) -> str:
        return (
            f"runs/{self.run_id}/a{self.attempt}/{body.get('upload') or body['sha256'][:16]}/{body['name']}"
        )

    def complete(self, body: dict[str, Any]) -> int:
        self.on_complete(body)
        asyncio.run(self.multipart.join(self.key(body), body["size"]))
        try:
            return 200 if self.minio.stat_object(self.bucket, self.key(body)).size == body["size"] else 422
        except S3Error:
            return 422

    def content(self, key: str) -> bytes:
        response = self.minio.get_object(self.bucket, key)
        try:
            return response.read()
        finally:
            response.close()
            response.release_conn()


class SignerHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Signer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {claim_of(self.server).run_token}":
            self._send(409, {"code": "lease_lost"})
        elif self.path == f"/api/runs/{self.server.run_id}/artifacts/presign":
            self._send(200, self.server.presign(body))
        elif self.path == f"/api/runs/{self.server.run_id}/artifacts/presign/many":
            self._send(200, {"files": [self.server.presign(each) for each in body["files"]]})
        elif self.path == f"/api/runs/{self.server.run_id}/artifacts/complete":
            self._send(self.server.complete(body), {})
        else:
            self._send(404, {})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def signer(s3: Any) -> Iterator[Signer]:
    with Signer(s3) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Facts:
    """A log that ingest has read as soon as it is written."""

    told: list[Fact]

    def register(self, claim: Claim, facts: Sequence[Fact]) -> int:
        self.told += facts
        return len(self.told)

    def has_left(self, claim: Claim, sequence: int) -> bool:
        return True


@pytest.fixture
def facts() -> list[Fact]:
    return []


@dataclass
class CuttingStorage:
    """A way to storage that breaks the PUTs of these numbers off, half way, and counts the bytes of all."""

    storage: HttpStorage
    cuts: frozenset[int]
    sent: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, url: str, content: Any, headers: Mapping[str, str]) -> Reply:
        with self._lock:
            self.sent.append(0)
            number = len(self.sent)

        def passed() -> Iterator[bytes]:
            for piece in content:
                if number in self.cuts and self.sent[number - 1] >= int(headers["Content-Length"]) // 2:
                    raise ConnectionResetError("cut")
                self.sent[number - 1] += len(piece)
                yield piece

        return self.storage.put(url, passed(), headers)


@pytest.fixture
def uploader(signer: Signer, facts: list[Fact], until: Until) -> Iterator[Uploader]:
    tls = httpx.create_ssl_context(trust_env=False)
    with control_plane_client(signer.url, KEY) as client, HttpStorage(tls) as storage:
        control_plane = ControlPlane(client, SystemClock())
        uploader = Uploader(control_plane, storage, Facts(facts), SystemClock(), SystemIds())
        yield uploader
        uploader.close()
        until(lambda: uploader._threads == 0)


def claim_of(signer: Signer, *, attempt: int | None = None) -> Claim:
    return Claim("runs", signer.run_id, attempt or signer.attempt, "the-token", "probe", {}, None)


def made(folder: Path, content: bytes, name: str) -> Made:
    path = folder / hashlib.sha256(name.encode()).hexdigest()[:12]
    path.write_bytes(content)
    return Made(path=str(path), name=name, content_type="application/octet-stream", stage=None)


def drained(uploader: Uploader, claim: Claim) -> NotStored | None:
    return uploader.drain(claim, deadline_s=uploader.clock.monotonic_s() + 100)


def test_files_lie_in_storage_byte_for_byte_when_they_are_registered(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    # Many at once into a new prefix: the embedded storage may answer the first ones with 500.
    contents = {f"plots/número {number} & co.bin": os.urandom(number * 50_000) for number in range(24)}
    claim = claim_of(signer)
    for name, content in contents.items():
        uploader.add(claim, made(tmp_path, content, name))
    assert drained(uploader, claim) is None
    registered = [fact for fact in facts if isinstance(fact, ArtifactRegistered)]
    assert {fact.name for fact in registered} == set(contents)
    assert len(facts) == len(contents)
    for fact in registered:
        content = signer.content(fact.key)
        assert content == contents[fact.name]
        assert (fact.size, fact.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_large_file_takes_no_memory(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    large = made(tmp_path, b"", "checkpoint.pt")
    with Path(large.path).open("r+b") as file:
        file.seek(LARGE)
        file.write(b"end")
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    claim = claim_of(signer)
    uploader.add(claim, large)
    assert drained(uploader, claim) is None
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    assert grown_mib < LARGE / 2**20 / 2
    (fact,) = facts
    assert isinstance(fact, ArtifactRegistered)
    assert fact.size == LARGE + 3
    assert signer.minio.stat_object(signer.bucket, fact.key).size == fact.size


def test_after_a_cut_only_the_parts_that_were_cut_are_sent_again(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multipart, "LISTED_MAX", 2)  # of a thousand, so that they come in several answers
    assert isinstance(uploader.storage, HttpStorage)
    way = CuttingStorage(uploader.storage, frozenset({2, 5}))
    uploader.storage = way
    content = os.urandom(6 * PART_BYTES)
    claim = claim_of(signer)
    uploader.add(claim, made(tmp_path, content, "números & co/model.pt"))
    assert drained(uploader, claim) is None
    assert len(way.sent) == 6 + 2
    assert sum(way.sent) == 6 * PART_BYTES + 2 * (PART_BYTES // 2)
    assert signer.signed <= 1 + 2  # once for all, and once for each URL that was used in vain
    (fact,) = facts
    assert isinstance(fact, ArtifactRegistered)
    assert (fact.size, fact.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert signer.content(fact.key) == content


def test_an_upload_that_storage_forgot_is_sent_anew(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    def forget(body: dict[str, Any]) -> None:
        signer.on_complete = lambda _: None
        later = SystemClock().now() + timedelta(days=1)
        assert asyncio.run(signer.multipart.drop_older(signer.key(body), later)) == 1

    signer.on_complete = forget
    content = os.urandom(FROM_BYTES + 1)
    claim = claim_of(signer)
    uploader.add(claim, made(tmp_path, content, "model.pt"))
    assert drained(uploader, claim) is None
    (fact,) = facts
    assert isinstance(fact, ArtifactRegistered)
    assert signer.content(fact.key) == content


def test_a_large_file_that_grows_on_its_way_never_counts(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    growing = made(tmp_path, bytes(FROM_BYTES), "growing.bin")
    signer.on_signed = lambda: os.truncate(growing.path, FROM_BYTES + 1)
    claim = claim_of(signer)
    uploader.add(claim, growing)
    assert "written to" in str(drained(uploader, claim))
    assert [getattr(fact, "code", None) for fact in facts] == ["FILE_CHANGED"]
    prefix = f"runs/{signer.run_id}/"
    assert list(signer.minio.list_objects(signer.bucket, prefix=prefix, recursive=True)) == []


def test_the_sweeper_gives_up_old_uploads_and_no_others(signer: Signer) -> None:
    key = f"runs/{signer.run_id}/a1/x/model.pt"
    cutting = Cutting(FROM_BYTES, 4)

    async def sweep(grace: timedelta) -> list[bool | int]:
        begun = await signer.multipart.open(key, cutting)
        swept = await UploadSweeper(signer.multipart, SystemClock(), prefix=key, grace=grace).run_once()
        now = await signer.multipart.open(key, cutting)
        return [swept, begun.upload_id == now.upload_id]

    assert asyncio.run(sweep(timedelta(hours=1))) == [0, True]
    assert asyncio.run(sweep(timedelta(hours=-1))) == [1, False]
    asyncio.run(signer.multipart.drop_older(key, SystemClock().now() + timedelta(days=1)))


def test_an_expired_url_is_signed_again(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    expired = threading.Event()

    def expire() -> None:
        if not expired.is_set():
            expired.wait(1.5)  # the storage's clock alone decides when a URL has expired
            expired.set()
            signer.url_life = timedelta(minutes=5)

    signer.url_life = timedelta(seconds=1)
    signer.on_signed = expire
    claim = claim_of(signer)
    uploader.add(claim, made(tmp_path, b"late", "late.txt"))
    assert drained(uploader, claim) is None
    assert signer.signed >= 2
    assert [type(fact) for fact in facts] == [ArtifactRegistered]


def test_a_lost_lease_registers_nothing(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    claim = claim_of(signer, attempt=2)
    uploader.add(claim, made(tmp_path, b"zombie", "zombie.txt"))
    with pytest.raises(LeaseLost):
        drained(uploader, claim)
    assert facts == []


def test_a_file_written_to_after_the_hand_over_never_counts(
    signer: Signer, uploader: Uploader, facts: list[Fact], tmp_path: Path
) -> None:
    changing = made(tmp_path, b"a" * 2_000_000, "changing.bin")

    def change() -> None:
        Path(changing.path).write_bytes(b"b" * 2_000_000)

    signer.on_signed = change
    claim = claim_of(signer)
    uploader.add(claim, changing)
    assert "written to" in str(drained(uploader, claim))
    assert [getattr(fact, "code", None) for fact in facts if isinstance(fact, ArtifactFailed)] == [
        "FILE_CHANGED"
    ]
    prefix = f"runs/{signer.run_id}/"
    assert list(signer.minio.list_objects(signer.bucket, prefix=prefix, recursive=True)) == []


def test_an_upload_that_was_suspended_half_way_arrives_whole(
    signer: Signer, uploader: Uploader, facts: list[Fact], until: Until, tmp_path: Path
) -> None:
    content = os.urandom(8 << 20)
    signer.on_signed = lambda: uploader.suspend() if signer.signed == 1 else None
    claim = claim_of(signer)
    uploader.add(claim, made(tmp_path, content, "model.bin"))
    until(lambda: signer.signed == 1 and not uploader._may_send.is_set())
    assert uploader.has_waiting(claim)
    assert facts == []
    uploader.resume()
    assert drained(uploader, claim) is None
    (fact,) = facts
    assert isinstance(fact, ArtifactRegistered)
    assert signer.content(fact.key) == content
