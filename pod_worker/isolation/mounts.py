"""The file system that a process sees: empty folders over the real ones, with the needed paths in them.

Law: only the caller's own mount namespace changes. A process without capabilities cannot uncover a covered
folder, not even in a namespace that it creates.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

OTHERS_PASS: Final = 0o001
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x20000, 0x08000000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 1 << 12, 1 << 14, 1 << 18
MOUNT_SETATTR: Final = 442  # the same on every architecture; Linux 5.12
AT_RECURSIVE, ATTR_RDONLY, AT_FDCWD = 0x8000, 1, -100
OWNERS, EVERYBODYS = "mode=755", "mode=1777"


def show(places: Sequence[str]) -> None:
    """Let any user access `places`: cover the folders above them that others cannot enter by empty ones.

    Changes nothing if there is no such folder. Raises `OSError` if this process may not do it.
    """
    places = [place for place in places if not _is_closed(Path(place))]  # to show what is closed helps nobody
    closed = _closed(places)
    if not closed:
        return
    problem = f"others cannot enter {', '.join(sorted(closed))}, below which lies {closed.popitem()[1][0]}"
    try:
        _call("unshare", CLONE_NEWNS)
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        handles = _handles(places)
        while closed := _closed(places):  # what is shown may have another closed folder inside
            for folder, below in closed.items():
                _cover(folder, {place: handles[place] for place in below})
        _close(handles)
    except PermissionError as error:
        raise PermissionError(
            f"{problem}: keep it elsewhere (--data names the folder of the work), or run chmod o+x on them"
        ) from error


def seclude(
    hidden: Iterable[str], places: Collection[str], own: Collection[str], scratch: Collection[str]
) -> None:
    """Cover the hidden folders for this process by empty ones, with `places` and its `own` folders in them.

    It may write only to its own folders and to those of `scratch`, which are hidden folders that begin empty.
    The process keeps the capabilities of its new user namespace; the caller drops them. Raises `OSError` if
    this process may not do it, for example because it has threads.
    """
    here = os.getcwd()
    _own_namespaces()
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    handles = _handles([*places, *own])
    for path in sorted(hidden, key=lambda path: path.count("/")):  # what is shown may have another one inside
        below = {place: handle for place, handle in handles.items() if Path(path) in Path(place).parents}
        if os.path.isdir(path):
            _cover(path, below, EVERYBODYS if path in scratch else OWNERS)
        elif os.path.exists(path):
            _mount(os.devnull, path, None, MS_BIND)
    _close(handles)
    _set_read_only("/", True, AT_RECURSIVE)
    # Whoever makes a namespace inside, as bubblewrap does, says in /proc who he is there.
    for path in ("/proc", *own, *(each for each in scratch if os.path.isdir(each))):
        _set_read_only(path, False)
    # The folder that we are in is the one below the cover.
    os.chdir(here if os.path.isdir(here) else "/")


def _own_namespaces() -> None:
    """Enter new namespaces of users, mounts and System V memory, with the same user as before."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC)
    for name, text in (
        ("setgroups", "deny"),  # else nobody without rights may say which group he is
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text)


def _handles(places: Iterable[str]) -> dict[str, int]:
    handles = {}
    for place in places:
        with suppress(FileNotFoundError):  # it was there when the worker began
            handles[place] = os.open(place, os.O_PATH | os.O_CLOEXEC)
    return handles


def _close(handles: Mapping[str, int]) -> None:
    for handle in handles.values():
        os.close(handle)


def _cover(folder: str, below: Mapping[str, int], mode: str = OWNERS) -> None:
    """Cover a folder by an empty one, and bind the places below it that are given by their handles."""
    _mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, mode)
    for place in sorted(below):
        if not os.path.lexists(place):  # else it lies in one that is shown already
            _bind(below[place], place)


def _bind(handle: int, place: str) -> None:
    target = Path(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(f"/proc/self/fd/{handle}"):
        target.mkdir()
    else:
        target.touch()
    _mount(f"/proc/self/fd/{handle}", place, None, MS_BIND | MS_REC)


def _closed(places: Sequence[str]) -> dict[str, list[str]]:
    """Return the outermost folders that others cannot enter, each with the `places` below it."""
    found: dict[str, list[str]] = {}
    for place in places:
        folder = next((each for each in reversed(Path(place).parents) if _is_closed(each)), None)
        if folder is not None:
            found.setdefault(str(folder), []).append(place)
    return found


def _is_closed(path: Path) -> bool:
    return path.is_dir() and not path.stat().st_mode & OTHERS_PASS


def _set_read_only(path: str, is_so: bool, flags: int = 0) -> None:
    attributes = struct.pack("=QQQQ", ATTR_RDONLY * is_so, ATTR_RDONLY * (not is_so), 0, 0)
    number = ctypes.c_long(MOUNT_SETATTR)
    _call("syscall", number, AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(len(attributes)))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if each is None else os.fsencode(each) for each in (source, target, kind, options)]
    _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
