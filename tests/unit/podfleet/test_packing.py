"""The packer: which files of a folder become its tree, and what is refused."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from events.files.trees import CHUNK_BYTES, layout
from podfleet.client.trees import listing
from podfleet.client.trees.listing import Unpackable
from podfleet.client.trees.packing import Packed, pack


def write(folder: Path, **texts: str | bytes) -> Path:
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def names(folder: Path, *include: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [str(file.path) for file in pack(folder, include=include, exclude=exclude).tree.files]


def contents(packed: Packed) -> dict[str, bytes]:
    found = {str(file.path): b"" for file in packed.tree.files}
    for pieces, sha256 in zip(layout(packed.tree.files), packed.tree.chunks, strict=True):
        content = packed.content(pieces, sha256)
        for piece in pieces:
            found[str(piece.file.path)] += content[: piece.size]
            content = content[piece.size :]
        assert not content
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    write(folder, a="1", sub__b="2", data__large="3", _dot_gitignore="data\n*.log\n", x_dot_log="4")
    git = ["git", "-c", "init.defaultBranch=main", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "a", ".gitignore"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def test_a_folder_becomes_the_tree_of_its_bytes(tmp_path: Path) -> None:
    large = os.urandom(CHUNK_BYTES + 5)
    write(tmp_path, large=large, sub__run="#!", empty="")
    (tmp_path / "sub/run").chmod(0o700)
    packed = pack(tmp_path)
    assert contents(packed) == {"empty": b"", "large": large, "sub/run": b"#!"}
    assert [file.executable for file in packed.tree.files] == [False, False, True]
    (tmp_path / "sub/run").touch()
    assert pack(tmp_path).tree == packed.tree  # its times are no part of it


def test_git_says_which_files_and_patterns_add_and_leave_out(repository: Path) -> None:
    assert names(repository) == [".gitignore", "a", "sub/b"]
    assert names(repository / "sub") == ["b"]
    assert names(repository, "data/*", "*.log") == [".gitignore", "a", "data/large", "sub/b", "x.log"]
    assert names(repository, "data/", exclude=("sub",)) == [".gitignore", "a", "data/large"]
    write(repository, _dot_podfleetignore="sub/*\n!sub/b\n.*\n", nested__c="5")
    subprocess.run(["git", "init", "-q"], cwd=repository / "nested", check=True)
    (repository / "a").unlink()  # git still knows it
    assert names(repository, "*.log") == ["nested/c", "sub/b", "x.log"]


def test_a_folder_without_git_is_taken_whole_and_a_broken_repository_not(tmp_path: Path) -> None:
    write(tmp_path, a="1", _dot_gitignore="a\n")
    assert names(tmp_path) == [".gitignore", "a"]
    write(tmp_path, _dot_git="gitdir: nowhere\n")
    with pytest.raises(Unpackable, match=r"git cannot list .*not a git repository"):
        pack(tmp_path)


def test_links_are_followed_to_files_of_the_folder_only(tmp_path: Path) -> None:
    folder = write(tmp_path / "folder", a="1", sub__b="2")
    write(tmp_path, secret="3")
    (folder / "sub/link").symlink_to("../a")
    assert contents(pack(folder))["sub/link"] == b"1"
    (folder / "out").symlink_to("../secret")
    (folder / "dangling").symlink_to("nothing")
    (folder / "circle").symlink_to("circle")
    (folder / "below").symlink_to("sub")
    with pytest.raises(Unpackable) as refused:
        pack(folder)
    for each in (
        "'out' is a link that leads out",
        "'dangling' is",
        "'circle' is",
        "'below' is a link to a folder",
    ):
        assert each in str(refused.value)
    assert names(folder, exclude=("out", "dangling", "circle", "below")) == ["a", "sub/b", "sub/link"]


def test_what_is_no_plain_file_with_a_plain_name_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(tmp_path / "socket"))
    (tmp_path / "a\nb").touch()
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff")).touch()
    for number in range(12):
        (tmp_path / f"{number:02}\\").touch()
    with pytest.raises(Unpackable) as refused:
        pack(tmp_path)
    assert "no path" in str(refused.value)
    assert "and 6 more" in str(refused.value)
    with pytest.raises(Unpackable, match="'pipe' is no plain file; 'socket' is no plain file"):
        pack(tmp_path, exclude=["*\\\\", "a*", "?b", "[!ps]*"])


def test_files_that_may_not_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="1", b="2")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "b")
    with pytest.raises(Unpackable, match="'b' is a file that you may not read"):
        pack(tmp_path)


def test_a_folder_that_is_too_large_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{number:02}": "x" * number for number in range(1, 13)})
    with pytest.raises(Unpackable) as refused:
        pack(tmp_path, bytes_max=77)
    shown = [line.split()[-1] for line in str(refused.value).splitlines()[1:]]
    assert shown == [f"f{number:02}" for number in range(12, 2, -1)]
    assert "78 B" in str(refused.value)
    assert ".podfleetignore" in str(refused.value)


def test_too_many_files_and_no_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="1", b="2")
    with pytest.raises(Unpackable, match="is no folder"):
        pack(tmp_path / "a")
    monkeypatch.setattr(listing, "FILES_MAX", 1)
    with pytest.raises(Unpackable, match="2 files, and 1 are the most"):
        pack(tmp_path)
    monkeypatch.setattr(listing, "ENTRIES_MAX", 1)
    with pytest.raises(Unpackable, match="more than 1 files"):
        pack(tmp_path)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def overwrite(path: Path) -> None:
    path.write_bytes(b"y" * path.stat().st_size)
    os.utime(path, ns=(1, 1))


CHANGES: list[Callable[[Path], None]] = [grow, overwrite, Path.unlink, lambda path: os.truncate(path, 3)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_packed_is_refused(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, a="12345678", b="22") / "b"
    packed = pack(tmp_path)
    change(path)
    (pieces,) = layout(packed.tree.files)
    with pytest.raises(Unpackable, match=r"changed while|cannot be read"):
        packed.content(pieces, packed.tree.chunks[0])
    write(tmp_path, b="22", **{"large": bytes(CHUNK_BYTES + 1)})
    with pytest.raises(Unpackable, match=r"changed while|cannot be read"):
        pack(
            tmp_path, told=lambda done, size: change(tmp_path / "large") if done == CHUNK_BYTES + 10 else None
        )
