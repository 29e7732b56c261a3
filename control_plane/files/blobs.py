"""Object storage: signs URLs, by which pods and browsers read and put objects, and reads objects."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, TypeVar
from urllib.parse import quote
from xml.etree.ElementTree import ParseError

from minio.error import MinioException, S3Error, ServerError
from minio.time import from_http_header
from urllib3 import BaseHTTPResponse, PoolManager, Retry, Timeout
from urllib3.exceptions import HTTPError

from control_plane.config import Storage
from control_plane.files.handing_out import handed_out
from control_plane.files.object_keys import is_key
from control_plane.files.public_urls import DOWNLOAD, PublicFiles
from control_plane.files.signing import URL_LIFE, PutSigner
from control_plane.files.storage_client import TimedClient, TimedPool
from control_plane.model.presentation import IN_PLACE
from control_plane.store.log.inspections import Looked, Version
from events.runtime.clock import SystemClock
from events.runtime.errors import ConfigError, Rejected, Transient
from events.runtime.measured_clock import ALARM_S, THE_STORAGES, MeasuredClock, ahead_words

T = TypeVar("T")
PIECE_BYTES: Final = 256 * 1024
# For so long an object is read, and so much longer for each byte of it: who sends less holds a thread up.
READ_S: Final = 60.0
BYTES_A_SECOND_MIN: Final = 1024 * 1024
# `Last-Modified` counts seconds: what was put into one second may be two objects.
SETTLED: Final = timedelta(seconds=3)
# What the SDK raises over an answer that no storage should give.
UNREADABLE: Final = (ValueError, TypeError, AttributeError, OverflowError, ParseError)
MISSING: Final = frozenset({"NoSuchKey", "NoSuchObject", "NotFound"})
REFUSED: Final = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
FOR_GOOD: Final = frozenset({400, 405, 411, 412, 413, 414, 416})  # it will answer no better later
SHOWN_CHARS_MAX: Final = 300
# The SDK's own are five minutes and five tries, in which a request of ours would hang.
TIMEOUT: Final = Timeout(connect=3.0, read=10.0)
CONNECTIONS_MAX: Final = 16
LISTED_MAX: Final = 10_000  # objects of a page
MACHINE: Final = SystemClock()
RETRIES: Final = Retry(total=2, backoff_factor=0.2, status_forcelist=(500, 502, 503, 504))
# Of a look whose answer is awaited.
QUICK_TIMEOUT: Final = Timeout(connect=0.7, read=0.7)
QUICK_THREADS: Final = 2
TRIAL_KEY: Final = ".podfleet/trial"
TRIAL_BYTES: Final = 4096  # a block of any file system: a smaller file may find room where no artifact does
FULL: Final = frozenset({"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded"})
INSUFFICIENT_STORAGE: Final = 507
NO_SPACE: Final = "no space left"


@dataclass(frozen=True, slots=True)
class Blobs:
    """One bucket.

    Every method raises `Transient` when the storage does not answer, and `Rejected` for a key that no
    storage holds (`bad_key`), or that this one refuses: the keys of registered files are what a pod said.
    """

    client: TimedClient
    bucket: str
    puts: PutSigner
    http: PoolManager
    clock: MeasuredClock  # the storage's
    public: PublicFiles | None = None  # None: who is outside reaches the storage itself
    threads: Executor | None = None  # of its own, which wait for no other work

    async def measure(self) -> None:
        """Ask the storage for its time."""
        await storage_call(self.client.measure)

    async def prepare(self) -> None:
        """Make the bucket if it is not there, and learn what its storage holds a PUT to.

        Raises `ConfigError` where our keys are not valid.
        """
        await self.measure()

        def make() -> None:
            try:
                if not self.client.bucket_exists(self.bucket):
                    self.client.make_bucket(self.bucket)
                self.puts.learn(self.http)
            except S3Error as error:
                if error.code not in REFUSED:
                    raise
                raise ConfigError([self._refusal(error.code)]) from error

        await storage_call(make)

    async def ping(self) -> None:
        """Check that the storage answers. Raises `Transient`, also `storage_refused`."""

        def ping() -> None:
            try:
                self.client.bucket_exists(self.bucket)
            except S3Error as error:
                if error.code in REFUSED:
                    raise Transient("storage_refused", f"object storage refuses us: {error.code}") from error
                raise

        await storage_call(ping, self.threads)

    async def try_put(self) -> None:
        """Check that the storage takes a small object. Raises `Transient`, also `storage_full`."""

        def put() -> None:
            body = io.BytesIO(bytes(TRIAL_BYTES))
            try:
                done = self.client.put_object(self.bucket, TRIAL_KEY, body, TRIAL_BYTES)
            except S3Error as error:
                if _is_full(error):
                    raise Transient("storage_full", f"object storage is full: {error.code}") from error
                raise
            if not done.etag:
                raise Transient("storage_unreachable", "what answers names no object: it is no storage")

        await storage_call(put, self.threads)

    async def put(self, key: str, content: bytes) -> None:
        """Put an object of our own."""
        _require_key(key)
        await storage_call(
            lambda: self.client.put_object(self.bucket, key, io.BytesIO(content), len(content))
        )

    async def get_url(self, key: str, *, name: str, content_type: str = DOWNLOAD) -> str:
        """Return a URL from which the object can be read, as a download unless browsers show it in place.

        The type that the storage answers with is signed too: whoever put the object there has given it
        a type of his own, and a page in the place of a paper would run in a frame of ours.
        """
        _require_key(key)
        is_shown = content_type in IN_PLACE
        kind = "inline" if is_shown else "attachment"
        disposition = f"{kind}; filename*=UTF-8''{quote(name.rpartition('/')[2], safe='')}"
        url = await storage_call(
            lambda: self.client.presigned_get_object(
                self.bucket,
                key,
                expires=URL_LIFE,
                response_headers={
                    "response-content-disposition": disposition,
                    "response-content-type": content_type if is_shown else DOWNLOAD,
                },
            )
        )
        return handed_out(self.public, url)

    async def digest(self, key: str, most: int) -> tuple[int, str] | None:
        """Return size and SHA-256 of an object, as `read` reads it; None when there is none."""
        looked = await self.read(key, most)
        return None if looked is None else (looked.version.size, looked.sha256)

    async def read(self, key: str, most: int) -> Looked | None:
        """Read an object as it is stored, not much further than `most` bytes; None if there is none."""
        _require_key(key)

        def read() -> Looked | None:
            if self._stat(key) is None:
                return None
            begun = self.clock.now()
            response = self.client.get_object(self.bucket, key)
            size, digest = 0, hashlib.sha256()
            for piece in self._pieces(response, most):
                size += len(piece)
                digest.update(piece)
            # Of what was read, whatever was put in its place meanwhile.
            version = _version(size, response.headers)
            return Looked(version, digest.hexdigest(), is_settled=_is_settled(version, begun))

        return await storage_call(read)

    async def content(self, key: str, most: int) -> AsyncGenerator[bytes, None]:
        """Yield an object as it is stored, not much further than `most` bytes; nothing if there is none.

        A reader may be slow: each wait for the storage is bounded, and not the whole.
        """
        _require_key(key)

        def opened() -> BaseHTTPResponse | None:
            return None if self._stat(key) is None else self.client.get_object(self.bucket, key)

        response = await storage_call(opened)
        if response is None:
            return
        left = most
        try:
            while left >= 0 and (piece := await storage_call(lambda: _next_of(response))):
                left -= len(piece)
                yield piece
        finally:
            response.close()
            response.release_conn()

    async def version(self, key: str) -> Version | None:
        """Return the version of an object as the storage reports it, None if there is none."""
        _require_key(key)
        return await storage_call(lambda: self._stat(key))

    async def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        _require_key(key)
        await storage_call(lambda: self.client.remove_object(self.bucket, key))

    async def older(self, prefix: str, age: timedelta) -> AsyncIterator[list[str]]:
        """Yield pages of the keys below a prefix of what was put longer ago, by the storage's clock."""
        moment = self.clock.now() - age
        found = self.client.list_objects(self.bucket, prefix=prefix, recursive=True)
        while page := await storage_call(lambda: [*islice(found, LISTED_MAX)]):
            yield [
                each.object_name
                for each in page
                if each.object_name and each.last_modified and each.last_modified < moment
            ]

    async def beginning(self, key: str, limit: int) -> tuple[Version, bytes] | None:
        """Return the version of an object and at most its first `limit` bytes, None when there is none."""
        _require_key(key)

        def read() -> tuple[Version, bytes] | None:
            version = self._stat(key)
            if version is None or not version.size:  # of an empty object no range can be asked for
                return None if version is None else (version, b"")
            response = self.client.get_object(self.bucket, key, length=limit)
            content = b"".join(self._pieces(response, limit))[:limit]
            return _version(version.size, response.headers), content

        return await storage_call(read)

    def _pieces(self, response: BaseHTTPResponse, most: int) -> Iterator[bytes]:
        """Yield the body of an answer as it was sent, until more than `most` bytes came. Raises `Transient`.

        Nothing is decoded: how an object is encoded says whoever put it there.
        """
        left, until_s = most, self.clock.monotonic_s() + READ_S + most / BYTES_A_SECOND_MIN
        try:
            while left >= 0 and (piece := response.read1(PIECE_BYTES, decode_content=False)):
                left -= len(piece)
                yield piece
                if self.clock.monotonic_s() > until_s:
                    raise Transient("storage_slow", "object storage takes too long to send an object")
        finally:
            response.close()
            response.release_conn()

    def _refusal(self, code: str) -> str:
        """Say why the storage refuses us, and what of it our clock may have to do with."""
        refused = f"MINIO_ACCESS_KEY, MINIO_SECRET_KEY: the storage refuses them ({code})"
        ahead_s = self.clock.machine_ahead_s
        if ahead_s is None:
            return f"{refused}; it does not tell its time: is the clock of this machine right?"
        if abs(ahead_s) < ALARM_S:
            return refused
        return f"{refused}; the clock of this machine is {ahead_words(ahead_s, THE_STORAGES)}"

    def _stat(self, key: str) -> Version | None:
        try:
            found = self.client.stat_object(self.bucket, key)
            return _version(found.size or 0, found.metadata or {})
        except S3Error as error:
            if error.code in MISSING:
                return None
            raise


