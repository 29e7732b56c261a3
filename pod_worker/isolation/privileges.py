"""Drops the privileges of a pipeline's process, and protects a worker of the same user.

Law: another process of the same user cannot inspect a worker, and a process of a run has no capability that
allows it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from typing import Final

PR_SET_DUMPABLE: Final = 4
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
CAPABILITIES_MAX: Final = 64
CAP_SETFCAP: Final = 31  # bubblewrap needs it to give root a name in a namespace of its own
CAPABILITY_VERSION_3: Final = 0x20080522
KEPT: Final = 1 << CAP_SETFCAP
BECOMES: Final = 1 << 6 | 1 << 7 | 1 << 8  # CAP_SETGID, CAP_SETUID, CAP_SETPCAP: what `become` needs


class _Head(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Half(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def become(user: int) -> None:
    """Become another user permanently, without groups or capabilities. Raises `OSError`."""
    with suppress(PermissionError):  # without CAP_SETPCAP; no program gains any without them, too
        _bound(0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_DUMPABLE, 1)  # the kernel took it away: a process may look at itself, in /proc


def drop_capabilities(kept: int = KEPT) -> None:
    """Drop every capability but `kept`, for this process and all that it starts. Raises `OSError`.

    Nothing changes if the process has none, as one that is not root.
    """
    permitted = _capabilities()
    with suppress(OSError):  # a kernel before 4.3 knows no ambient ones
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    if not permitted:
        return
    try:
        _bound(kept)
    except PermissionError:  # without CAP_SETPCAP; then no program may bring any back
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
    left = permitted & kept
    halves = (_Half * 2)(*(_Half(part, part, 0) for part in (left & 0xFFFFFFFF, left >> 32)))
    _checked(_libc().capset(ctypes.byref(_Head(CAPABILITY_VERSION_3, 0)), halves))


def _bound(kept: int) -> None:
    """Prevent that a program of root regains dropped capabilities."""
    for number in range(CAPABILITIES_MAX):
        if not kept >> number & 1:
            try:
                _prctl(PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno == errno.EINVAL:  # behind the last one that this kernel knows
                    return
                raise


def _capabilities() -> int:
    halves = (_Half * 2)()
    _checked(_libc().capget(ctypes.byref(_Head(CAPABILITY_VERSION_3, 0)), halves))
    return int(halves[0].permitted | halves[1].permitted << 32)


def _prctl(option: int, value: int) -> None:
    _checked(_libc().prctl(option, value, 0, 0, 0))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(answer: int) -> None:
    if answer != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
