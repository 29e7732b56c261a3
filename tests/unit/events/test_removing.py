"""Folders that a hostile program filled are removed whole, and nothing beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from events.files.tree_removal import remove_tree

DEEP = 3_000  # far beyond Python's stack, the descriptors of a process, and the length of a path


def nested(folder: Path) -> None:
    at = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def test_a_folder_goes_however_deep_it_is_and_whatever_its_modes_say(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "shut" / "inner").mkdir(parents=True)
    nested(folder)
    (folder / "link").symlink_to(outside)
    (folder / "shut" / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "shut" / "inner").chmod(0)
    (folder / "shut").chmod(0)
    folder.chmod(0)
    remove_tree(folder)
    assert sorted(tmp_path.iterdir()) == [outside]
    assert (outside / "kept").read_text() == "kept"


def test_what_is_no_folder_of_its_own_stays(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "file").touch()
    for name in ("link", "file", "missing"):
        remove_tree(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "link", "file"}
    assert (tmp_path / "folder" / "inner").is_dir()


def test_root_changes_no_mode_where_a_link_could_lead_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[object] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chmod", lambda *arguments, **_: changed.append(arguments))
    (tmp_path / "folder" / "inner" / "deep").mkdir(parents=True)
    remove_tree(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    assert changed == []
