"""Removes folders with hostile content: of any depth, and whatever their modes forbid.

Law: no limit of the file system, and none of this process, stops the removal. `shutil.rmtree` calls itself
once a level, so that a thousand nested folders end its caller, with an error that it does not ignore.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = 0o700  # what the owner needs to look into a folder, to empty and to move it


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it; follow no link. What cannot be removed stays, in silence."""
    with suppress(OSError):
        if not folder.is_symlink():
            _open_up(folder)
        root = os.open(folder, _FOLDER)
        try:
            _empty(root)
        finally:
            os.close(root)
        folder.rmdir()


def _empty(root: int) -> None:
    """Remove what is in a folder; each inner folder is first moved right into it: nothing is deep."""
    waiting = _emptied(root, root)
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            folder = os.open(name, _FOLDER, dir_fd=root)
            try:
                waiting += _emptied(folder, root)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=root)


def _emptied(folder: int, root: int) -> list[str]:
    """Remove the files of a folder, and return its folders by the names that they were moved to in `root`."""
    moved: list[str] = []
    for entry in list(os.scandir(folder)):
        with suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                continue
            name = token_hex(16)
            _open_up(entry.name, folder)
            os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=root)
            moved.append(name)
    return moved


def _open_up(name: str | Path, folder: int | None = None) -> None:
    """Take back what a folder's mode forbids; root needs no leave, and a link may have taken its place."""
    if os.geteuid():
        os.chmod(name, _OPEN, dir_fd=folder)
