"""What lies below a folder, and what is left of its disk.

Law: links are not followed, and a look ends where there is more than was asked for. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

SMALLEST_BYTES: Final = 4096  # what an empty file counts: millions of them fill a disk too
PATH_MAX: Final = 3_500  # the kernel opens no path that is much longer
DEPTH_MAX: Final = 64  # whoever clears up goes down folder by folder, and has a stack


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What lies below a folder, until it was too much to go on."""

    used_bytes: int
    is_hiding: bool = False  # a folder is nested too deeply, or may not be looked into


def disk_use(folder: str, limit_bytes: int) -> DiskUse:
    """Return what lies below `folder`, without following links; more than the limit is not counted."""
    used = 0
    waiting = [folder]
    depth_max = folder.count("/") + DEPTH_MAX
    seen: set[int] = set()  # files with several names
    while waiting:
        path = waiting.pop()
        if len(path) > PATH_MAX or path.count("/") > depth_max:
            return DiskUse(used, is_hiding=True)
        try:
            for name, found in _entries(path):
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(name)
                elif found.st_nlink > 1:
                    if found.st_ino in seen:
                        continue
                    seen.add(found.st_ino)
                used += max(found.st_blocks * 512, SMALLEST_BYTES)
                if used > limit_bytes:
                    return DiskUse(used)
        except PermissionError:
            return DiskUse(used, is_hiding=True)
        except OSError:  # it is gone
            continue
    return DiskUse(used)


def _entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                yield entry.path, entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it is gone
                continue


def free_bytes(folder: str) -> int:
    """Return what is left of the disk on which `folder` lies."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
