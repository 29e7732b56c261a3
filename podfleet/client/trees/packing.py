"""Makes a tree of a folder: hashes its files, and reads its chunks again for their upload.

Law: a file that changes while it is read, or between hashing and upload, is refused; no tree mixes two states
of one.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.files.open_beneath import read_beneath
from events.files.paths import RunPath
from events.files.trees import TREE_BYTES_MAX, BadTree, Piece, Tree, TreeFile, in_order, layout
from events.formatting import size as size_text
from podfleet.client.trees.listing import IGNORE_FILE, Unpackable, listed

WORKING_FOLDER_BYTES_MAX: Final = 200 << 20
LARGEST_SHOWN: Final = 10
READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the folder a file lies, and when it was changed last."""

    name: str
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Packed:
    """The tree of a folder, and where its bytes are."""

    tree: Tree
    folder: Path
    places: Mapping[RunPath, Place]

    def content(self, pieces: Sequence[Piece], sha256: str) -> bytes:
        """Return the content of a chunk. Raises `Unpackable` where a file has changed since."""
        content = bytearray()
        for piece in pieces:
            for block in _blocks(self.folder, self.places[piece.file.path], piece):
                content += block
        if hashlib.sha256(content).hexdigest() != sha256:
            raise _changed(str(pieces[0].file.path))
        return bytes(content)


def pack(
    folder: Path,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    bytes_max: int = TREE_BYTES_MAX,
    told: Callable[[int, int], None] = lambda done, size: None,
) -> Packed:
    """Return the tree of a folder; `told` hears how many bytes of how many are hashed.

    Raises `Unpackable`.
    """
    places: dict[RunPath, Place] = {}
    found: list[TreeFile] = []
    for path, name in listed(folder, include, exclude).items():
        status = _status(folder, name)
        places[path] = Place(name, status.st_mtime_ns)
        found.append(TreeFile(path, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
    files = in_order(found)
    size = sum(file.size for file in files)
    if size > bytes_max:
        largest = sorted(files, key=lambda file: -file.size)[:LARGEST_SHOWN]
        shown = "".join(f"\n  {size_text(file.size):>10}  {file.path}" for file in largest)
        raise Unpackable(
            f"{folder} has {size_text(size)} of files, and {size_text(bytes_max)} are the most. Leave files "
            f"out by {IGNORE_FILE}, or push data with `podfleet data push`. The largest:{shown}"
        )
    chunks, done = [], 0
    for pieces in layout(files):
        digest = hashlib.sha256()
        for piece in pieces:
            for block in _blocks(folder, places[piece.file.path], piece):
                digest.update(block)
            done += piece.size
        chunks.append(digest.hexdigest())
        told(done, size)
    try:
        return Packed(Tree.made(files, chunks), folder, places)
    except BadTree as error:
        raise Unpackable(f"{folder}: {error.message}") from error


def _status(folder: Path, name: str) -> os.stat_result:
    try:
        return os.stat(folder / name, follow_symlinks=False)
    except OSError as error:
        raise _changed(name) from error


def _blocks(folder: Path, place: Place, piece: Piece) -> Iterator[memoryview]:
    """Yield the bytes of a piece, each block until the next. Raises `Unpackable` for a file that changed."""
    left = piece.size
    try:
        with read_beneath(folder, RunPath(place.name)) as file:
            file.seek(piece.offset)
            buffer = memoryview(bytearray(min(READ_BYTES, left)))
            while left and (taken := file.readinto(buffer[: min(left, len(buffer))])):  # type: ignore[attr-defined] # a buffered reader
                left -= taken
                yield buffer[:taken]
            status = os.fstat(file.fileno())
    except OSError as error:
        raise Unpackable(f"{folder / place.name} cannot be read: {error.strerror}") from error
    if left or (status.st_size, status.st_mtime_ns) != (piece.file.size, place.changed_ns):
        raise _changed(str(piece.file.path))


def _changed(path: str) -> Unpackable:
    return Unpackable(
        f"{path!r}, or one beside it, changed while it was read: wait for its writer, try again"
    )
