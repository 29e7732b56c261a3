"""Folders of a pod by checksums: kept within limits of bytes and files, and shared by its processes.

Law: a folder is there whole or not at all. Who uses one holds a lock of it, shared; who makes or removes one
holds the lock alone. So one makes what several want, none in use is removed, and the lock of a process that
died is free. The longest unused go first. The locks lie beside the folder: who reads what is in it, as a run
with the worker's user does, could take them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.files.tree_removal import remove_tree
from events.runtime.clock import Clock
from events.runtime.errors import Rejected, Transient

ROOM_BYTES: Final = 256 << 20  # that a folder leaves of the disk
ROOM_FILES: Final = 10_000  # so many more its file system has to take
FILES_MAX: Final = 2_000_000  # of all folders of a cache
TOO_SMALL: Final = "CACHE_TOO_SMALL"
TREE_CACHE_BYTES: Final = 100 << 30  # of file trees, unless the pod says another limit
TURN_S: Final = 0.2
LOCK: Final = ".lock"
PARTIAL: Final = ".partial"
ID: Final = re.compile("[0-9a-f]{64}")
SIZE_CHARS_MAX: Final = 40
_WRITE: Final = 0o222
_SEALED: Final = 0o555  # of folders


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """What a folder takes of a disk."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class FolderCache:
    """Folders below one of this pod, of `bytes_max` and `files_max` at most; `of` says what each is."""

    folder: Path
    clock: Clock
    bytes_max: int
    of: str
    files_max: int = FILES_MAX
    _never: threading.Event = field(default_factory=threading.Event)

    @property
    def locks(self) -> Path:
        """The folder of the locks."""
        return self.folder.with_name(f"{self.folder.name}.locks")

    def place(self, name: str) -> Path:
        """Return where a folder lies, if it is there."""
        return self.folder / name

    def put(self, name: str, size: Size, lock: int, fill: Callable[[Path], None]) -> None:
        """Have a folder of this size filled, and put it in its place; `lock` is held alone.

        Raises what `fill` raises, and `Rejected` or `Transient` where it finds no room.
        """
        self._make_room(size, name)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{size.bytes} {size.files}".encode(), 0)
        os.utime(lock)
        partial = self.folder / f"{name}{PARTIAL}"
        try:
            partial.mkdir(exist_ok=True)
            fill(partial)
            _seal(partial)
            os.rename(partial, self.folder / name)
            _through(self.folder)
        except OSError as error:
            remove_tree(partial)  # it may hold what nobody writes again
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_room(f"the disk of {self.folder} is full") from error
            raise Transient("folder_unwritable", f"{self.folder} takes no {self.of}: {error}") from error
        except Rejected:
            remove_tree(partial)
            raise

    def _make_room(self, size: Size, name: str) -> None:
        """Remove folders that nobody uses, the longest unused first, until one of `size` has room."""
        for has, most, of in (
            (size.bytes, self.bytes_max, "bytes"),
            (size.files, self.files_max, "files"),
        ):
            if has > most:
                why = f"the {self.of} has {has:,} {of}, and this pod keeps {most:,} of them"
                raise Rejected(TOO_SMALL, f"{why}: raise its limit, or name pods that keep more")
        kept = sorted(entry for entry in self._entries() if entry[2] != name)
        bytes_, files = (sum(getattr(each, of) for _, each, _ in kept) for of in ("bytes", "files"))

        def lacks() -> bool:
            is_over = bytes_ + size.bytes > self.bytes_max or files + size.files > self.files_max
            return is_over or _is_full(self.folder, size)

        for _, its, other in kept:
            if not lacks():
                return
            with suppress(_InUseError), self.locked(other, fcntl.LOCK_EX, _at_once):
                remove_tree(self.folder / other)
                remove_tree(self.folder / f"{other}{PARTIAL}")
                (self.locks / f"{other}{LOCK}").unlink()
                bytes_, files = bytes_ - its.bytes, files - its.files
        if lacks():
            of = f"a {self.of} of {size.bytes:,} bytes and {size.files:,} files"
            raise _no_room(f"{self.folder} has no room for {of} beside those in use")

    def _entries(self) -> Iterator[tuple[int, Size, str]]:
        """Yield last use, size and name of each."""
        for lock in self.locks.glob(f"*{LOCK}"):
            with suppress(OSError, ValueError):
                text = lock.read_bytes()[:SIZE_CHARS_MAX]
                has = [*map(int, text.split()), 0, 0]
                yield lock.stat().st_mtime_ns, Size(has[0], has[1]), lock.name.removesuffix(LOCK)

    @contextmanager
    def locked(self, name: str, how: int, wait: Callable[[], None]) -> Iterator[int]:
        """Hold the lock of a folder; `wait` is asked before each try but the first, and may raise."""
        self.locks.mkdir(mode=0o700, exist_ok=True)
        path = self.locks / f"{name}{LOCK}"
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                while not _flock(handle, how):
                    wait()
                    self.clock.wait(self._never, TURN_S)
                if _is_file_of(handle, path):  # else it was removed before it was ours
                    yield handle
                    return
            finally:
                os.close(handle)


class _InUseError(Exception):
    """Another process uses the folder."""


def _at_once() -> None:
    raise _InUseError


def _is_full(folder: Path, size: Size) -> bool:
    """Say whether the disk takes no folder of this size; some file systems count no files."""
    if shutil.disk_usage(folder).free < size.bytes + ROOM_BYTES:
        return True
    found = os.statvfs(folder)
    return bool(found.f_files) and found.f_favail < size.files + ROOM_FILES


def _no_room(why: str) -> Transient:
    return Transient("DISK_FULL", f"{why}: remove files there, or give the pod a larger disk")


def _flock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_file_of(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _seal(folder: Path) -> None:
    """Take away all leave to write, and have everything on the disk."""
    for above, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = os.path.join(above, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & ~_WRITE)
        os.chmod(above, _SEALED)
    _through(folder)


def _through(folder: Path) -> None:
    """Have what was written to the file system of a folder on its disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(handle):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(handle)
