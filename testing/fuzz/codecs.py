"""The readers of bytes and texts from outside, under libFuzzer, which looks for inputs that reach new code.

    python -m testing.fuzz.codecs --seconds 60            every target, one after the other
    python -m testing.fuzz.codecs --target gzip INPUT     one input again, as a failure names it

Needs the extra `fuzz` (atheris). Whatever comes in, each target gives its verdict or raises `Rejected`; an
accepted event is one that the log can keep. An input that takes over 5 s or 1 GiB is a finding as well.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

import atheris
import bson
import zstandard

with atheris.instrument_imports(include=["control_plane", "events", "cronsim"]):
    from control_plane.access.keys import id_of
    from control_plane.reads import paging
    from control_plane.runs.schedules.schedule import read_timetable
    from control_plane.server.http.bodies import read_body
    from events.codec import (
        Decoded,
        Refusal,
        decode_batch,
        decode_binary,
        decode_ndjson,
        decode_structured,
    )
    from events.runtime.errors import Rejected
    from events.text.key_text import read_run_token, run_token, written

INPUT_S: Final = 5
MEMORY_MIB: Final = 1024
INPUT_BYTES_MAX: Final = 8_192
SLOTS: Final = 20
LINE: Final = (
    b'{"specversion":"1.0","id":"e1","source":"//fleet/pod-7","type":"ai.run.log","subject":"run/r1",'
    b'"time":"2027-01-31T09:30:00Z","datacontenttype":"application/json","sequence":"0000000001","attempt":1,'
    b'"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",'
    b'"data":{"run_id":"r1","message":"hello","level":"info"}}'
)
HEADERS: Final = b"ce-id: 1\nce-specversion: 1.0\nce-source: s\nce-type: ai.x\nce-subject: run/r\n\n"
WORDS: Final = (
    *b"specversion data_base64 datacontenttype dataschema extensions seq $ref $id".split(),
    *(b"ai.run.failed", b"ai.run.enqueued", b"ai.node.created", b"application/json", b"application/x+json"),
    *(b"\\u0000", b"\\ud800", b"\xef\xbb\xbf", b"1e999", b"9223372036854775808", b"-0", b"NaN", b"%C0%A0"),
    *(b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"),
    *b"@daily L #5 */59 pf_admin_".split(),
)
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


def structured(body: bytes) -> None:
    """Read one event."""
    _check([Decoded(1, body, decode_structured(body))])


def ndjson(body: bytes) -> None:
    """Read events by line."""
    _check(decode_ndjson(body))


def batch(body: bytes) -> None:
    """Read a standard batch."""
    _check(decode_batch(body))


def binary(body: bytes) -> None:
    """Read an event from headers, as a server hands them on, and a body."""
    head, _, data = body.partition(b"\n\n")
    headers = [line.partition(":") for line in head.decode("latin-1").split("\n")]
    _check([Decoded(1, data, decode_binary([(name, value) for name, _, value in headers], data))])


def gzipped(body: bytes) -> None:
    """Decompress, and read what was in it."""
    _check(decode_ndjson(_read(body, "gzip")))


def zstd(body: bytes) -> None:
    """Decompress, and read what was in it."""
    _check(decode_ndjson(_read(body, "zstd")))


def cursor(body: bytes) -> None:
    """Read the place in a list; what is read is written the same."""
    text = body.decode("latin-1")
    key = paging.decode("runs", text, str, int)
    assert paging.decode("runs", paging.encode("runs", *key), str, int) == key


def key(body: bytes) -> None:
    """Read the id in a key."""
    text = body.decode("latin-1")
    assert id_of(text) is None or text.startswith("pf_")


def holder(body: bytes) -> None:
    """Read whose a run token is; what is read is written the same."""
    text = body.decode("latin-1")
    output = read_run_token(text)
    assert output is None or run_token(*output) == text


def cron(body: bytes) -> None:
    """Read a time table, and the first of its slots."""
    entry, _, zone = body.decode("latin-1").partition("\n")
    slots = list(islice(read_timetable(entry, zone or "UTC").slots(EPOCH), SLOTS))
    assert slots == sorted(set(slots))


TARGETS: Final[Mapping[str, tuple[Callable[[bytes], None], bytes]]] = {
    "structured": (structured, LINE),
    "ndjson": (ndjson, LINE + b"\n\n" + LINE),
    "batch": (batch, b"[" + LINE + b"," + LINE + b"]"),
    "binary": (binary, HEADERS + b'{"a": 1}'),
    "gzip": (gzipped, gzip.compress(LINE, mtime=0)),
    "zstd": (zstd, zstandard.ZstdCompressor(write_checksum=False).compress(LINE)),
    "cursor": (cursor, paging.encode("runs", "01K", 7).encode()),
    "key": (key, written("admin", "A" * 43).encode()),
    "run token": (holder, run_token("01K0000000000000000000000A", 7, "A" * 43).encode()),
    "cron": (cron, b"0 9 * * 1-5\nEurope/Berlin"),
}


def main() -> int:
    """Run every target for a while, or one in this process; return 1 where one found something."""
    parser = argparse.ArgumentParser(prog="python -m testing.fuzz.codecs", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", choices=TARGETS)
    arguments, fuzzer = parser.parse_known_args()
    if arguments.target:
        atheris.Setup([sys.argv[0], *fuzzer], _verdict(TARGETS[arguments.target][0]))
        atheris.Fuzz()  # ends the process
    found = [name for name in TARGETS if not _is_quiet(name, arguments.seconds)]
    sys.stdout.write(f"{len(TARGETS)} targets, findings in {', '.join(found) or 'none'}\n")
    return int(bool(found))


def _is_quiet(name: str, seconds: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="podfleet-fuzz-") as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        corpus.joinpath("seed").write_bytes(TARGETS[name][1])
        words = Path(folder, "words")
        quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS)
        words.write_text("".join(f'"{word}"\n' for word in quoted))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "testing.fuzz.codecs", "--target", name, str(corpus)),
                *(f"-max_total_time={seconds}", f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MIB}"),
                *(f"-max_len={INPUT_BYTES_MAX}", f"-dict={words}", f"-artifact_prefix={name}-"),
                *("-print_final_stats=1", "-verbosity=0"),
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    output = done.stdout + done.stderr
    runs = re.search(r"number_of_executed_units: (\d+)", output)
    sys.stdout.write(f"{name}: {int(runs[1]) if runs else 0:,} inputs, exit {done.returncode}\n")
    if done.returncode:
        sys.stdout.write(output[-4_000:])
    sys.stdout.flush()
    return done.returncode == 0


def _verdict(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def tried(data: bytes) -> None:
        with suppress(Rejected):
            target(data)

    return tried


def _check(decoded: list[Decoded]) -> None:
    for item in decoded:
        if isinstance(item.outcome, Refusal):
            assert item.outcome.message
        else:
            assert bson.decode(bson.encode(item.outcome.data)) == item.outcome.data


def _read(body: bytes, encoding: str) -> bytes:
    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return asyncio.run(read_body(chunks(), encoding=encoding, content_length=None))


if __name__ == "__main__":
    sys.exit(main())
