"""Files of pictures that are whole, and such that are none."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image

from stages.kinds.image.pictures import PNG, NotAPicture, Picture, read_picture
from testing.comfy_double.server import png

WHOLE = png(40, 24, 1)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def saved(format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (48, 32), "red").save(buffer, format=format, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "picture"),
    [
        (WHOLE, Picture("png", 40, 24)),
        (saved("PNG"), Picture("png", 48, 32)),
        (saved("JPEG"), Picture("jpeg", 48, 32)),
        (saved("JPEG", progressive=True, exif=b"Exif\0\0" + bytes(500)), Picture("jpeg", 48, 32)),
    ],
)
def test_a_whole_picture_says_its_size(data: bytes, picture: Picture) -> None:
    assert read_picture(data) == picture


HEAD = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
PIXELS = chunk(b"IDAT", zlib.compress(b"x"))
END = chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"<!doctype html>", "neither PNG nor JPEG"),
        (WHOLE[:-1], "cut off"),
        (WHOLE[:20], "cut off"),
        (WHOLE + b"<script>", "behind its end"),
        (WHOLE[:60] + b"\xff" + WHOLE[61:], "damaged"),
        (PNG + PIXELS + chunk(b"IHDR", HEAD) + END, "does not begin with its size"),
        (PNG + chunk(b"IHDR", HEAD) + chunk(b"IHDR", HEAD) + PIXELS + END, "does not begin with its size"),
        (PNG + chunk(b"IHDR", HEAD[:5]) + PIXELS + END, "does not begin with its size"),
        (PNG + chunk(b"IHDR", HEAD) + END, "without pixels"),
        (PNG + chunk(b"IHDR", bytes(8) + HEAD[8:]) + PIXELS + END, "is none"),
        (PNG + chunk(b"IHDR", b"\xff" * 8 + HEAD[8:]) + PIXELS + END, "is none"),
        (PNG + struct.pack(">I", 0xFFFFFFFF) + b"IHDR" + HEAD, "cut off"),
        (saved("JPEG")[:-1], "cut off"),
        (saved("JPEG")[:-200] + b"\xff\xd9", "without its size"),
        (b"\xff\xd8\xff\xe0\x00\x00\xff\xd9", "without its size"),
        (b"\xff\xd8\xff\xda\x00\x08" + bytes(8) + b"\xff\xd9", "without its size"),
    ],
)
def test_what_is_no_picture_is_told_why(data: bytes, words: str) -> None:
    with pytest.raises(NotAPicture, match=words):
        read_picture(data)
