"""The signed ZIP of a run's results: its entries, its manifest, and how its bytes are written; pure.

Law: the same files make the same bytes. Entries are stored and not compressed, without times, comments or
extra fields, so that a reader writes the archive again and compares: no byte of it can be changed. Nothing in
it is larger than the archive itself.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec

from events.kinds.results import SET_NAME

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
RUN_FILE: Final = "run.json"
FORMAT: Final = "podfleet results 1"
SIGNATURE_BYTES: Final = 64
PUBLIC_KEY_BYTES: Final = 32
FILES_MAX: Final = 32
MANIFEST_BYTES_MAX: Final = 64 * 1024
ARCHIVE_BYTES_MAX: Final = 2**32 - 2**20  # beyond it the form of the ZIP would be another one
KEY_ID_CHARS: Final = 16

# Of a race instead: what was asked, the events of its runs, and what the lanes measured.
RACE_FILES: Final = ("metadata.json", "events.ndjson", "summary.json", "laps.csv")
_OF_RACE: Final = r"metadata\.json|events\.ndjson|summary\.json|laps\.csv"
FileName = Annotated[str, msgspec.Meta(pattern=rf"\A(run\.json|{_OF_RACE}|results/{SET_NAME}\.ndjson)\Z")]
Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Hex32 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Text = Annotated[str, msgspec.Meta(max_length=200)]
Size = Annotated[int, msgspec.Meta(ge=0, le=ARCHIVE_BYTES_MAX)]

_LOCAL: Final = struct.Struct("<IHHHHHIIIHH")
_DESCRIPTOR: Final = struct.Struct("<IIII")
_CENTRAL: Final = struct.Struct("<IHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<IHHHHIIH")
_VERSION: Final = 20
_FLAGS: Final = 0x0808  # sizes follow the content; names are UTF-8
_DATE: Final = 0x21  # 1 January 1980, the first that the form has


class ExportedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the archive; `rows` is how many lines it has, null where it has none."""

    name: FileName
    size: Size
    sha256: Digest
    rows: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key that signed: its id, and the public key in hexadecimal digits."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    public: Hex32
    algorithm: Literal["Ed25519"] = "Ed25519"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the archive holds, of which attempt of which run, and who signed it."""

    format: Literal["podfleet results 1"] = FORMAT
    run_id: Text
    kind: Text
    attempt: int | None
    made_at: Text
    key: Key
    files: Annotated[list[ExportedFile], msgspec.Meta(max_length=FILES_MAX)]


def key_id(public: bytes) -> str:
    """Return the id of a public key: the beginning of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:KEY_ID_CHARS]


@dataclass(slots=True)
class _Entry:
    """An entry so far."""

    name: bytes
    at: int
    crc: int = 0
    size: int = 0


@dataclass(slots=True)
class ZipWriter:
    """Makes the bytes of an archive: for each entry `begun`, `added` as often as there is more, `ended`."""

    size: int = 0
    _entries: list[_Entry] = field(default_factory=list)

    def begun(self, name: str) -> bytes:
        """Return what stands before the content of an entry."""
        entry = _Entry(name.encode(), self.size)
        self._entries.append(entry)
        head = _LOCAL.pack(0x04034B50, _VERSION, _FLAGS, 0, 0, _DATE, 0, 0, 0, len(entry.name), 0)
        return self._counted(head + entry.name)

    def added(self, piece: bytes) -> bytes:
        """Return the next piece of the content."""
        entry = self._entries[-1]
        entry.crc = zlib.crc32(piece, entry.crc)
        entry.size += len(piece)
        return self._counted(piece)

    def ended(self) -> bytes:
        """Return what stands behind the content of an entry."""
        entry = self._entries[-1]
        return self._counted(_DESCRIPTOR.pack(0x08074B50, entry.crc, entry.size, entry.size))

    def closed(self) -> bytes:
        """Return the end of the archive."""
        at = self.size
        listed = b"".join(
            _CENTRAL.pack(
                0x02014B50, _VERSION, _VERSION, _FLAGS, 0, 0, _DATE, each.crc, each.size, each.size,
                len(each.name), 0, 0, 0, 0, 0, each.at,
            )
            + each.name
            for each in self._entries
        )  # fmt: skip
        count = len(self._entries)
        return self._counted(listed + _END.pack(0x06054B50, 0, 0, count, count, len(listed), at, 0))

    def _counted(self, piece: bytes) -> bytes:
        self.size += len(piece)
        if self.size > ARCHIVE_BYTES_MAX:
            raise ValueError(f"an archive has {ARCHIVE_BYTES_MAX:,} bytes at most")
        return piece
