"""Moves whole objects between the storage and this machine, of any size, in constant memory."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Final

from control_plane.files.blobs import PIECE_BYTES, Blobs, storage_call
from control_plane.store.log.inspections import Version
from events.runtime.errors import Transient

PART_BYTES_MIN: Final = 16 << 20
PARTS_MAX: Final = 10_000


async def fetch(blobs: Blobs, key: str, write: Callable[[bytes], object]) -> Version | None:
    """Write an object somewhere and return what was read; None when there is none.

    Raises `Transient` where it breaks off, `Rejected` for a key that no storage holds.
    """
    found = await blobs.version(key)
    if found is None:
        return None

    def read() -> Version:
        response = blobs.client.get_object(blobs.bucket, key)
        size = 0
        try:
            while piece := response.read1(PIECE_BYTES, decode_content=False):
                size += len(piece)
                write(piece)
        finally:
            response.close()
            response.release_conn()
        headers = response.headers
        read = Version(size, headers.get("etag", ""), headers.get("last-modified", ""))
        if size != int(headers.get("content-length", size)):
            raise Transient("storage_unreachable", "object storage broke off")
        return read

    return await storage_call(read)


async def send(blobs: Blobs, key: str, pieces: Iterator[bytes], size: int) -> None:
    """Put an object of this size. Raises `Transient`, `Rejected`."""
    await blobs.version(key)  # refuses a key that no storage holds
    part = max(PART_BYTES_MIN, size // PARTS_MAX + 1)
    await storage_call(
        lambda: blobs.client.put_object(
            blobs.bucket, key, _Stream(pieces), size, part_size=part, num_parallel_uploads=1
        )
    )


class _Stream(io.BytesIO):
    """Pieces as a file that can be read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._held = pieces, b""

    def read(self, most: int | None = -1) -> bytes:
        """Return so many bytes, less at the end alone."""
        found, most = bytearray(), -1 if most is None else most
        while most < 0 or len(found) < most:
            if not self._held:
                following = next(self._pieces, None)
                if following is None:
                    break
                self._held = following
            room = len(self._held) if most < 0 else most - len(found)
            found += self._held[:room]
            self._held = self._held[room:]
        return bytes(found)
