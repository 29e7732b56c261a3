"""The folder of a backup: its manifest, its files of documents, and the objects of the storage.

Law: a name appears when its content is whole and on the disk. What was cut off is written again; what is
there is never believed: it is compared with the manifest before anything of it is used.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec
import zstandard

from control_plane.upkeep.backup import manifest
from control_plane.upkeep.backup.manifest import Manifest, Packed, folder_of
from control_plane.upkeep.backup.sealing import PASSPHRASE_CHARS_MIN, SALT_BYTES, Key, Sealer, opened
from events.runtime.errors import ConfigError, Rejected

MANIFEST: Final = "manifest.json"
SEALED: Final = "manifest.sealed"
KEY: Final = "key.json"
OBJECTS: Final = "objects"
LIST: Final = "+objects"  # files of documents, beside those of collections, whose names have no "+"
CHANGES: Final = "+changes"
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
LEVEL: Final = 1  # of zstd: the disk, not this, is what a backup waits for
DOCUMENT_BYTES_MIN: Final = 5
DOCUMENT_BYTES_MAX: Final = 16_793_600  # an entry of the oplog may have 16 KiB more than a document
WINDOW_BYTES_MAX: Final = 8 << 20
PIECE_BYTES: Final = 1 << 20
KEY_FILE_BYTES_MAX: Final = 1_000
SEALED_BYTES_MAX: Final = manifest.MANIFEST_BYTES_MAX + 4_096


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of backups, of which the latest is the one that its manifest tells of."""

    path: Path
    key: Key | None = None

    @classmethod
    def begun(cls, path: Path, passphrase: str | None) -> Self:
        """Return the folder to back up into, made if need be. Raises `ConfigError`."""
        try:
            path.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
            has_other = (path / MANIFEST).exists() if passphrase else (path / KEY).exists()
            if has_other:
                raise ConfigError([f"{path} has backups {'without' if passphrase else 'with'} a passphrase"])
            if passphrase and not (path / KEY).exists():
                salt = b64encode(os.urandom(SALT_BYTES)).decode()
                _write_whole(path / KEY, msgspec.json.encode({"form": 1, "salt": salt}))
            found = cls(path, _key(path, passphrase))
            if (path / SEALED).exists():
                found.manifest()  # else its objects would have two keys
        except OSError as error:
            raise ConfigError([f"{path} cannot be written: {error.strerror}"]) from error
        except Rejected as error:
            raise ConfigError([error.message]) from error
        return found

    @classmethod
    def of(cls, path: Path, passphrase: str | None) -> Self:
        """Return the folder to restore from. Raises `ConfigError`, `Rejected`."""
        sealed = (path / KEY).exists() or (path / SEALED).exists()
        if sealed and not passphrase:
            raise ConfigError([f"{path} is encrypted: set PODFLEET_BACKUP_PASSPHRASE_FILE"])
        if passphrase and not sealed:
            # else who can write here replaces it by a backup of his own
            raise ConfigError([f"{path} is not encrypted, and a passphrase is set: unset it to restore this"])
        return cls(path, _key(path, passphrase))

    def manifest(self) -> Manifest:
        """Return the manifest. Raises `Rejected` where there is none, or none that can be believed."""
        name, most = (SEALED, SEALED_BYTES_MAX) if self.key else (MANIFEST, manifest.MANIFEST_BYTES_MAX)
        try:
            with _open(self.path / name) as file:
                if os.fstat(file.fileno()).st_size > most:
                    raise Rejected("bad_backup", f"{name} is larger than a manifest can be")
                pieces = opened(self.key, "manifest", file.read) if self.key else [file.read(most)]
                return manifest.read(b"".join(pieces))
        except OSError as error:
            why = f"{self.path} is no backup, or one that was cut off: it has no {name} ({error.strerror})"
            raise Rejected("bad_backup", why) from error

    def conclude(self, found: Manifest) -> None:
        """Write the manifest, by which the backup is one; remove what earlier ones left."""
        raw = msgspec.json.encode(found)
        if self.key:
            pieces: list[bytes] = []
            sealer = Sealer(self.key, "manifest", pieces.append)
            sealer.write(raw)
            sealer.close()
            _write_whole(self.path / SEALED, b"".join(pieces))
        else:
            _write_whole(self.path / MANIFEST, raw)
        for each in self.path.glob("dump-*"):
            if each.name != folder_of(found.id) and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
        for each in (self.path / OBJECTS).glob("*/.*.new"):
            each.unlink(missing_ok=True)

    def packer(self, backup: str, name: str) -> Packer:
        """Return what writes a file of documents."""
        home = self.path / folder_of(backup)
        home.mkdir(exist_ok=True, mode=FOLDER_MODE)
        return Packer(home / f"{name}.bson.zst", self.key, f"{backup}/{name}")

    def documents(self, backup: str, name: str, expected: Packed) -> Iterator[bytes]:
        """Yield the documents of a file. Raises `Rejected` in the end at the latest if it is another one."""
        path = self.path / folder_of(backup) / f"{name}.bson.zst"
        try:
            with _open(path) as file:
                yield from _unpacked(file, self.key, f"{backup}/{name}", expected)
        except OSError as error:
            raise Rejected("bad_backup", f"{path} cannot be read: {error.strerror}") from error

    def object_name(self, identity: str) -> str:
        """Return the name of the file of one version of an object, without its digest."""
        return self.key.name(identity) if self.key else hashlib.sha256(identity.encode()).hexdigest()

    def kept_object(self, name: str) -> str | None:
        """Return the digest of a version that is here already."""
        home = self.path / OBJECTS / name[:3]
        return next((each.name.rpartition(".")[2] for each in home.glob(f"{name}.*")), None)

    def object_writer(self, name: str) -> ObjectWriter:
        """Return what writes one object."""
        home = self.path / OBJECTS / name[:3]
        home.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        return ObjectWriter(home, name, self.key)

    def object_pieces(self, name: str, digest: str) -> Iterator[bytes]:
        """Yield an object. Raises `Rejected` in the end at the latest if it is another one."""
        path = self.path / OBJECTS / name[:3] / f"{name}.{digest}"
        found = hashlib.sha256()
        try:
            with _open(path) as file:
                read = iter(lambda: file.read(PIECE_BYTES), b"")
                for piece in opened(self.key, f"object {name}", file.read) if self.key else read:
                    found.update(piece)
                    yield piece
        except OSError as error:
            raise Rejected("bad_backup", f"{path} cannot be read: {error.strerror}") from error
        if found.hexdigest() != digest:
            raise Rejected("bad_backup", f"{path} has other bytes than were backed up")


