"""Reads and decompresses request bodies within limits that no declared size can change.

A small body may expand without end, and a client may send a byte a minute. So the bytes on the wire, the
result and the time are each bounded while reading, and no declaration is trusted.
"""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

import zstandard

from events.codec import TooLarge
from events.runtime.errors import Rejected

WIRE_BYTES_MAX: Final = 1024 * 1024
DECODED_BYTES_MAX: Final = 8 * 1024 * 1024
SMALL_BYTES: Final = 256 * 1024  # what is decoded at once, by anybody
CHUNK_BYTES: Final = 64 * 1024
WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024  # what RFC 8878 asks every decoder to have
PARTS_MAX: Final = 1_000  # gzip members or zstd frames; one for each line is the worst that makes sense
READ_TIME_S: Final = 10.0
ACCEPTED_ENCODINGS: Final = ("gzip", "zstd", "identity")

AcquireSlot = Callable[[], Awaitable[None]]


class UnsupportedMedia(Rejected):
    """The route does not accept the request's Content-Type."""


class UnsupportedEncoding(Rejected):
    """The body is compressed in a way that is not read here, or more than once."""

    def __init__(self, encoding: str) -> None:
        names = ", ".join(ACCEPTED_ENCODINGS)
        super().__init__(
            "unsupported_encoding",
            f"Content-Encoding {encoding[:60]!r} is not accepted: send one of {names}, one layer only",
        )
        self.accepted = ACCEPTED_ENCODINGS


class BadEncoding(Rejected):
    """The body does not have the encoding that its Content-Encoding names."""

    def __init__(self, encoding: str, why: str) -> None:
        super().__init__("bad_encoding", f"the body is no whole {encoding} stream: {why}")


class SlowBody(Rejected):
    """The body did not arrive in time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__("slow_body", f"the body did not arrive within {limit_s:g} s")


async def read_body(
    chunks: AsyncIterator[bytes],
    *,
    encoding: str | None,
    content_length: str | None,
    limit_s: float = READ_TIME_S,
    acquire_slot: AcquireSlot | None = None,
) -> bytes:
    """Return the decoded body, or raise the `Rejected` that says which limit it broke.

    `encoding` is the whole Content-Encoding; the values of repeated headers are joined by commas. What grows
    large waits for `acquire_slot` first, and is decoded beside the event loop.
    """
    coding = _coding(encoding)
    _check_declared(content_length)
    wire = await _read(chunks, limit_s)
    if coding == "identity":
        if len(wire) > SMALL_BYTES and acquire_slot is not None:
            await acquire_slot()
        return wire
    try:
        return _decoded(coding, wire, SMALL_BYTES)
    except TooLarge as error:
        if error.maximum != SMALL_BYTES:
            raise
    if acquire_slot is not None:
        await acquire_slot()
    return await asyncio.to_thread(_decoded, coding, wire, DECODED_BYTES_MAX)


def _decoded(coding: str, wire: bytes, maximum: int) -> bytes:
    return _bounded(_from_gzip(wire), maximum) if coding == "gzip" else _from_zstd(wire, maximum)


def _coding(encoding: str | None) -> str:
    name = (encoding or "identity").strip().lower()
    if name == "x-gzip":  # the same thing, says RFC 9110
        return "gzip"
    if name not in ACCEPTED_ENCODINGS:
        raise UnsupportedEncoding(name)
    return name


def _check_declared(content_length: str | None) -> None:
    if content_length is None:
        return
    if not (content_length.isascii() and content_length.isdigit()):
        raise Rejected("bad_length", "Content-Length must be decimal digits")
    digits = content_length.lstrip("0")
    # By digits first, since a number of thousands of digits is costly to convert.
    if len(digits) > len(str(WIRE_BYTES_MAX)) or int(digits or "0") > WIRE_BYTES_MAX:
        raise TooLarge("wire_bytes", WIRE_BYTES_MAX)


async def _read(chunks: AsyncIterator[bytes], limit_s: float) -> bytes:
    wire = bytearray()
    try:
        async with asyncio.timeout(limit_s):
            async for chunk in chunks:
                if len(wire) + len(chunk) > WIRE_BYTES_MAX:
                    raise TooLarge("wire_bytes", WIRE_BYTES_MAX)
                wire += chunk
    except TimeoutError:
        raise SlowBody(limit_s) from None
    return bytes(wire)


def _bounded(pieces: Iterator[bytes], maximum: int) -> bytes:
    body = bytearray()
    for piece in pieces:
        if len(body) + len(piece) > maximum:
            raise TooLarge("decoded_bytes", maximum)
        body += piece
    return bytes(body)


def _slices(wire: bytes) -> Iterator[bytes]:
    return (wire[at : at + CHUNK_BYTES] for at in range(0, len(wire), CHUNK_BYTES))


def _from_gzip(wire: bytes) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    members = 1
    # In slices, because zlib copies what it leaves over, once for each member and each piece.
    for part in _slices(wire):
        rest = part
        while rest or not member.eof:
            if member.eof:
                member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                members += 1
            if members > PARTS_MAX:
                raise TooLarge("encoded_parts", PARTS_MAX)
            try:
                piece = member.decompress(rest, CHUNK_BYTES)
            except zlib.error:
                raise BadEncoding("gzip", "it is corrupt") from None
            yield piece
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if not rest and len(piece) < CHUNK_BYTES:  # a full piece may have more behind it
                break
    if not member.eof:
        raise BadEncoding("gzip", "it breaks off")


def _from_zstd(wire: bytes, maximum: int) -> bytes:
    try:
        body = _bounded(_zstd_pieces(wire), maximum)
        if not _is_whole_zstd(wire):
            raise BadEncoding("zstd", "it breaks off")
    except zstandard.ZstdError:
        raise BadEncoding("zstd", "it is corrupt, or its window is over 8 MiB") from None
    return body


def _zstd_pieces(wire: bytes) -> Iterator[bytes]:
    # Not `decompress(max_output_size=...)`: it ignores the maximum where the frame declares its size.
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    with decompressor.stream_reader(io.BytesIO(wire), read_across_frames=True) as reader:
        while piece := reader.read(CHUNK_BYTES):
            yield piece


def _is_whole_zstd(wire: bytes) -> bool:
    """Tell whether the last frame ends, which the bounded reader above does not notice.

    To be called on what that reader found to be small, since nothing is bounded here.
    """
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    frames = 1
    for part in _slices(wire):
        rest = part
        while rest:
            if frame.eof:
                frame = decompressor.decompressobj()
                frames += 1
            if frames > PARTS_MAX:
                raise TooLarge("encoded_parts", PARTS_MAX)
            frame.decompress(rest)
            rest = frame.unused_data if frame.eof else b""
    return frame.eof
