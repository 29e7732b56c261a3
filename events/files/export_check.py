"""Checks a signed ZIP of results without a control plane: its signature, every hash, and every byte.

The archive is hostile until it has passed: its list is read within bounds, no name leads anywhere, nothing is
decompressed, and no entry is held as a whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import BinaryIO, Final

import msgspec

from events.files.export_zip import (
    ARCHIVE_BYTES_MAX,
    FILES_MAX,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    PUBLIC_KEY_BYTES,
    SIGNATURE,
    SIGNATURE_BYTES,
    ExportedFile,
    Manifest,
    ZipWriter,
    key_id,
)
from events.runtime.errors import Rejected

PIECE_BYTES: Final = 1024 * 1024
END_BYTES: Final = 22
LONG_END_BYTES: Final = 20  # of an archive of the long form, which no export is
LIST_BYTES_MAX: Final = 64 * 1024  # of the list of entries at the archive's end
DAMAGE: Final = (
    zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, ValueError, OSError, struct.error,
)  # fmt: skip
NO_LIBRARY: Final = "signatures need the package `cryptography`: pip install cryptography"
_NAME: Final = re.compile(r"[a-z0-9_]{1,40}(/[a-z0-9_]{1,40})?\.(json|ndjson|csv|sig)")


@dataclass(frozen=True, slots=True)
class Checked:
    """An archive that passed; `is_pinned` says whether its key was the one that was asked for."""

    manifest: Manifest
    is_pinned: bool


def checked(path: str, public: bytes | None = None) -> Checked:
    """Return what a signed archive says. Raises `Rejected` with the reason, `OSError`."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > ARCHIVE_BYTES_MAX:
            raise Rejected("bad_archive", f"it has {size:,} bytes, {ARCHIVE_BYTES_MAX:,} are the most")
        entries = _entries(file, size)
        try:
            with zipfile.ZipFile(file) as archive:
                manifest, raw, signature = _manifest(archive, entries)
                _require_signed(manifest, raw, signature, public)
                _require_files(archive, manifest, entries)
                _require_same_bytes(file, size, archive, manifest)
        except DAMAGE as error:
            raise Rejected("bad_archive", f"it is damaged: {error}") from error
    return Checked(manifest, public is not None)


def read_public_key(text: str) -> bytes:
    """Return the public key of 64 hexadecimal digits. Raises `Rejected`."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text.strip()):
        raise Rejected("bad_key", "a public key is 64 hexadecimal digits: `podfleet results keys`")
    return bytes.fromhex(text.strip())


def _entries(file: BinaryIO, size: int) -> Sequence[str]:
    """Return the names in the archive's list, which is bounded before a library reads it."""
    file.seek(max(0, size - END_BYTES - LONG_END_BYTES))
    last = file.read(END_BYTES + LONG_END_BYTES)
    tail, before = last[-END_BYTES:], last[:-END_BYTES]
    if len(tail) < END_BYTES or tail[:4] != b"PK\x05\x06" or before[:4] == b"PK\x06\x07":
        raise Rejected("bad_archive", "it is no archive of `podfleet results export`, or its end is cut off")
    count, listed = int.from_bytes(tail[10:12], "little"), int.from_bytes(tail[12:16], "little")
    if count > FILES_MAX + 2 or listed > LIST_BYTES_MAX:
        raise Rejected("bad_archive", f"it lists {count} entries in {listed:,} bytes, which is too much")
    try:
        names = [each.filename for each in zipfile.ZipFile(file).infolist()]
    except DAMAGE as error:
        raise Rejected("bad_archive", f"it is damaged: {error}") from error
    for name in names:
        if not _NAME.fullmatch(name):
            raise Rejected("bad_name", f"it has an entry {name[:80]!r}, which no export has")
        if names.count(name) > 1:
            raise Rejected("repeated_entry", f"it has more than one entry {name!r}")
    return names


