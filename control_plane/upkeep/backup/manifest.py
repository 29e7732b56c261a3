"""The manifest of a backup: what a folder has to hold to be one; pure.

Law: it is written last, and a folder without it is no backup. Whoever restores believes no name and no size
in it that is outside of these bounds.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from events.runtime.errors import Rejected

FORM: Final = 1
COLLECTIONS_MAX: Final = 500
BYTES_MAX: Final = 1 << 50
DOCUMENTS_MAX: Final = 1 << 40
MANIFEST_BYTES_MAX: Final = 1 << 20  # 500 files of at most 500 bytes each, and room

Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=DOCUMENTS_MAX)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=BYTES_MAX)]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_.-]*\Z", max_length=100)]
Ulid = Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-HJKMNP-TV-Z]{26}\Z")]
Words = Annotated[str, msgspec.Meta(max_length=100)]
Part = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]


class Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of documents: how many, their bytes, and size and SHA-256 of the file."""

    documents: Count
    raw_bytes: Bytes
    size: Bytes
    sha256: Digest


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A backup: its files by what they hold, and the two moments of the oplog around it."""

    form: Literal[1]
    id: Ulid
    program: Words
    database: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    schema: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    begun_at: Words
    ended_at: Words
    since: tuple[Part, Part]
    until: tuple[Part, Part]
    collections: Annotated[dict[Name, Packed], msgspec.Meta(max_length=COLLECTIONS_MAX)]
    changes: Packed
    objects: Packed | None
    storage: Literal["copy", "reference", "none"]
    missing_objects: Count


def folder_of(backup: str) -> str:
    """Return the folder with the documents of a backup."""
    return f"dump-{backup}"


def read(raw: bytes) -> Manifest:
    """Return the manifest that was written so. Raises `Rejected`."""
    try:
        found = msgspec.json.decode(raw, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Rejected("bad_backup", f"its manifest cannot be read: {error}") from error
    if any(name.startswith("system.") for name in found.collections):
        raise Rejected("bad_backup", "its manifest names a collection of MongoDB's own")
    return found
