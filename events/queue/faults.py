"""Whose fault the end of an attempt was: the run's, its pod's, or that of something outside, pure.

Law: no fault of a pod or of the outside is charged to a run. A code that no table names is the run's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class Fault(StrEnum):
    """Whose fault a failure was."""

    RUN = "run"
    POD = "pod"
    OUTSIDE = "outside"


# What a pod tests of itself; `model` and `storage` are outside of it.
Check = Literal["model", "storage", "tools", "disk", "gpu", "memory", "clock", "sandbox"]


@dataclass(frozen=True, slots=True)
class Blame:
    """Whose fault a code is, and which check of the pod shows whether it is over."""

    fault: Fault
    check: Check | None = None


OWN: Final = Blame(Fault.RUN)
FAULTS: Final[Mapping[str, Blame]] = {
    "POD_LOST": Blame(Fault.POD),
    "KILLED": Blame(Fault.POD),
    "START_FAILED": Blame(Fault.POD, "sandbox"),
    "START_TIMEOUT": Blame(Fault.POD, "sandbox"),
    "NO_ISOLATION": Blame(Fault.POD, "sandbox"),
    "DISK_FULL": Blame(Fault.POD, "disk"),
    "DISK_FAILED": Blame(Fault.POD, "disk"),
    "OUTBOX_FULL": Blame(Fault.POD, "disk"),
    "MACHINE_LOST": Blame(Fault.POD, "memory"),
    "CUDA_UNSUPPORTED_ARCH": Blame(Fault.POD, "gpu"),
    "NOT_AVAILABLE": Blame(Fault.POD, "tools"),
    "NO_MODEL": Blame(Fault.POD, "model"),
    "MODEL_UNAUTHORISED": Blame(Fault.POD, "model"),
    "MODEL_QUOTA": Blame(Fault.POD, "model"),
    "MODEL_UNREACHABLE": Blame(Fault.OUTSIDE, "model"),
    "MODEL_TIMED_OUT": Blame(Fault.OUTSIDE, "model"),
    "MODEL_RATE_LIMITED": Blame(Fault.OUTSIDE, "model"),
    "ARTIFACT_UPLOAD_FAILED": Blame(Fault.OUTSIDE, "storage"),
}


def blame_of(code: str | None) -> Blame:
    """Return whose fault the code of a failure is."""
    return FAULTS.get(code or "", OWN)
