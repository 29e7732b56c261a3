"""Opens files beneath a folder; no path and no link can lead out of it.

Law: the kernel resolves the path in one call that cannot leave the folder (`openat2`). Where it has no such
call, a walk from part to part follows no link. Both refuse the same paths.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from events.files.paths import RunPath, SafeName

Opener = Callable[[int, str, int, int], int]  # folder, path, flags, mode: a descriptor, or `OSError`

_OPENAT2: Final = 437  # the same on every architecture
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES: Final = 100  # the kernel asks for another one when something is renamed meanwhile
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # not to be read
_PLAIN: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK  # a pipe shall not hold anybody up


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def by_kernel(folder: int, path: str, flags: int, mode: int) -> int:
    """Open by one system call. Raises `OSError`; ENOSYS where this system has none."""
    if not sys.platform.startswith("linux"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if "\0" in path:
        raise ValueError("embedded null character")
    how = _How(flags, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_SYMLINKS | _NO_MAGIC_LINKS)
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    for _ in range(_TRIES):
        handle: int = library.syscall(
            ctypes.c_long(_OPENAT2), folder, os.fsencode(path), ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )  # fmt: skip
        if handle >= 0:
            return handle
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


def by_walk(folder: int, path: str, flags: int, mode: int) -> int:
    """Open from part to part, each without following a link. Raises `OSError`."""
    *above, name = path.split("/")
    if any(part in ("", ".", "..") for part in (*above, name)):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    at = os.dup(folder)
    try:
        for part in above:
            below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    finally:
        os.close(at)


@functools.cache
def opener() -> Opener:
    """Return what this system has; asked once, since a filter of system calls does not come and go."""
    here = os.open("/", _PLACE)  # Landlock lets nobody read it, where it holds a pipeline
    try:
        os.close(by_kernel(here, ".", _PLACE, 0))
    except OSError:
        return by_walk
    finally:
        os.close(here)
    return by_kernel


def read_beneath(folder: Path, path: RunPath | SafeName) -> BinaryIO:
    """Open a plain file for reading. Raises `OSError` where there is none, or a link leads to it."""
    with _opened(folder) as root:
        handle = opener()(root, path, os.O_RDONLY | _PLAIN, 0)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


@contextmanager
def folder_beneath(folder: Path, path: RunPath | SafeName) -> Iterator[int]:
    """Open a folder for its descriptor. Raises `OSError` where there is none, or a link leads to it."""
    with _opened(folder) as root:
        handle = opener()(root, path, _FOLDER, 0)
    try:
        yield handle
    finally:
        os.close(handle)


def open_plain(path: str) -> int:
    """Open what lies at an absolute path for reading. Raises `OSError` where a link stands on the way."""
    with _opened(Path("/")) as root:
        return opener()(root, path.lstrip("/"), os.O_RDONLY | _PLAIN, 0)


def write_beneath(folder: Path, path: RunPath | SafeName) -> BinaryIO:
    """Open a new file for writing, in the place of what lies there; folders to it are made.

    Raises `OSError` where a link, or something that is no folder, stands on the way.
    """
    with _way_to(folder, path) as (parent, name):
        handle = opener()(parent, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600)
    return os.fdopen(handle, "wb")


def update_beneath(folder: Path, path: RunPath) -> BinaryIO:
    """Open a plain file for writing as it is, a new one where there is none; folders to it are made.

    Raises `OSError` where a link, or something that is no folder, stands on the way or in its place.
    """
    with _way_to(folder, path, is_kept=True) as (parent, name):
        handle = opener()(parent, name, os.O_WRONLY | os.O_CREAT | _PLAIN, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", path)
        return os.fdopen(handle, "wb")
    except BaseException:
        os.close(handle)
        raise


def place_beneath(folder: Path, path: RunPath | SafeName) -> Path:
    """Return where a new file, or folder, may be made; folders to it are there, and nothing in its place.

    For what writes by paths only. Raises `OSError` as `write_beneath` does.
    """
    with _way_to(folder, path):
        return folder / path


def copy_beneath(source: Path, folder: Path, path: RunPath | SafeName) -> Path:
    """Copy a plain file, which is no link, into `folder`; return the copy. Raises `OSError`."""
    with read_beneath(source.parent, RunPath(source.name)) as old, write_beneath(folder, path) as new:
        shutil.copyfileobj(old, new)
    return folder / path


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # its own path is ours to trust
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def _way_to(folder: Path, path: RunPath | SafeName, *, is_kept: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the folder of `path` and its last part, after removing what was there unless that `is_kept`."""
    folder.mkdir(parents=True, exist_ok=True)
    *above, name = path.split("/")
    with _opened(folder) as root:
        at = os.dup(root)
        try:
            for part in above:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=at)
                below = opener()(at, part, _FOLDER, 0)
                os.close(at)
                at = below
            if not is_kept:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=at)
            yield at, name
        finally:
            os.close(at)
