"""The high-water mark of an outbox: which sequence it gave last, kept beside its database.

Law: it is written after the commit that it tells of. So a mark beyond its database means that the database
was changed from outside: SQLite drops the damaged tail of a log without a word.
"""

from __future__ import annotations

import logging
import os
import zlib
from pathlib import Path
from typing import Final, Literal

import msgspec

from events.runtime.errors import ConfigError
from events.text.attempt_id import AttemptId

log = logging.getLogger(__name__)

BYTES_MAX: Final = 64 * 1024


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that an outbox opened last, the last sequence that it gave, and how many events waited."""

    key: int  # the attempt's in the outbox; each has a higher one than those before
    run_id: str
    attempt: int
    token: str
    source: str
    collection: str
    traceparent: str | None
    last: int
    waiting: int
    is_over: bool = False

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt of which run it tells of."""
        return AttemptId(self.run_id, self.attempt)

    def __repr__(self) -> str:
        return f"Mark({self.attempt_id.words}, last={self.last})"  # its token is a secret


class MarkFile:
    """The file of a mark, which only its owner may read."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises `ConfigError`."""
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.fchmod(self._handle, 0o600)  # it holds a token, whoever put it there
        except OSError as error:
            raise ConfigError([f"{path} cannot be opened: {error.strerror}"]) from error
        self._has_failed = False

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def read(self) -> Mark | None:
        """Return the mark; None where there is none, or where a power cut tore it."""
        line, _, _ = os.pread(self._handle, BYTES_MAX, 0).partition(b"\n")
        checksum, _, text = line.partition(b" ")
        try:
            return msgspec.json.decode(text, type=Mark) if checksum == _checksum(text) else None
        except msgspec.DecodeError:
            return None

    def write(self, mark: Mark, *, durable: Literal["now", "later"] = "later") -> None:
        """Write the mark; a disk that does not take it makes it older, and stops no run."""
        text = msgspec.json.encode(mark)
        try:
            os.pwrite(self._handle, b"%s %s\n" % (_checksum(text), text), 0)
            if durable == "now":
                os.fsync(self._handle)
        except OSError as error:
            if not self._has_failed:
                log.warning("outbox.no_mark", extra={"why": error.strerror})
            self._has_failed = True


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