class Packer:
    """Writes documents: compressed, encrypted where there is a key."""

    def __init__(self, path: Path, key: Key | None, name: str) -> None:
        self._path = path
        self._file = _created(path)
        self._hash = hashlib.sha256()
        self._size = self._documents = self._raw = 0
        self._sealer = Sealer(key, name, self._write) if key else None
        self._zstd = zstandard.ZstdCompressor(level=LEVEL).compressobj()

    def add(self, documents: bytes) -> None:
        """Take whole documents, one behind the other."""
        at = 0
        while at < len(documents):
            at += int.from_bytes(documents[at : at + 4], "little")
            self._documents += 1
        self._raw += len(documents)
        self._on(self._zstd.compress(documents))

    def close(self) -> Packed:
        """Bring the file to the disk, and return what it is."""
        self._on(self._zstd.flush())
        if self._sealer:
            self._sealer.close()
        _to_disk(self._file)
        return Packed(self._documents, self._raw, self._size, self._hash.hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # what is not whole by then no manifest names

    def _on(self, data: bytes) -> None:
        if data:
            (self._sealer.write if self._sealer else self._write)(data)

    def _write(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
        self._file.write(data)


class ObjectWriter:
    """Writes one object; it has its name when it is whole."""

    def __init__(self, home: Path, name: str, key: Key | None) -> None:
        self._home, self._name = home, name
        self._draft = home / f".{name}.new"
        self._file = _created(self._draft)
        self._hash = hashlib.sha256()
        self._sealer = Sealer(key, f"object {name}", self._file.write) if key else None
        self.size = 0

    def write(self, data: bytes) -> None:
        """Take more of the object."""
        self.size += len(data)
        self._hash.update(data)
        (self._sealer.write if self._sealer else self._file.write)(data)

    def close(self) -> str:
        """Give it its name; return its SHA-256."""
        if self._sealer:
            self._sealer.close()
        _to_disk(self._file)
        digest = self._hash.hexdigest()
        self._draft.replace(self._home / f"{self._name}.{digest}")
        return digest

    def abandon(self) -> None:
        """Remove what there is of it."""
        self._file.close()
        self._draft.unlink(missing_ok=True)


class _Hashed:
    """Reads a file, and hashes what it read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def read(self, most: int) -> bytes:
        data = self._file.read(most)
        self.hash.update(data)
        self.size += len(data)
        return data


def _unpacked(file: BinaryIO, key: Key | None, name: str, expected: Packed) -> Iterator[bytes]:
    source, count, total = _Hashed(file), 0, 0
    read = iter(lambda: source.read(PIECE_BYTES), b"")
    pieces = opened(key, name, source.read) if key else read
    try:
        for document in _divided(_decompressed(pieces, expected.raw_bytes), name):
            count, total = count + 1, total + len(document)
            yield document
    except zstandard.ZstdError as error:
        raise Rejected("bad_backup", f"{name} is corrupt: {error}") from error
    while source.read(PIECE_BYTES):
        pass
    found = Packed(count, total, source.size, source.hash.hexdigest())
    if found != expected:
        raise Rejected("bad_backup", f"{name} is another file than its manifest tells of, or was cut off")


def _decompressed(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield what pieces hold, as long as it is not more than their manifest says."""
    total = 0
    with zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).stream_reader(
        _Joined(pieces), read_across_frames=False
    ) as reader:
        while data := reader.read(PIECE_BYTES):
            total += len(data)
            if total > most:
                raise Rejected("bad_backup", "a file holds more than its manifest tells of")
            yield data


class _Joined(io.BytesIO):
    """Pieces as something to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._held = iter(pieces), b""

    def read(self, most: int | None = -1) -> bytes:
        while not self._held:
            following = next(self._pieces, None)
            if following is None:
                return b""
            self._held = following
        most = len(self._held) if most is None or most < 0 else most
        data, self._held = self._held[:most], self._held[most:]
        return data


def _divided(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the documents that pieces hold one behind the other."""
    held = bytearray()
    for piece in pieces:
        held += piece
        at = 0
        while len(held) - at >= DOCUMENT_BYTES_MIN:
            size = int.from_bytes(held[at : at + 4], "little")
            if not DOCUMENT_BYTES_MIN <= size <= DOCUMENT_BYTES_MAX:
                raise Rejected("bad_backup", f"{name} holds what is no document")
            if len(held) - at < size:
                break
            yield bytes(held[at : at + size])
            at += size
        del held[:at]
    if held:
        raise Rejected("bad_backup", f"{name} ends within a document")


def _key(path: Path, passphrase: str | None) -> Key | None:
    if not passphrase:
        return None
    if len(passphrase) < PASSPHRASE_CHARS_MIN:
        raise ConfigError([f"the passphrase has fewer than {PASSPHRASE_CHARS_MIN} characters"])
    try:
        with _open(path / KEY) as file:
            found = msgspec.json.decode(file.read(KEY_FILE_BYTES_MAX), type=dict[str, object])
        salt = b64decode(str(found["salt"]), validate=True)
    except (OSError, ValueError, LookupError, msgspec.DecodeError) as error:
        raise Rejected("bad_backup", f"{path / KEY} cannot be read: {error}") from error
    if found.get("form") != 1 or len(salt) != SALT_BYTES:
        raise Rejected("bad_backup", f"{path / KEY} is of no form that is known here")
    return Key.of(passphrase, salt)


def _open(path: Path) -> BinaryIO:
    """Open a file that is one: no link, no pipe that nobody writes to."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _created(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE), "wb", PIECE_BYTES)


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.new")
    file = _created(draft)
    file.write(content)
    _to_disk(file)
    for each in (path.parent, *path.parent.glob("dump-*")):
        _sync_folder(each)
    draft.replace(path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    found = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(found)
    finally:
        os.close(found)
