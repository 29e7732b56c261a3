"""What a file of a picture says of itself: its format and its size; pure.

Law: nothing is decoded or unpacked. A file that is cut off, damaged or followed by something is no picture.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final, Literal

PNG: Final = b"\x89PNG\r\n\x1a\n"
JPEG: Final = b"\xff\xd8\xff"
JPEG_END: Final = b"\xff\xd9"
CHUNK_AROUND_BYTES: Final = 12  # length, type and checksum
# Frames of JPEG; those between are tables.
FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
SCAN: Final = 0xDA
SIDE_MAX: Final = 1 << 16


class NotAPicture(ValueError):
    """The bytes are no whole picture; its text says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The format and the size of a picture, in pixels."""

    format: Literal["png", "jpeg"]
    width: int
    height: int


def read_picture(data: bytes) -> Picture:
    """Return what a file of a picture says of itself. Raises `NotAPicture`."""
    if data.startswith(PNG):
        found = Picture("png", *_size_of_png(data))
    elif data.startswith(JPEG):
        found = Picture("jpeg", *_size_of_jpeg(data))
    else:
        raise NotAPicture(f"neither PNG nor JPEG: it begins with {data[:8]!r}" if data else "it is empty")
    if not (0 < found.width <= SIDE_MAX and 0 < found.height <= SIDE_MAX):
        raise NotAPicture(f"a picture of {found.width} × {found.height} pixels is none")
    return found


def _size_of_png(data: bytes) -> tuple[int, int]:
    size: tuple[int, int] | None = None
    has_pixels = False
    at = len(PNG)
    while at + CHUNK_AROUND_BYTES <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, end = data[at + 4 : at + 8], at + CHUNK_AROUND_BYTES + length
        if end > len(data):
            break
        if struct.unpack_from(">I", data, end - 4)[0] != zlib.crc32(memoryview(data)[at + 4 : end - 4]):
            raise NotAPicture(f"a PNG with a damaged part {kind!r}")
        if (size is None) != (kind == b"IHDR") or (kind == b"IHDR" and length != 13):
            raise NotAPicture("a PNG that does not begin with its size, once")
        if kind == b"IHDR":
            size = struct.unpack_from(">II", data, at + 8)
        has_pixels = has_pixels or (kind == b"IDAT" and length > 0)
        at = end
        if kind == b"IEND":
            if size is None or not has_pixels or at != len(data):
                raise NotAPicture("a PNG without pixels, or with something behind its end")
            return size
    raise NotAPicture("a PNG that is cut off")


def _size_of_jpeg(data: bytes) -> tuple[int, int]:
    if not data.endswith(JPEG_END):
        raise NotAPicture("a JPEG that is cut off, or with something behind its end")
    size: tuple[int, int] | None = None
    at = 2
    while at + 4 <= len(data):
        mark, kind = data[at], data[at + 1]
        (length,) = struct.unpack_from(">H", data, at + 2)
        if mark != 0xFF or length < 2:
            break
        if kind in FRAMES and length >= 8 and at + 9 <= len(data):
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = (width, height)
        if kind == SCAN:
            if size is None:
                break
            return size
        at += 2 + length
    raise NotAPicture("a JPEG without its size, or that is damaged")
