"""Bodies that lie about their size, their end or their encoding."""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from control_plane.server.http import bodies
from control_plane.server.http.bodies import (
    ACCEPTED_ENCODINGS,
    CHUNK_BYTES,
    DECODED_BYTES_MAX,
    PARTS_MAX,
    SMALL_BYTES,
    WIRE_BYTES_MAX,
    BadEncoding,
    SlowBody,
    UnsupportedEncoding,
    read_body,
)
from events.codec import TooLarge
from events.runtime.errors import Rejected

GIB = 1024**3
ZEROS = bytes(1024**2)
NOISE = os.urandom(300_000)
Compress = Callable[[bytes], bytes]


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(body)


def zstd_without_size(body: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(body) + compressor.flush()


def gzip_bomb() -> bytes:
    compressor = zlib.compressobj(9, wbits=31)
    head = compressor.compress(b"") + compressor.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing is remembered, so what follows may be repeated as it is.
    block = b"".join(compressor.compress(ZEROS) for _ in range(32)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return head + block * (GIB // len(ZEROS) // 32)


def zstd_bomb(*, declared: bool) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj(size=GIB if declared else -1)
    return b"".join(compressor.compress(ZEROS) for _ in range(GIB // len(ZEROS))) + compressor.flush()


COMPRESS: dict[str, Compress] = {"gzip": gzip.compress, "zstd": zstd}
COMPRESSORS = [
    pytest.param("gzip", gzip.compress, id="gzip"),
    pytest.param("zstd", zstd, id="zstd"),
    pytest.param("zstd", zstd_without_size, id="zstd of no declared size"),
]


async def stream(body: bytes, size: int = 10_000) -> AsyncIterator[bytes]:
    for at in range(0, len(body), size):
        yield body[at : at + size]


async def read(body: bytes, encoding: str | None = None, content_length: str | None = None) -> bytes:
    return await read_body(stream(body), encoding=encoding, content_length=content_length)


@pytest.mark.parametrize("encoding", [None, "", "identity", " Identity "])
async def test_a_plain_body_is_what_was_sent(encoding: str | None) -> None:
    assert await read(NOISE, encoding) == NOISE
    assert await read(b"", encoding) == b""


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
@pytest.mark.parametrize("body", [b"", b"a", NOISE, NOISE + bytes(3_000_000), bytes(CHUNK_BYTES)])
async def test_a_compressed_body_is_what_was_compressed(
    encoding: str, compress: Compress, body: bytes
) -> None:
    assert await read(compress(body), encoding) == body


@pytest.mark.parametrize("encoding", ["GZIP", "x-gzip", " gzip "])
async def test_an_encoding_may_be_spelt_in_its_other_ways(encoding: str) -> None:
    assert await read(gzip.compress(b"a"), encoding) == b"a"


@pytest.mark.parametrize(
    "encoding", ["br", "deflate", "gzip, gzip", "zstd,gzip", "identity, gzip", "x" * 9_000]
)
async def test_another_encoding_or_a_second_layer_is_refused_naming_the_accepted(encoding: str) -> None:
    with pytest.raises(UnsupportedEncoding) as raised:
        await read(b"", encoding)
    assert raised.value.code == "unsupported_encoding"
    assert raised.value.accepted == ACCEPTED_ENCODINGS
    assert all(name in raised.value.message for name in ACCEPTED_ENCODINGS)
    assert len(raised.value.message) < 300


async def test_the_wire_is_read_up_to_its_limit_and_no_further() -> None:
    assert len(await read(bytes(WIRE_BYTES_MAX))) == WIRE_BYTES_MAX
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += CHUNK_BYTES
            yield bytes(CHUNK_BYTES)

    with pytest.raises(TooLarge) as raised:
        await read_body(endless(), encoding="gzip", content_length=None)
    assert (raised.value.limit, raised.value.maximum) == ("wire_bytes", WIRE_BYTES_MAX)
    assert taken <= WIRE_BYTES_MAX + CHUNK_BYTES


async def observed(body: bytes, taken: list[bytes]) -> AsyncIterator[bytes]:
    taken.append(body)
    yield body


@pytest.mark.parametrize("content_length", [str(WIRE_BYTES_MAX + 1), "9" * 9_000])
async def test_a_body_that_announces_too_much_is_not_even_read(content_length: str) -> None:
    taken: list[bytes] = []
    with pytest.raises(TooLarge):
        await read_body(observed(b"a", taken), encoding=None, content_length=content_length)
    assert taken == []


@pytest.mark.parametrize("content_length", ["", "-1", "1e3", "0x10", "٣"])
async def test_a_length_that_is_no_number_is_rejected(content_length: str) -> None:
    with pytest.raises(Rejected) as raised:
        await read(b"", None, content_length)
    assert raised.value.code == "bad_length"


@pytest.mark.parametrize("content_length", ["0", "000000000000003", str(WIRE_BYTES_MAX)])
async def test_a_length_that_was_announced_too_small_lifts_no_limit(content_length: str) -> None:
    assert await read(b"abc", None, content_length) == b"abc"
    with pytest.raises(TooLarge):
        await read(bytes(WIRE_BYTES_MAX + 1), None, content_length)


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
async def test_the_decoded_body_is_bounded_to_the_byte(encoding: str, compress: Compress) -> None:
    assert len(await read(compress(bytes(DECODED_BYTES_MAX)), encoding)) == DECODED_BYTES_MAX
    with pytest.raises(TooLarge) as raised:
        await read(compress(bytes(DECODED_BYTES_MAX + 1)), encoding)
    assert (raised.value.limit, raised.value.maximum) == ("decoded_bytes", DECODED_BYTES_MAX)


@pytest.mark.parametrize(
    ("encoding", "make_bomb"),
    [
        pytest.param("gzip", gzip_bomb, id="gzip"),
        pytest.param("zstd", lambda: zstd_bomb(declared=True), id="zstd"),
        pytest.param("zstd", lambda: zstd_bomb(declared=False), id="zstd of no declared size"),
    ],
)
async def test_a_gibibyte_of_zeros_takes_the_memory_of_one_limit(
    encoding: str, make_bomb: Callable[[], bytes]
) -> None:
    bomb = make_bomb()
    assert len(bomb) <= WIRE_BYTES_MAX
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge) as raised:
            await read(bomb, encoding)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert raised.value.limit == "decoded_bytes"
    assert peak < 3 * DECODED_BYTES_MAX


@pytest.mark.parametrize(("encoding", "compress"), [(None, bytes), *COMPRESSORS])
async def test_only_what_is_large_waits_for_room(encoding: str | None, compress: Compress) -> None:
    asked = []

    async def acquire_slot() -> None:
        asked.append(True)

    for size, waits in ((SMALL_BYTES, 0), (SMALL_BYTES + 1, 1)):
        sent = compress(bytes(size))
        read = await read_body(
            stream(sent), encoding=encoding, content_length=None, acquire_slot=acquire_slot
        )
        assert (read, len(asked)) == (bytes(size), waits)


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
async def test_a_bomb_behind_harmless_parts_is_found(encoding: str, compress: Compress) -> None:
    body = compress(b"harmless") * 10 + compress(bytes(DECODED_BYTES_MAX))
    with pytest.raises(TooLarge):
        await read(body, encoding)


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
async def test_parts_one_behind_the_other_are_one_body(encoding: str, compress: Compress) -> None:
    parts = [NOISE[at : at + 7_000] for at in range(0, len(NOISE), 7_000)]
    assert await read(b"".join(map(compress, parts)), encoding) == NOISE
    with_empty_ones = compress(b"") + compress(b"a") + compress(b"") + compress(b"b") + compress(b"")
    assert await read(with_empty_ones, encoding) == b"ab"


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
async def test_parts_without_number_are_refused(encoding: str, compress: Compress) -> None:
    assert await read(compress(b"a") * PARTS_MAX, encoding) == b"a" * PARTS_MAX
    with pytest.raises(TooLarge) as raised:
        await read(compress(b"") * (PARTS_MAX + 1), encoding)
    assert raised.value.limit == "encoded_parts"


async def test_zstd_frames_to_be_skipped_are_skipped_but_counted() -> None:
    skippable = b"\x50\x2a\x4d\x18\x02\x00\x00\x00zz"
    assert await read(skippable + zstd(b"a") + skippable, "zstd") == b"a"
    with pytest.raises(TooLarge):
        await read(skippable * (PARTS_MAX + 1), "zstd")


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
@pytest.mark.parametrize("cut", [1, 3, 4, 8, 100, 100_000])
async def test_a_body_that_breaks_off_is_rejected(encoding: str, compress: Compress, cut: int) -> None:
    whole = compress(NOISE)
    for body in (whole[:-cut], whole + compress(b"more" * 1_000 + NOISE)[:-cut], whole[:cut]):
        with pytest.raises(BadEncoding) as raised:
            await read(body, encoding)
        assert raised.value.code == "bad_encoding"


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS)
@pytest.mark.parametrize("tail", [b"\x00", b"x", b"more than a header of anything"])
async def test_what_follows_a_body_must_be_one_too(encoding: str, compress: Compress, tail: bytes) -> None:
    with pytest.raises(BadEncoding):
        await read(compress(NOISE) + tail, encoding)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("body", [b"", b"plain text", NOISE])
async def test_a_body_that_was_never_compressed_is_rejected(encoding: str, body: bytes) -> None:
    with pytest.raises(BadEncoding):
        await read(body, encoding)


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS[:2])
async def test_a_body_that_fails_its_checksum_is_rejected(encoding: str, compress: Compress) -> None:
    body = bytearray(compress(NOISE))
    body[len(body) // 2] ^= 1
    with pytest.raises(BadEncoding):
        await read(bytes(body), encoding)


@pytest.mark.parametrize("window_log", [24, 27])
async def test_a_zstd_window_over_the_limit_is_rejected_before_it_is_allocated(window_log: int) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(NOISE) + compressor.flush()
    with pytest.raises(BadEncoding):
        await read(body, "zstd")


async def test_what_grows_large_is_decoded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    decoded = bodies._decoded

    def noted(coding: str, wire: bytes, maximum: int) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return decoded(coding, wire, maximum)

    monkeypatch.setattr(bodies, "_decoded", noted)
    await read(gzip.compress(bytes(SMALL_BYTES + 1)), "gzip")
    assert threads == [True, False]


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    with pytest.raises(SlowBody) as raised:
        await read_body(stalled(), encoding=None, content_length=None, limit_s=0.01)
    assert raised.value.code == "slow_body"


async def test_a_client_that_goes_away_is_not_taken_for_a_slow_one() -> None:
    async def gone() -> AsyncIterator[bytes]:
        yield b"first"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await read_body(gone(), encoding=None, content_length=None)


@given(body=st.binary(max_size=300), encoding=st.sampled_from(["gzip", "zstd"]), whole=st.booleans())
def test_any_bytes_are_a_body_or_rejected(body: bytes, encoding: str, whole: bool) -> None:
    sent = COMPRESS[encoding](body) if whole else body
    if whole:
        assert asyncio.run(read(sent, encoding)) == body
    else:
        with pytest.raises(BadEncoding):
            asyncio.run(read(sent, encoding))


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7), encoding=st.sampled_from(["gzip", "zstd"]))
def test_a_flipped_bit_is_noticed_or_harmless(at: int, bit: int, encoding: str) -> None:
    sent = bytearray(COMPRESS[encoding](b"event\n" * 50))
    sent[at % len(sent)] ^= 1 << bit
    try:
        outcome = asyncio.run(read(bytes(sent), encoding))
    except Rejected:
        return
    assert outcome == b"event\n" * 50
