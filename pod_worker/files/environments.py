"""The Python environments of a pod: made once by the run that wants it first, then read-only for all.

Law: whoever makes one is a process of a run, whose word counts for nothing but the environment of its own
key. Copied are plain files, folders, and links inside of it, before a program of the run has begun; the copy
belongs to the worker, and nothing of the run can write to it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.files.tree_removal import remove_tree
from events.runtime.clock import Clock
from events.runtime.errors import Rejected
from pod_worker.files.folder_cache import ID, FolderCache, Size

ENVIRONMENT_CACHE_BYTES: Final = 50 << 30
BYTES_MAX: Final = 40 << 30  # of one, however much a pod keeps
FILES_MAX: Final = 500_000
PIECE_BYTES: Final = 1 << 20
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
        size = _size(made, min(BYTES_MAX, self._cache.bytes_max), check)
        self._cache.put(self._key, size, self._lock, lambda folder: _copy(made, folder, size.bytes, check))
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
        self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)  # the names of the folders are secrets
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


@dataclass(slots=True)
class _Copying:
    """Copies a folder to which a run may still write, or only weighs it; no link is followed.

    `left` are the bytes that it may still have.
    """

    left: int
    check: Callable[[], None]
    files: int = 0

    def folder(self, source: int, target: int | None, way: tuple[str, ...] = ()) -> None:
        """Copy what lies in a folder, given by its descriptor. Raises `Rejected` for what is not fit."""
        self.check()
        if len(way) > DEPTH_MAX:
            raise Rejected("too_deep", f"it has folders below {DEPTH_MAX} others")
        with os.scandir(source) as entries:
            for entry in entries:
                self._entry(source, target, (*way, entry.name))

    def _entry(self, source: int, target: int | None, way: tuple[str, ...]) -> None:
        self.files += 1
        if self.files > FILES_MAX:
            raise Rejected("too_large", f"it has more than {FILES_MAX:,} files")
        mode = os.lstat(way[-1], dir_fd=source).st_mode
        if stat.S_ISDIR(mode):
            self._below(source, target, way)
        elif stat.S_ISLNK(mode):
            _link(source, target, way)
        elif stat.S_ISREG(mode):
            self._file(source, target, way[-1])
        else:
            raise Rejected("special_file", f"{'/'.join(way)} is no plain file")

    def _below(self, source: int, target: int | None, way: tuple[str, ...]) -> None:
        below = os.open(way[-1], _FOLDER, dir_fd=source)
        beside = None
        try:
            if target is not None:
                os.mkdir(way[-1], 0o755, dir_fd=target)
                beside = os.open(way[-1], _FOLDER, dir_fd=target)
            self.folder(below, beside, way)
        finally:
            os.close(below)
            if beside is not None:
                os.close(beside)

    def _file(self, source: int, target: int | None, name: str) -> None:
        """Copy a file with its time, by which Python knows what it has compiled."""
        with os.fdopen(os.open(name, _PLAIN, dir_fd=source), "rb") as old:
            found = os.fstat(old.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise Rejected("special_file", f"{name} is no plain file any more")
            self._count(found.st_size)
            if target is None:
                return
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
            with os.fdopen(handle, "wb") as new:
                size = found.st_size
                while piece := old.read(
                    min(size, PIECE_BYTES)
                ):  # it has what it was weighed with, and no more
                    new.write(piece)
                    size -= len(piece)
                new.flush()
                os.fchmod(handle, 0o755 if found.st_mode & 0o111 else 0o644)
                os.utime(handle, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _count(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise Rejected("too_large", "it has more bytes than a pod keeps of one")


def _size(made: Path, bytes_max: int, check: Callable[[], None]) -> Size:
    """Return the size of an environment. Raises `Rejected` where it has more than it may."""
    weighing = _Copying(bytes_max, check)
    source = os.open(made, _FOLDER)
    try:
        weighing.folder(source, None)
    finally:
        os.close(source)
    return Size(bytes_max - weighing.left, weighing.files)


def _copy(made: Path, folder: Path, size: int, check: Callable[[], None]) -> None:
    """Copy a folder of so many bytes into an empty one of ours."""
    remove_tree(folder)  # of a worker that died
    folder.mkdir()
    source, target = os.open(made, _FOLDER), os.open(folder, _FOLDER)
    try:
        _Copying(size, check).folder(source, target)
    finally:
        os.close(source)
        os.close(target)


def _link(source: int, target: int | None, way: tuple[str, ...]) -> None:
    leads_to = os.readlink(way[-1], dir_fd=source)
    if not _is_inside(leads_to, way[:-1]):
        raise Rejected("foreign_link", f"{'/'.join(way)} leads out of it, to {leads_to[:200]}")
    if target is not None:
        os.symlink(leads_to, way[-1], dir_fd=target)


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
