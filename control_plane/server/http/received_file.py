"""Receives a body that is a file, of any size up to a bound, into a file without a name.

Law: what is received goes to the disk and not into memory; the disk keeps room for others; a sender that
stops is not waited for. The file is gone with whoever held it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO, Final

from starlette.requests import Request

from control_plane.server.http.bodies import SlowBody
from events.codec import TooLarge
from events.runtime.errors import Transient

FILE_BYTES_MAX: Final = 64 * 1024**3
FREE_BYTES_MIN: Final = 1024**3  # of the disk, which others write to
PIECE_S: Final = 30.0  # in which a live sender sends something
HELD_BYTES: Final = 1024 * 1024
LIMIT: Final = "archive_bytes"


@asynccontextmanager
async def received(request: Request, most: int = FILE_BYTES_MAX) -> AsyncIterator[BinaryIO]:
    """Yield the body of a request as a file, at its begin.

    Raises `TooLarge`, `SlowBody`, and `Transient` where the disk has no room for it.
    """
    with tempfile.TemporaryFile(buffering=0) as file:
        declared = request.headers.get("content-length", "")
        _require_room(file, int(declared) if declared.isdecimal() else 0, most)
        size, held = 0, bytearray()
        pieces = request.stream()
        while True:
            try:
                async with asyncio.timeout(PIECE_S):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise SlowBody(PIECE_S) from None
            held += piece or b""
            size += len(piece or b"")
            if size > most:
                raise TooLarge(LIMIT, most)
            if len(held) >= HELD_BYTES or piece is None:
                await asyncio.to_thread(_written, file, bytes(held))
                held.clear()
            if piece is None:
                break
        file.seek(0)
        yield file


def _written(file: BinaryIO, content: bytes) -> None:
    _require_room(file, len(content), len(content))
    try:
        while content:
            content = content[file.write(content) :]
    except OSError as error:
        raise _no_room() from error


def _require_room(file: BinaryIO, size: int, most: int) -> None:
    if size > most:
        raise TooLarge(LIMIT, most)
    disk = os.fstatvfs(file.fileno())
    if disk.f_bavail * disk.f_frsize < size + FREE_BYTES_MIN:
        raise _no_room()


def _no_room() -> Transient:
    return Transient("no_room", "the disk of the control plane has no room for this file (TMPDIR)")
