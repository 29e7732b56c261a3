"""The file trees of a pod: fetched once, read-only, kept within a limit of bytes, shared by its processes.

Law: a tree is there whole or not at all: it is fetched into a folder beside, written through to the disk, and
renamed. Who uses one holds a lock of it, shared; who fetches or removes one holds the lock alone. So one
fetches a tree that several want, none in use is removed, and the lock of a process that died is free. The
longest unused go first.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from events.answers.kinds.trees import FileTree, TreeChunks
from events.delivery.control_plane_client import Answer, ControlPlane, bearer
from events.files.tree_fetch import TreeFetch
from events.files.tree_removal import remove_tree
from events.queue.claims import Claim
from events.runtime.clock import Clock
from events.runtime.errors import NotFound, Rejected, Transient

TREE_CACHE_BYTES: Final = 100 << 30
ROOM_BYTES: Final = 256 << 20  # that a tree leaves of the disk
CALL_S: Final = 10.0
TURN_S: Final = 0.2
LOCK: Final = ".lock"
PARTIAL: Final = ".partial"
_ID: Final = re.compile("[0-9a-f]{64}")
SIZE_CHARS_MAX: Final = 20
_WRITE: Final = 0o222
_SEALED: Final = 0o555  # of folders


@dataclass(frozen=True, slots=True)
class TreesOfRun:
    """Asks the control plane for the trees that a run names, by its token."""

    control_plane: ControlPlane
    claim: Claim

    def tree(self, tree_id: str) -> FileTree:
        """Return what is known of a tree. Raises `LeaseLost`, `NotFound`, `Transient`."""
        return self._ask(tree_id, "", {}).read(FileTree, self.claim)

    def chunks(self, tree_id: str, first: int) -> TreeChunks:
        """Return where its chunks are. Raises as `tree` does."""
        return self._ask(tree_id, "/chunks", {"first": first}).read(TreeChunks, self.claim)

    def _ask(self, tree_id: str, part: str, query: Mapping[str, int]) -> Answer:
        path = f"/api/runs/{self.claim.run_id}/trees/{tree_id}{part}"
        headers = bearer(self.claim.run_token)
        answer = self.control_plane.send("GET", path, params=query, headers=headers, timeout_s=CALL_S)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise NotFound("unknown_tree", answer.shown())
        return answer


@dataclass(frozen=True, slots=True)
class TreeCache:
    """Trees below a folder of this pod, `bytes_max` of them at most; several processes may use it at once."""

    folder: Path
    clock: Clock
    bytes_max: int = TREE_CACHE_BYTES
    _never: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def used(self, tree_id: str, fetch: TreeFetch) -> Iterator[Path]:
        """Yield the folder of a tree, which is fetched where it is not there, and stays while it is used.

        Raises what `fetch` raises, and `Rejected` or `Transient` where the tree finds no room.
        """
        if not _ID.fullmatch(tree_id):
            raise Rejected("bad_tree", f"{tree_id[:64]!r} is no id of a tree")
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / tree_id
        while True:
            with self._locked(tree_id, fcntl.LOCK_SH, fetch.check) as lock:
                if place.is_dir():
                    os.utime(lock)  # its last use
                    yield place
                    os.utime(lock)
                    return
            with self._locked(tree_id, fcntl.LOCK_EX, fetch.check) as lock:
                if not place.is_dir():
                    self._fetch(tree_id, lock, fetch)

    def _fetch(self, tree_id: str, lock: int, fetch: TreeFetch) -> None:
        tree = fetch.manifest(tree_id)
        self._make_room(tree.size, tree_id)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(tree.size).encode(), 0)
        os.utime(lock)
        partial = self.folder / f"{tree_id}{PARTIAL}"
        try:
            partial.mkdir(exist_ok=True)
            fetch.fill(tree, tree_id, partial)
            _seal(partial)
            os.rename(partial, self.folder / tree_id)
            _through(self.folder)
        except OSError as error:
            remove_tree(partial)  # it may hold what no fetch writes
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_room(f"the disk of {self.folder} is full") from error
            raise Transient("tree_unwritable", f"{self.folder} does not take a tree: {error}") from error
        except Rejected:
            remove_tree(partial)
            raise

    def _make_room(self, size: int, tree_id: str) -> None:
        """Remove trees that nobody uses, the longest unused first, until one of `size` bytes has room."""
        if size > self.bytes_max:
            raise Rejected(
                "tree_too_large",
                f"the tree has {size:,} bytes, and the pod keeps {self.bytes_max:,} of them: raise its limit",
            )
        kept = sorted(entry for entry in self._entries() if entry[2] != tree_id)
        total = sum(entry[1] for entry in kept)

        def lacks() -> bool:
            return total + size > self.bytes_max or shutil.disk_usage(self.folder).free < size + ROOM_BYTES

        for _, bytes_, other in kept:
            if not lacks():
                return
            with suppress(_InUseError), self._locked(other, fcntl.LOCK_EX, _at_once):
                remove_tree(self.folder / other)
                remove_tree(self.folder / f"{other}{PARTIAL}")
                (self.folder / f"{other}{LOCK}").unlink()
                total -= bytes_
        if lacks():
            raise _no_room(f"{self.folder} has no room for a tree of {size:,} bytes beside those in use")

    def _entries(self) -> Iterator[tuple[int, int, str]]:
        """Yield last use, bytes and id of each tree."""
        for lock in self.folder.glob(f"*{LOCK}"):
            with suppress(OSError, ValueError):
                text = lock.read_bytes()[:SIZE_CHARS_MAX]
                yield lock.stat().st_mtime_ns, int(text or b"0"), lock.name.removesuffix(LOCK)

    @contextmanager
    def _locked(self, tree_id: str, how: int, wait: Callable[[], None]) -> Iterator[int]:
        """Hold the lock of a tree; `wait` is asked before each try but the first, and may raise."""
        path = self.folder / f"{tree_id}{LOCK}"
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
    """Another process uses the tree."""


def _at_once() -> None:
    raise _InUseError


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
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~_WRITE)
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
