"""Runs a command that cannot outlive the thread that started it.

`python die_with_parent.py PARENT_PID COMMAND ARG...` asks the kernel for SIGKILL at the death of the parent.
Then it becomes the command. It is a program, because the request has to be made in the new process, and
running Python between fork and exec is not safe in a program with threads. On systems without the
request (all but Linux) the command runs all the same. There a supervisor that is killed with SIGKILL leaves
its services behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the command; returns only by an exception."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:  # it died before the request: nobody would ever tell
            raise SystemExit(1)
    os.execv(command[0], command)  # noqa: S606 - no shell is what we want


if __name__ == "__main__":
    main(sys.argv[1:])
