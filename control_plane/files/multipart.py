"""Multipart uploads: which parts storage has, where the rest goes, and how they become one object.

Law: storage alone knows which parts exist. The control plane stores nothing, and uses no claim of a sender
about its parts. So a client that asks again, of any replica, continues where storage stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from minio import Minio
from minio.datatypes import Part, Upload
from minio.error import InvalidResponseError, S3Error

from control_plane.files.blobs import MISSING, storage_call
from control_plane.files.signing import Content, PutSigner

PART_BYTES_MIN: Final = 5 << 20  # of S3; only the last may be smaller
PARTS_MAX: Final = 10_000  # of S3
LISTED_MAX: Final = 1_000  # parts of one answer of storage
SIGNED_MAX: Final = 32  # of one answer
GONE: Final = "NoSuchUpload"
LISTINGS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a file is cut: into `count` parts of one size, of which the last may be smaller."""

    size: int
    count: int

    @property
    def part_bytes(self) -> int:
        """Return the size of every part but the last."""
        return -(-self.size // self.count)

    def sizes(self) -> dict[int, int]:
        """Return the size of each part by its number."""
        last = self.size - self.part_bytes * (self.count - 1)
        return {**dict.fromkeys(range(1, self.count), self.part_bytes), self.count: last}


@dataclass(frozen=True, slots=True)
class Opened:
    """An upload, and for the first of its missing parts a URL to PUT each to."""

    upload_id: str
    missing: int
    urls: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Multipart:
    """Uploads in parts into one bucket. Every method raises `Transient` when storage does not answer."""

    client: Minio
    bucket: str
    puts: PutSigner

    async def open(self, key: str, cutting: Cutting) -> Opened:
        """Go on with the upload of this object, or begin it; one that was cut otherwise is dropped."""

        def find_or_begin() -> Opened:
            upload_id = self._find(key)
            held = {part.part_number: part.size for part in self._held(key, upload_id)} if upload_id else {}
            sizes = cutting.sizes()
            if upload_id and not held.items() <= sizes.items():
                self._drop(key, upload_id)
                upload_id, held = None, {}
            if upload_id is None:
                upload_id = self.client._create_multipart_upload(self.bucket, key, {})
            missing = [number for number in sizes if number not in held]
            urls = {
                number: self._signed(key, upload_id, number, sizes[number]) for number in missing[:SIGNED_MAX]
            }
            return Opened(upload_id, len(missing), urls)

        return await storage_call(find_or_begin)

    async def join(self, key: str, size: int) -> bool:
        """Make an object of the parts that are there, if they are `size` bytes together; say whether so.

        None is made in the place of another.
        """

        def join() -> bool:
            upload_id = self._find(key)
            parts = self._held(key, upload_id) if upload_id else []
            etag = None
            if upload_id and self._is_there(key):
                self._drop(key, upload_id)
            elif upload_id and parts and sum(part.size or 0 for part in parts) == size:
                with _gone_already():  # where another joined them meanwhile
                    etag = self.client._complete_multipart_upload(self.bucket, key, upload_id, parts).etag
            return etag is not None  # S3 may say 200 and an error in the body

        return await storage_call(join)

    async def drop_older(self, prefix: str, moment: datetime) -> int:
        """Give up the uploads below `prefix` that began before `moment`; return how many."""

        def drop() -> int:
            old = [each for each in self._under(prefix) if _begun(each) < moment]
            for each in old:
                self._drop(each.object_name, each.upload_id or "")
            return len(old)

        return await storage_call(drop)

    def _is_there(self, key: str) -> bool:
        try:
            self.client.stat_object(self.bucket, key)
        except S3Error as error:
            if error.code in MISSING:
                return False
            raise
        return True

    def _find(self, key: str) -> str | None:
        """Return the latest upload of this very object."""
        uploads: list[Upload] = []
        with _gone_already():  # rclone's word for a bucket without any
            uploads = self.client._list_multipart_uploads(self.bucket, prefix=key).uploads
        own = [each for each in uploads if each.object_name == key and each.upload_id]
        return max(own, key=lambda each: (_begun(each), each.upload_id)).upload_id if own else None

    def _held(self, key: str, upload_id: str) -> list[Part]:
        held: list[Part] = []
        after = None
        with _gone_already():
            for _ in range(PARTS_MAX // LISTED_MAX):
                page = self.client._list_parts(
                    self.bucket, key, upload_id, max_parts=LISTED_MAX, part_number_marker=after
                )
                held += page.parts
                after = page.next_part_number_marker
                if not page.is_truncated or not after:
                    break
        return held

    def _signed(self, key: str, upload_id: str, number: int, size: int) -> str:
        return self.puts.sign(key, Content(size), partNumber=str(number), uploadId=upload_id).url

    def _drop(self, key: str, upload_id: str) -> None:
        with _gone_already():
            self.client._abort_multipart_upload(self.bucket, key, upload_id)

    def _under(self, prefix: str) -> Iterator[Upload]:
        after = None
        with _gone_already():
            for _ in range(LISTINGS_MAX):
                page = self.client._list_multipart_uploads(self.bucket, prefix=prefix, key_marker=after)
                yield from page.uploads
                if not page.is_truncated:
                    break
                after = page.next_key_marker


def _begun(upload: Upload) -> datetime:
    return upload.initiated_time or datetime.max.replace(tzinfo=UTC)


@contextmanager
def _gone_already() -> Iterator[None]:
    """Treat an upload that the storage no longer knows as ended."""
    try:
        yield
    except (
        S3Error,
        InvalidResponseError,
    ) as error:  # rclone's errors are of a type that the SDK does not read
        if GONE not in str(error):
            raise
