"""File trees: a manifest of files and of the chunks that hold their contents, pure.

Law: a tree's id is the SHA-256 of its manifest, of which each tree has one form. How the contents are
divided into chunks follows from the paths and sizes alone, so that no manifest can say anything else. A file
of `CHUNK_BYTES` or more has chunks of its own; smaller ones stand whole in a chunk. A chunk also ends before
certain paths, chosen by their checksum: a change of one file leaves the chunks of most others as they are.
The files that a run has kept are a tree, too, of which each file is one chunk.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from events.files.paths import RunPath, from_text
from events.runtime.errors import Rejected

CHUNK_BYTES: Final = 8 << 20
FILES_MAX: Final = 100_000
CHUNKS_MAX: Final = 65_536
TREE_BYTES_MAX: Final = 256 << 30
MANIFEST_BYTES_MAX: Final = 32 << 20
BORDER: Final = 32  # before about each so manieth small file a chunk ends
BAD_TREE: Final = "bad_tree"
TREE_BUSY: Final = "tree_busy"  # its objects are being removed: add it again in a moment

Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
RunId = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._-]{1,64}\Z")]


class BadTree(Rejected):
    """A manifest describes no tree."""

    def __init__(self, why: str) -> None:
        super().__init__(BAD_TREE, f"this is no manifest of a file tree: {why}")


class TreeFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plain file; its size in bytes."""

    path: RunPath
    size: Annotated[int, msgspec.Meta(ge=0, le=TREE_BYTES_MAX)]
    executable: bool


class Tree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files in the order of their paths' bytes, and the SHA-256 of each chunk.

    `made` and `read` return checked ones.
    """

    files: tuple[TreeFile, ...]
    chunks: tuple[Sha256, ...]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def pieces(self) -> list[list[Piece]]:
        """The pieces of files that each chunk holds."""
        return layout(self.files)

    def manifest(self) -> bytes:
        """Return its manifest, by whose SHA-256 it is known."""
        return _ENCODER.encode(self)

    @classmethod
    def made(cls, files: Iterable[TreeFile], chunks: Sequence[str]) -> Tree:
        """Return the tree of these files. Raises `BadTree`."""
        tree = cls(in_order(files), tuple(chunks))
        _check(tree)
        return tree

    @classmethod
    def read(cls, manifest: bytes, tree_id: str) -> Tree:
        """Return the tree of a manifest. Raises `BadTree`, also where it is not that of `tree_id`."""
        tree: Tree = _read(_DECODER, manifest, tree_id)
        return tree


class RunFiles(Tree, frozen=True, forbid_unknown_fields=True):
    """The files that a run has kept, each a chunk of its own, however large it is; an empty one is in none.

    The control plane alone makes such a tree. `made_of` and `read_any` return checked ones.
    """

    run: RunId

    @property
    def pieces(self) -> list[list[Piece]]:
        """The files that have something in them."""
        return [[Piece(file, 0, file.size)] for file in self.files if file.size]

    @classmethod
    def made_of(cls, run: str, files: Mapping[TreeFile, str]) -> RunFiles:
        """Return the tree of the files of a run, each with its SHA-256. Raises `BadTree`."""
        ordered = in_order(files)
        tree = cls(ordered, tuple(files[each] for each in ordered if each.size), run)
        _check(tree)
        return tree


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file."""

    file: TreeFile
    offset: int
    size: int


def read_any(manifest: bytes, tree_id: str) -> Tree:
    """Return the tree of a manifest, also of the files of a run. Raises `BadTree` as `Tree.read` does."""
    is_of_run = manifest.endswith(b'"}')  # else a list is the last field
    tree: Tree = _read(_OF_RUN_DECODER if is_of_run else _DECODER, manifest, tree_id)
    return tree


def id_of(manifest: bytes) -> str:
    """Return the id of the tree that has this manifest."""
    return hashlib.sha256(manifest).hexdigest()


def in_order(files: Iterable[TreeFile]) -> tuple[TreeFile, ...]:
    """Return files as a manifest has them."""
    return tuple(sorted(files, key=lambda file: file.path.encode()))


