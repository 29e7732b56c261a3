"""What git knows of a folder that is sent, and what of it is told."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from podfleet.client.trees import commit as told
from podfleet.client.trees.commit import commit_of, without_credentials

BY: Final = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a repository, with a file that is not sent."""
    git(tmp_path, "init", "-q", "-b", "main")
    found = tmp_path / "project"
    found.mkdir()
    for name in ("train.py", "own.txt", "left.txt"):
        (found / name).write_text("one\n")
    (found / ".podfleetignore").write_text("left*\n")
    git(tmp_path, "add", ".")
    git(tmp_path, *BY, "commit", "-q", "-m", "first")
    return found


def test_the_commit_of_a_folder_is_told_with_what_differs_and_is_sent(folder: Path) -> None:
    clean = commit_of(folder)
    assert clean is not None
    assert (clean.branch, clean.remote, clean.is_dirty, clean.diff) == ("main", "", False, b"")
    git(folder, "config", "diff.external", "touch hacked")
    (folder / "left.txt").write_text("CANARY\n")
    (folder.parent / "beside").write_text("CANARY\n")
    assert commit_of(folder) == clean
    (folder / "train.py").write_text("two\n")
    dirty = commit_of(folder)
    assert dirty is not None
    assert dirty.told() == {"commit": clean.commit, "branch": "main", "is_dirty": True}
    assert dirty.diff.endswith(b"-one\n+two\n")
    assert b"CANARY" not in dirty.diff
    assert not (folder / "hacked").exists()


def test_of_a_long_difference_the_beginning_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "DIFF_BYTES_MAX", 500)
    (folder / "train.py").write_text("line\n" * 1_000)
    found = commit_of(folder)
    assert found is not None
    assert len(found.diff) < 600
    assert found.diff.endswith(b"+line\n[... the rest is left out ...]\n")


def test_a_folder_without_a_commit_has_none_to_tell(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) is None


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:token@example.org:8443/a/b.git?x=1#y", "https://example.org:8443/a/b.git"),
        ("https://token@example.org/a", "https://example.org/a"),
        ("ssh://git:word@example.org/a", "ssh://git@example.org/a"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("user:word@example.org:a", ""),
        ("https://[::1]:80/a", "https://[::1]:80/a"),
        ("https://example.org:port/a", ""),
        ("/srv/a", ""),
        ("file:///srv/a", ""),
        ("ext::sh -c x", ""),
        ("https://example.org/" + "a" * 500, ""),
        ("", ""),
    ],
)
def test_an_address_is_told_without_what_lets_one_in(address: str, shown: str) -> None:
    assert without_credentials(address) == shown
