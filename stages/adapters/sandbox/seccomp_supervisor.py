"""Supervises the creation of processes by a seccomp filter, so that a fork bomb never starts.

Law: the kernel holds the caller until the watch answers; without an answer the process is not created. It
serves where no other count holds: the kernel exempts root, and containers forbid control groups.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stages.adapters.sandbox.footprint import Process
from stages.isolation.system_calls import NUMBERS, THREAD

_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER = 1, 8
_UNDISTURBED: Final = 32  # once we have heard of it, no signal with a handler breaks a call off (Linux 5.19)
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_QUESTION: Final = struct.Struct("=QIIiIQ6Q")  # id, pid, flags, call, architecture, place, arguments
_ANSWER: Final = struct.Struct("=QqiI")  # id, value, error, flags
_CONTINUE: Final = 1
_CLONE: Final = NUMBERS["clone"]


@dataclass(frozen=True, slots=True)
class Creation:
    """A process or thread that waits to be created."""

    id: int
    is_thread: bool


def install_filter(compiled: bytes) -> int | None:
    """Have every creation below this process wait for an answer; return where it is asked for.

    None where this kernel, or who started us, does not allow it.
    """
    number = _SECCOMP.get(os.uname().machine)
    if number is None:
        return None
    instructions = ctypes.create_string_buffer(compiled, len(compiled))
    program = struct.pack("@HP", len(compiled) // 8, ctypes.addressof(instructions))
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    for flags in (_NEW_LISTENER | _UNDISTURBED, _NEW_LISTENER):
        listener: int = call(ctypes.c_long(number), ctypes.c_long(_SET_FILTER), ctypes.c_long(flags), program)
        if listener >= 0:
            return listener
    return None


@dataclass(slots=True, kw_only=True)
class SeccompSupervisor:
    """Admits processes below the limits; the first one beyond them is not answered, and all must end.

    It counts up at each creation and measures only when the count reaches a limit: a program that starts one
    process after another costs few measurements.
    """

    listener: int
    below: Callable[[], list[Process]]
    processes_max: int
    tasks_max: int  # threads, the first of each process among them, and whoever is not buried yet
    is_over_limit: bool = False
    _processes: int = 1
    _tasks: int = 1

    def answer(self) -> None:
        """Answer one creation that waits."""
        creation = _received(self.listener)
        if creation is None or self.is_over_limit:
            return
        self._add(creation)
        if self._is_beyond():
            self._count()
            self._add(creation)
            if self._is_beyond():
                self.is_over_limit = True
                return
        _allow(self.listener, creation)

    def _add(self, creation: Creation) -> None:
        self._processes += not creation.is_thread
        self._tasks += 1

    def _is_beyond(self) -> bool:
        return self._processes > self.processes_max or self._tasks > self.tasks_max

    def _count(self) -> None:
        below = self.below()
        self._processes = sum(not process.is_zombie for process in below)
        self._tasks = sum(process.threads for process in below)


def _received(listener: int) -> Creation | None:
    question = bytearray(_QUESTION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, question)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):  # the caller has died meanwhile
            return None
        raise
    name, _, _, call, _, _, flags, *_ = _QUESTION.unpack(question)
    return Creation(name, is_thread=call in _CLONE and bool(flags & THREAD))


def _allow(listener: int, creation: Creation) -> None:
    """Let the call go on; nothing it was decided by lies where the caller could change it."""
    try:
        fcntl.ioctl(listener, _SEND, bytearray(_ANSWER.pack(creation.id, 0, 0, _CONTINUE)))
    except FileNotFoundError:  # the caller has died meanwhile
        return