def _manifest(archive: zipfile.ZipFile, names: Sequence[str]) -> tuple[Manifest, bytes, bytes]:
    for each in archive.infolist():
        if each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1:
            raise Rejected("bad_archive", f"{each.filename} is compressed or encrypted, which no export is")
    for name in (MANIFEST, SIGNATURE):
        if name not in names:
            raise Rejected("missing_file", f"it has no {name}")
    raw = _small(archive, MANIFEST, MANIFEST_BYTES_MAX)
    signature = _small(archive, SIGNATURE, SIGNATURE_BYTES)
    try:
        return msgspec.json.decode(raw, type=Manifest), raw, signature
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected("bad_manifest", f"{MANIFEST} cannot be read: {error}") from error


def _small(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as entry:
        content = entry.read(most + 1)
    if len(content) > most:
        raise Rejected("bad_archive", f"{name} has more than {most:,} bytes")
    return content


def _require_signed(manifest: Manifest, raw: bytes, signature: bytes, public: bytes | None) -> None:
    own = bytes.fromhex(manifest.key.public)
    if public is not None and own != public:
        raise Rejected(
            "other_key",
            f"it is signed by the key {manifest.key.id}, not by {key_id(public)}, which is asked for",
        )
    if manifest.key.id != key_id(own):
        raise Rejected("bad_manifest", "the id of its key is that of another key")
    if not _verifies(own if public is None else public, signature, raw):
        raise Rejected("bad_signature", f"the signature does not fit {MANIFEST}: one of them was changed")


def _verifies(public: bytes, signature: bytes, content: bytes) -> bool:
    try:
        invalid = import_module("cryptography.exceptions").InvalidSignature
        keys = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError as error:
        raise Rejected("no_library", NO_LIBRARY) from error
    assert len(public) == PUBLIC_KEY_BYTES
    try:
        keys.Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (invalid, ValueError):
        return False
    return True


def _require_files(archive: zipfile.ZipFile, manifest: Manifest, names: Sequence[str]) -> None:
    told = [each.name for each in manifest.files]
    if len(set(told)) < len(told):
        raise Rejected("bad_manifest", f"{MANIFEST} names a file twice")
    if missing := [each for each in told if each not in names]:
        raise Rejected("missing_file", f"it lacks {missing[0]}, which {MANIFEST} names")
    if foreign := [each for each in names if each not in {*told, MANIFEST, SIGNATURE}]:
        raise Rejected("foreign_file", f"it has {foreign[0]}, which {MANIFEST} does not name")
    for each in manifest.files:
        digest, size = hashlib.sha256(), 0
        try:
            for piece in _pieces(archive, each):
                digest.update(piece)
                size += len(piece)
        except (zipfile.BadZipFile, EOFError) as error:
            raise Rejected("changed_file", f"{each.name} was changed: {error}") from error
        if size != each.size:
            raise Rejected("changed_file", f"{each.name} was changed: it had {each.size:,} bytes")
        if digest.hexdigest() != each.sha256:
            raise Rejected("changed_file", f"{each.name} was changed: its SHA-256 is another one")


def _pieces(archive: zipfile.ZipFile, file: ExportedFile) -> Iterator[bytes]:
    """Yield the content of a file, one byte beyond the size that it shall have at most."""
    left = file.size + 1
    with archive.open(file.name) as entry:
        while left > 0 and (piece := entry.read(min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece


def _require_same_bytes(file: BinaryIO, size: int, archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """Write the archive again and compare: what no hash covers cannot be another one either."""
    at, writer = 0, ZipWriter()
    for piece in _again(archive, manifest, writer):
        file.seek(at)
        if file.read(len(piece)) != piece:
            raise Rejected("bad_archive", f"it was changed between its files, at byte {at:,} or later")
        at += len(piece)
    if at != size:
        raise Rejected("bad_archive", f"there are {size - at:,} bytes behind its end")


def _again(archive: zipfile.ZipFile, manifest: Manifest, writer: ZipWriter) -> Iterator[bytes]:
    sizes = {each.filename: each.file_size for each in archive.infolist()}
    last = [ExportedFile(name, sizes[name], "") for name in (MANIFEST, SIGNATURE)]
    for each in [*manifest.files, *last]:
        yield writer.begun(each.name)
        for piece in _pieces(archive, each):
            yield writer.added(piece)
        yield writer.ended()
    yield writer.closed()
