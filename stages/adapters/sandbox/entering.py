"""What turns a process, just forked, into one that a plan holds: one way for scripts and for programs.

Law: standard library only, as of all that starts hostile programs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from typing import Final

from stages.adapters.sandbox import kernel
from stages.isolation.levels import FILTER_FD, STATUS_FD, Plan

ABOVE: Final = 20  # the numbers below are given away


def enter(plan: Plan, status: int, before: Callable[[], None] = lambda: None) -> None:
    """Hold this process for good; with namespaces bubblewrap does, as which it goes on next.

    `before` is called when no privileges are left, ahead of what else is refused. Bubblewrap tells by `status`
    how it fared. Raises `OSError`.
    """
    compiled = bytes.fromhex(plan.filter_hex)
    if plan.namespaces:
        if plan.is_scoped:
            kernel.gain_no_privileges()
            kernel.stay_inside()
        if os.getuid() == 0:  # others are counted by the kernel; their bubblewrap may be set-user-id
            kernel.gain_no_privileges()
            before()
        _hand_over(compiled, status)
        return
    kernel.renounce_privileges()
    before()
    if plan.landlock_abi:
        own = (f"/proc/{os.getpid()}/{name}" for name in plan.own)
        kernel.restrict_files(
            (*plan.readable, *own),
            plan.listed,
            plan.writable,
            plan.landlock_abi,
            has_network=plan.has_network,
        )
    if compiled:
        kernel.filter_calls(compiled)


def _hand_over(compiled: bytes, status: int) -> None:
    """Put the filter, and the descriptor of the status, where bubblewrap's arguments name them."""
    reading, writing = os.pipe()
    os.write(writing, compiled)  # a pipe holds 64 KiB, the largest filter half of it
    reading = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    os.dup2(status, STATUS_FD, inheritable=True)
    os.dup2(reading, FILTER_FD, inheritable=True)
