"""File trees: what a manifest may say, and how contents are divided into chunks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.files import trees
from events.files.paths import RunPath
from events.files.trees import (
    BORDER,
    CHUNK_BYTES,
    BadTree,
    Tree,
    TreeFile,
    id_of,
    in_order,
    layout,
    size_of,
    sizes_of,
)

ZERO: Final = "0" * 64
NAMES: Final = st.lists(st.text("ab-.é", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)
SIZES: Final = st.one_of(st.just(0), st.integers(1, CHUNK_BYTES // 3), st.integers(1, 3 * CHUNK_BYTES))


def _is_path(text: str) -> bool:
    return not {".", ".."} & set(text.split("/"))


FILES: Final = st.dictionaries(NAMES.filter(_is_path), SIZES, max_size=40).map(
    lambda sizes: [TreeFile(RunPath(path), size, False) for path, size in sizes.items()]
)


def digests(files: Any) -> list[str]:
    """Return a digest for each chunk, of which no two are the same."""
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in range(len(layout(files)))]


def tree_of(*sizes: int) -> Tree:
    files = in_order(TreeFile(RunPath(f"f{number}"), size, False) for number, size in enumerate(sizes))
    return Tree.made(files, digests(files))


@settings(max_examples=40)
@given(FILES)
def test_every_byte_lies_in_one_chunk_and_none_is_larger_than_the_limit(files: list[TreeFile]) -> None:
    files = list(in_order(files))
    chunks = layout(files)
    assert all(1 <= size_of(chunk) <= CHUNK_BYTES for chunk in chunks)
    told = [(piece.file, piece.offset, piece.size) for chunk in chunks for piece in chunk]
    expected = [
        (file, at, min(CHUNK_BYTES, file.size - at))
        for file in files
        for at in range(0, file.size, CHUNK_BYTES)
    ]
    assert told == expected
    for chunk in chunks:
        assert len(chunk) == 1 or all(piece.size == piece.file.size < CHUNK_BYTES for piece in chunk)


@settings(max_examples=40)
@given(FILES)
def test_a_tree_is_read_as_it_was_made_or_refused_as_its_manifest_would_be(files: list[TreeFile]) -> None:
    paths = {str(file.path) for file in files}
    above = {path[:cut] for path in paths for cut, char in enumerate(path) if char == "/"}
    if paths & above:
        with pytest.raises(BadTree, match="is a file in it, and the folder of"):
            Tree.made(files, digests(in_order(files)))
        return
    tree = Tree.made(files, digests(in_order(files)))
    assert Tree.read(tree.manifest(), id_of(tree.manifest())) == tree
    assert sum(sizes_of(tree).values()) == tree.size


@settings(max_examples=20)
@given(st.integers(0, 999), st.integers(1, CHUNK_BYTES // 20))
def test_a_file_that_changes_moves_few_chunks(changed: int, size: int) -> None:
    before = in_order(TreeFile(RunPath(f"d/{number}"), CHUNK_BYTES // 20, False) for number in range(1000))
    after = tuple(TreeFile(f.path, size, False) if f.path == f"d/{changed}" else f for f in before)
    old, new = (
        {tuple(piece.file for piece in chunk) for chunk in layout(files)} for files in (before, after)
    )
    assert len(new - old) <= 2 + BORDER // 4  # chunks of a stretch between two borders


def test_a_large_file_keeps_its_chunks_beside_small_ones() -> None:
    large = TreeFile(RunPath("m"), 2 * CHUNK_BYTES + 1, False)
    for small in ("a", "z"):
        chunks = layout(in_order([large, TreeFile(RunPath(small), 3, False)]))
        assert sorted(len(chunk) for chunk in chunks) == [1, 1, 1, 1]
        assert sum(chunk[0].file == large for chunk in chunks) == 3


def of(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the manifest of a tree of two files, changed."""
    told = json.loads(tree_of(5, CHUNK_BYTES).manifest())
    change(told)
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()


def file(path: str, size: int = 0) -> dict[str, Any]:
    return {"path": path, "size": size, "executable": False}


LIES: Final[list[tuple[bytes, str]]] = [
    (b"", "truncated"),
    (b"\xff", "invalid"),
    (b'{"files":' + b"[" * 100_000, "nested|recursion|Expected"),
    (of(lambda told: told.update(files=[file("/etc/passwd")], chunks=[])), "no relative path"),
    (of(lambda told: told.update(files=[file("a/../../b")], chunks=[])), "no relative path"),
    (of(lambda told: told.update(files=[file("a\nb")], chunks=[])), "no path"),
    (of(lambda told: told.update(files=[file("C:\\b")], chunks=[])), "no path"),
    (of(lambda told: told.update(files=[file("a\u2028b")], chunks=[])), "no path"),
    (of(lambda told: told.update(files=[file("a\0b")], chunks=[])), "no path"),
    (of(lambda told: told.update(files=[file("a//b")], chunks=[])), "no relative path"),
    (of(lambda told: told.update(files=[file("d/" * 600 + "f")], chunks=[])), "no path"),
    (of(lambda told: told.update(files=[file("a"), file("a")], chunks=[])), "twice"),
    (of(lambda told: told.update(files=[file("a"), file("a-"), file("a/b")], chunks=[])), "the folder of"),
    (of(lambda told: told.update(files=[file("b"), file("a")], chunks=[])), "order"),
    (of(lambda told: told["files"][0].update(size=-1)), ">= 0"),
    (of(lambda told: told["files"][0].update(size=1 << 70)), "range|<="),
    (of(lambda told: told["files"][0].update(size=0.5)), "int"),
    (of(lambda told: told["files"][0].update(size=0)), "take 1 chunks, and it names 2"),
    (of(lambda told: told["files"][0].update(mode=0o4755)), "unknown field"),
    (of(lambda told: told["files"][0].update(link="/etc/passwd")), "unknown field"),
    (of(lambda told: told["chunks"].append(ZERO)), "it names 3"),
    (of(lambda told: told["chunks"].__setitem__(0, "../" + ZERO[3:])), "regex"),
    (of(lambda told: told.update(chunks=[ZERO, ZERO])), "two sizes"),
    (of(lambda told: told.update(files=told.pop("files"))), "another form"),
    (of(lambda _: None) + b" ", "another form"),
    (of(lambda t: t.update(files=[file(str(n), 256 << 30) for n in range(2)], chunks=[])), "the most"),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "why"), LIES)
def test_a_manifest_that_lies_is_refused(manifest: bytes, why: str) -> None:
    with pytest.raises(BadTree, match=why):
        Tree.read(manifest, id_of(manifest))


def test_a_manifest_of_another_id_is_refused() -> None:
    with pytest.raises(BadTree, match=f"SHA-256 is not {ZERO}"):
        Tree.read(tree_of(1).manifest(), ZERO)


def test_a_manifest_is_bounded_in_files_chunks_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tree_of(1, CHUNK_BYTES, 2).manifest()
    for limit, most, why in (
        ("FILES_MAX", 2, "3 files"),
        ("CHUNKS_MAX", 1, "chunks, and 1 are"),
        ("TREE_BYTES_MAX", 9, "bytes, and 9 are"),
        ("MANIFEST_BYTES_MAX", 99, "more than 99 bytes"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(trees, limit, most)
            with pytest.raises(BadTree, match=why):
                Tree.read(manifest, id_of(manifest))
