"""The Python environments of a pod: made once by the run that wants it first, then read-only for all.

Law: whoever makes one is a process of a run, whose word counts for nothing but the environment of its own
key. Copied are plain files, folders, and links inside of it, before a program of the run has begun; the copy
belongs to the worker, and nothing of the run can write to it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.files.tree_removal import remove_tree
from events.runtime.clock import Clock
from events.runtime.errors import Rejected
from pod_worker.files.folder_cache import ID, FolderCache

ENVIRONMENT_CACHE_BYTES: Final = 50 << 30
FILES_MAX: Final = 500_000
DEPTH_MAX: Final = 60
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Held:
    """The environment of a key: `path` where it is there; else it is this one's to make."""

    path: Path | None
    _lock: int
    _locked: AbstractContextManager[int] = field(repr=False)
    _cache: FolderCache = field(repr=False)
    _key: str

    def keep(self, made: Path, check: Callable[[], None]) -> Path:
        """Copy what a run has made, and hold the copy as who uses it.

        `check` is asked now and then. Raises what it raises, `Rejected`, or `Transient`.
        """
        size = _size(made, self._cache.bytes_max)
        self._cache.put(self._key, size, self._lock, lambda folder: _copy(made, folder, check))
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.path = self._cache.place(self._key)
        return self.path

    def close(self) -> None:
        """Leave it to others."""
        if self.path is not None:
            os.utime(self._lock)  # its last use
        self._locked.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class EnvironmentCache:
    """Environments below a folder of this pod, `bytes_max` of them at most."""

    folder: Path
    clock: Clock
    bytes_max: int = ENVIRONMENT_CACHE_BYTES

    def hold(self, key: str, wait: Callable[[], None]) -> Held:
        """Hold the environment of a key; `wait` is asked while another run makes it, and may raise."""
        if not ID.fullmatch(key):
            raise Rejected("bad_environment", f"{key[:64]!r} is no key of an environment")
        kept = FolderCache(self.folder, self.clock, self.bytes_max, "environment")
        while True:
            for how in (fcntl.LOCK_SH, fcntl.LOCK_EX):
                locked = kept.locked(key, how, wait)
                lock = locked.__enter__()
                is_there = kept.place(key).is_dir()
                if is_there == (how == fcntl.LOCK_SH):
                    if is_there:
                        os.utime(lock)
                    return Held(kept.place(key) if is_there else None, lock, locked, kept, key)
                locked.__exit__(None, None, None)


def _size(folder: Path, bytes_max: int) -> int:
    """Return the bytes of an environment. Raises `Rejected` where it has more than it may."""
    size = count = 0
    for entry, _ in _entries(folder):
        found = entry.stat(follow_symlinks=False)
        size, count = size + (found.st_size if stat.S_ISREG(found.st_mode) else 0), count + 1
        if size > bytes_max or count > FILES_MAX:
            raise Rejected("too_large", f"it has more than {bytes_max:,} bytes, or {FILES_MAX:,} files")
    return size


def _entries(folder: Path) -> Iterator[tuple[os.DirEntry[str], int]]:
    """Yield what lies in a folder, with its depth; no link is followed."""
    waiting = [(os.open(folder, _FOLDER), 0)]
    try:
        while waiting:
            handle, depth = waiting.pop()
            try:
                for entry in os.scandir(handle):
                    yield entry, depth
                    if entry.is_dir(follow_symlinks=False):
                        if depth >= DEPTH_MAX:
                            raise Rejected("too_deep", f"it has folders below {DEPTH_MAX} others")
                        waiting.append((os.open(entry.name, _FOLDER, dir_fd=handle), depth + 1))
            finally:
                os.close(handle)
    finally:
        for handle, _ in waiting:
            os.close(handle)


def _copy(made: Path, folder: Path, check: Callable[[], None]) -> None:
    """Copy a folder that a run may still write to into an empty one of ours."""
    remove_tree(folder)
    folder.mkdir()
    source = os.open(made, _FOLDER)
    target = os.open(folder, _FOLDER)
    try:
        _copy_folder(source, target, (), check)
    finally:
        os.close(source)
        os.close(target)


def _copy_folder(source: int, target: int, way: tuple[str, ...], check: Callable[[], None]) -> None:
    check()
    if len(way) > DEPTH_MAX:
        raise Rejected("too_deep", f"it has folders below {DEPTH_MAX} others")
    for entry in sorted(os.scandir(source), key=lambda each: each.name):
        name = entry.name
        mode = os.lstat(name, dir_fd=source).st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(name, 0o755, dir_fd=target)
            below, beside = (os.open(name, _FOLDER, dir_fd=each) for each in (source, target))
            try:
                _copy_folder(below, beside, (*way, name), check)
            finally:
                os.close(below)
                os.close(beside)
        elif stat.S_ISLNK(mode):
            leads_to = os.readlink(name, dir_fd=source)
            if not _is_inside(leads_to, way):
                raise Rejected(
                    "foreign_link", f"{'/'.join((*way, name))} leads out of it, to {leads_to[:200]}"
                )
            os.symlink(leads_to, name, dir_fd=target)
        elif stat.S_ISREG(mode):
            _copy_file(source, target, name)
        else:
            raise Rejected("special_file", f"{'/'.join((*way, name))} is no plain file")


def _copy_file(source: int, target: int, name: str) -> None:
    """Copy a file with its time, by which Python knows what it has compiled."""
    with (
        os.fdopen(os.open(name, _PLAIN, dir_fd=source), "rb") as old,
        os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=target), "wb") as new,
    ):
        found = os.fstat(old.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file any more", name)
        shutil.copyfileobj(old, new, 1 << 20)
        os.fchmod(new.fileno(), 0o755 if found.st_mode & 0o111 else 0o644)
        new.flush()
        os.utime(new.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _is_inside(leads_to: str, way: tuple[str, ...]) -> bool:
    """Say whether a link stays inside of its environment, or names the interpreter that it was made of."""
    if leads_to.startswith("/"):
        return os.path.realpath(leads_to) == os.path.realpath(sys.executable)
    depth = len(way)
    for part in leads_to.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return False
    return True