def _next_of(response: BaseHTTPResponse) -> bytes:
    return bytes(response.read1(PIECE_BYTES, decode_content=False))


def _version(size: int, headers: Mapping[str, str]) -> Version:
    return Version(size, headers.get("etag", ""), headers.get("last-modified", ""))


def _is_settled(version: Version, begun: datetime) -> bool:
    """Say whether an object that is put after `begun` has another time than this one."""
    try:
        return from_http_header(version.modified) + SETTLED <= begun
    except ValueError:
        return False


def _require_key(key: str) -> None:
    if not is_key(key):
        raise Rejected("bad_key", f"the file was registered under a key that no storage holds: {key!r}")


def open_blobs(
    storage: Storage,
    clock: MeasuredClock | None = None,
    *,
    is_quick: bool = False,
    public_url: str | None = None,
) -> Blobs:
    """Return the bucket of the settings; nothing is asked yet. Raises `ConfigError`.

    `clock` is the storage's; without it one is made, which nobody has measured yet. With a `public_url` the
    URLs for others than this machine have their public form.

    One that `is_quick` has threads of its own, and asks each thing once and for less than a second.
    """
    clock = clock or MeasuredClock(MACHINE)
    http = TimedPool(
        clock,
        timeout=QUICK_TIMEOUT if is_quick else TIMEOUT,
        retries=False if is_quick else RETRIES,
        maxsize=CONNECTIONS_MAX,
    )
    try:
        client = TimedClient(
            storage.endpoint,
            origin=storage.origin,
            clock=clock,
            access_key=storage.access_key,
            secret_key=storage.secret_key,
            secure=storage.is_secure,
            region=storage.region,  # without it the SDK asks the storage before every signature
            http_client=http,
        )
        sample = client.get_presigned_url("GET", storage.bucket, "any")  # the SDK checks the bucket's name
    except ValueError as error:
        raise ConfigError([f"MINIO_ENDPOINT, MINIO_BUCKET: {error}"]) from error
    threads = ThreadPoolExecutor(QUICK_THREADS, "quick") if is_quick else None
    public = None
    if public_url is not None:
        public = PublicFiles.of(
            *(public_url, storage.bucket, sample),
            access_key=storage.access_key,
            secret_key=storage.secret_key,
        )
    signer = PutSigner(client, storage.bucket, storage.secret_key, public=public)
    return Blobs(client, storage.bucket, signer, http, clock, public, threads)


def _is_full(error: S3Error) -> bool:
    return (
        error.code in FULL
        or error.response.status == INSUFFICIENT_STORAGE
        or NO_SPACE in str(error.message).lower()
    )


async def storage_call(step: Callable[[], T], threads: Executor | None = None) -> T:
    """Ask the storage beside the event loop.

    Raises `Transient` when it does not answer, `Rejected` where it refuses for good what is asked for.
    """
    try:
        # With what is known of the request: for whom a URL is signed depends on it.
        context = copy_context()
        return await asyncio.get_running_loop().run_in_executor(threads, lambda: context.run(step))
    except (S3Error, ServerError) as error:
        status = error.response.status if isinstance(error, S3Error) else error.status_code
        if status not in FOR_GOOD:
            raise _unreachable(error) from error
        raise Rejected("storage_refuses", f"object storage refuses it: {error}"[:SHOWN_CHARS_MAX]) from error
    except (MinioException, HTTPError, OSError, *UNREADABLE) as error:
        raise _unreachable(error) from error


def _unreachable(error: Exception) -> Transient:
    return Transient("storage_unreachable", f"object storage does not answer ({type(error).__name__})")
