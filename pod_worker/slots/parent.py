"""Ties a slot to its supervisor: the kernel sends it SIGTERM when that process dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import Final

from pod_worker.slots.division import Slot

PR_SET_PDEATHSIG: Final = 1


def die_with(slot: Slot, stop: threading.Event) -> None:
    """Have this process told to leave when its supervisor dies; one that is dead already is noticed."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != slot.supervisor:
        stop.set()
