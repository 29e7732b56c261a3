"""Hides a process from the others of its user."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_SET_DUMPABLE: Final = 4


def hide() -> None:
    """Hide memory, environment and descriptors from other processes of this user. Raises `OSError`.

    Programs that this process starts are not hidden.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {_SET_DUMPABLE}: {os.strerror(code)}")
