"""The kernel's own means to hold a process, which Python lacks: each call changes the caller for good.

Law: standard library only, because the program that starts hostile programs has nothing else.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_SET_PDEATHSIG, _DROP_FROM_BOUNDS, _SET_SUBREAPER, _SET_NO_NEW_PRIVILEGES, _SET_SECCOMP = 1, 24, 36, 38, 22
_CAPSET: Final = {"x86_64": 126, "aarch64": 91}
_CAPABILITIES: Final = 64  # more than any kernel has
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture

# Landlock's rights over files, by the version that brought them
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_OF_FIRST, _REFER, _TRUNCATE, _IOCTL_DEVICE = 0x1FFF, 1 << 13, 1 << 14, 1 << 15
_ON_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_TCP, _SCOPES = 3, 3  # bind and connect; abstract sockets and signals
_MAKES_DEVICES: Final = 1 << 6 | 1 << 11
_LATEST: Final = 7


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _call(number: int, *arguments: int | ctypes.c_void_p | bytes | None) -> int:
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer: int = _library().syscall(ctypes.c_long(number), *given)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def _prctl(option: int, value: int, more: bytes | None = None) -> None:
    if _library().prctl(option, ctypes.c_ulong(value), more, None, None):
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_SET_SUBREAPER, 1)


def end_with_parent(parent: int, number: int) -> None:
    """Get signal `number` when the parent ends; raises `OSError` where it has ended already."""
    _prctl(_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise OSError("the parent is gone")


def gain_no_privileges() -> None:
    """Give up the ways to get privileges that this process lacks."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)


def renounce_privileges() -> None:
    """Give up every capability, and the ways to get one back."""
    gain_no_privileges()
    for capability in range(_CAPABILITIES):
        with suppress(OSError):  # not one of this kernel, or not ours to drop: what counts comes next
            _prctl(_DROP_FROM_BOUNDS, capability)
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        return
    header = struct.pack("=Ii", 0x20080522, 0)
    _call(number, header, bytes(24))


def landlock_abi() -> int:
    """Return the version of Landlock that this kernel has, 0 for none."""
    try:
        return _call(_CREATE_RULESET, None, 0, 1)
    except OSError:  # not built in, or not switched on
        return 0


def stay_inside() -> None:
    """Reach no abstract socket and no process outside, where the kernel can enforce that (Linux 6.12).

    Needs `gain_no_privileges` first.

    Files are not restricted, so that mounts stay possible.
    """
    if landlock_abi() >= 6:
        attribute = struct.pack("=QQQ", 0, 0, _SCOPES)
        ruleset = _call(_CREATE_RULESET, attribute, len(attribute), 0)
        _call(_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def restrict_files(
    readable: Iterable[str],
    listed: Iterable[str],
    writable: Iterable[str],
    abi: int,
    *,
    has_network: bool = False,
) -> None:
    """Leave only what is beneath these paths; what does not exist grants nothing.

    Beneath what is `listed` folders may be looked into, and no file may be read.

    Where the kernel can it also ends abstract sockets and signals to the outside, and TCP where
    there shall be no network.
    """
    abi = min(abi, _LATEST)
    handled = _OF_FIRST
    handled |= sum(
        right for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEVICE)) if abi >= since
    )
    attribute = struct.pack("=Q", handled)
    if abi >= 4:
        attribute += struct.pack("=Q", 0 if has_network else _TCP)
    if abi >= 6:
        attribute += struct.pack("=Q", _SCOPES)
    ruleset = _call(_CREATE_RULESET, attribute, len(attribute), 0)
    reading = _EXECUTE | _READ_FILE | _READ_DIR
    for paths, rights in ((readable, reading), (listed, _READ_DIR), (writable, handled & ~_MAKES_DEVICES)):
        for path in paths:
            _allow(ruleset, path, rights)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not Path(path).is_dir():
        rights &= _ON_FILES
    _call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, beneath), 0)
    os.close(beneath)


def filter_calls(compiled: bytes) -> None:
    """Install a filter of system calls; needs `renounce_privileges` first."""
    instructions = ctypes.create_string_buffer(compiled, len(compiled))
    program = struct.pack("@HP", len(compiled) // 8, ctypes.addressof(instructions))
    _prctl(_SET_SECCOMP, 2, program)