def layout(files: Sequence[TreeFile]) -> list[list[Piece]]:
    """Return the pieces of files that each chunk holds, of files in order; an empty file is in none."""
    chunks: list[list[Piece]] = []
    room = 0  # of the last chunk, 0 where it takes no more
    for file in files:
        if file.size >= CHUNK_BYTES:
            offsets = range(0, file.size, CHUNK_BYTES)
            chunks.extend([Piece(file, at, min(CHUNK_BYTES, file.size - at))] for at in offsets)
            room = 0
        elif file.size:
            if file.size > room or zlib.crc32(file.path.encode()) % BORDER == 0:
                chunks.append([])
                room = CHUNK_BYTES
            chunks[-1].append(Piece(file, 0, file.size))
            room -= file.size
    return chunks


def size_of(chunk: Iterable[Piece]) -> int:
    """Return the bytes of a chunk."""
    return sum(piece.size for piece in chunk)


def sizes_of(tree: Tree) -> Mapping[str, int]:
    """Return the size of each chunk by its SHA-256. Raises `BadTree` where one is said to have two."""
    sizes: dict[str, int] = {}
    for sha256, pieces in zip(tree.chunks, tree.pieces, strict=True):
        size = size_of(pieces)
        if sizes.setdefault(sha256, size) != size:
            raise BadTree(f"its chunk {sha256} has two sizes")
    return sizes


def _check(tree: Tree) -> None:
    """Raise `BadTree` for what the types of its fields do not hold off."""
    if len(tree.files) > FILES_MAX:
        raise BadTree(f"it has {len(tree.files):,} files, and {FILES_MAX:,} are the most")
    if tree.size > TREE_BYTES_MAX:
        raise BadTree(f"its files have {tree.size:,} bytes, and {TREE_BYTES_MAX:,} are the most")
    if tree.files != in_order(tree.files):
        raise BadTree("its files are not in the order of their paths")
    paths = {str(file.path) for file in tree.files}
    if len(paths) != len(tree.files):
        raise BadTree("a path is in it twice")
    for path in paths:
        above = path
        while (cut := above.rfind("/")) > 0:
            above = above[:cut]
            if above in paths:
                raise BadTree(f"{above!r} is a file in it, and the folder of {path!r}")
    count = len(tree.pieces)
    if count > CHUNKS_MAX:
        raise BadTree(f"its files take {count:,} chunks, and {CHUNKS_MAX:,} are the most: join some of them")
    if count != len(tree.chunks):
        raise BadTree(f"its files take {count:,} chunks, and it names {len(tree.chunks):,}")
    sizes_of(tree)
    if len(tree.manifest()) > MANIFEST_BYTES_MAX:
        raise BadTree(f"it has more than {MANIFEST_BYTES_MAX:,} bytes: shorten the paths")


def _read(decoder: msgspec.json.Decoder[Any], manifest: bytes, tree_id: str) -> Any:
    if len(manifest) > MANIFEST_BYTES_MAX:
        raise BadTree(f"it has more than {MANIFEST_BYTES_MAX:,} bytes")
    if id_of(manifest) != tree_id:
        raise BadTree(f"its SHA-256 is not {tree_id[:64]}")
    try:
        tree = decoder.decode(manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadTree(str(error)) from error
    _check(tree)
    if tree.manifest() != manifest:
        raise BadTree("it is written in another form than podfleet writes it")
    return tree


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str)
_DECODER: Final = msgspec.json.Decoder(Tree, dec_hook=from_text)
_OF_RUN_DECODER: Final = msgspec.json.Decoder(RunFiles, dec_hook=from_text)
_ID: Final = re.compile("[0-9a-f]{64}")


def tree_in(named: str) -> str:
    """Return the id of the tree that an input is: all of its text, or what stands behind its last `@`."""
    return named.rpartition("@")[2]


def is_tree_id(text: str) -> bool:
    """Say whether a text has the form of a tree's id."""
    return _ID.fullmatch(text) is not None


def named_trees(spec: object) -> set[str]:
    """Return the ids of the trees that a run may read: its `tree`, and those of its `inputs`."""
    if not isinstance(spec, Mapping):
        return set()
    inputs = spec.get("inputs")
    named = [spec.get("tree"), *(inputs.values() if isinstance(inputs, Mapping) else ())]
    return {tree_in(each) for each in named if isinstance(each, str) and each}
