"""Removes what an ended user left where everybody may write: files, and memory without a file.

Law: only what this user made is removed, and no link is followed. Nothing of the user runs any more.
"""

from __future__ import annotations

import ctypes
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from events.files.tree_removal import remove_tree

SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")  # noqa: S108 - others' too
IPC_RMID: Final = 0
# What System V keeps until somebody removes it: its list in /proc, the call, and how many arguments it has.
SYSTEM_V: Final[Mapping[str, tuple[str, int]]] = {
    "shm": ("shmctl", 3),
    "msg": ("msgctl", 3),
    "sem": ("semctl", 4),
}


def remove_leftovers(user: int) -> None:
    """Remove what a user, who has no process any more, left outside its own folders."""
    for folder in {*SHARED, tempfile.gettempdir()}:
        for path in _owned_in(folder, user):
            _remove(path)
    for kind, (call, arguments) in SYSTEM_V.items():
        for identity in _made_by(user, kind):
            getattr(ctypes.CDLL(None), call)(identity, *(0,) * (arguments - 3), IPC_RMID, None)


def _owned_in(folder: str, user: int) -> Iterator[Path]:
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            with suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == user:
                    yield Path(entry.path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            remove_tree(path)
        else:
            path.unlink()


def _made_by(user: int, kind: str) -> Iterator[int]:
    """Yield the numbers of what a user has made; its owner could have been changed, its maker not."""
    with suppress(OSError):
        names, *rows = (line.split() for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines())
        for row in rows:
            each = dict(zip(names, row, strict=True))
            if int(each["cuid"]) == user:
                yield int(row[1])
