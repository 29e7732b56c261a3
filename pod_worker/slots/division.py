"""Which slots a pod has, and which of its devices each one owns, pure.

Law: a device belongs to one slot at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

SLOTS_MAX: Final = 64
FOLDER: Final = "slots"  # in the pod's folder: those of all slots but the first
SHARE: Final = "PODFLEET_GPU_SHARE"
_SHARE: Final = re.compile(r"([1-9][0-9]?)/([1-9][0-9]?)")
_ORDER: Final = re.compile(r"([1-9][0-9]{0,2})/([1-9][0-9]{0,2})/([A-Za-z0-9_-]{1,32})/([1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True)
class Slot:
    """One worker of several: its number from 1 on, how many there are, their boot, and who started it.

    One above the count only delivers what it has, and leaves: the pod had more slots before.
    """

    number: int
    count: int
    boot: str
    supervisor: int

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the slot that an argument describes, None if it describes none."""
        found = _ORDER.fullmatch(text)
        if found is None:
            return None
        return cls(int(found[1]), int(found[2]), found[3], int(found[4]))

    @property
    def argument(self) -> str:
        """The argument of a command line that describes it."""
        return f"{self.number}/{self.count}/{self.boot}/{self.supervisor}"

    @property
    def is_spare(self) -> bool:
        """Say whether it only delivers what an earlier slot of its number left."""
        return self.number > self.count

    def data(self, pod: Path) -> Path:
        """Return its folder; the first has that of the pod, as the worker of a pod with one slot."""
        return pod if self.number == 1 else pod / FOLDER / str(self.number)


def share_of(text: str, devices: Sequence[str]) -> list[str] | None:
    """Return the devices of one of several workers of a machine, by a text such as 2/8; None where none fit.

    Devices that cannot be divided in equal parts are everybody's.
    """
    found = _SHARE.fullmatch(text)
    number, count = (int(found[1]), int(found[2])) if found else (1, 0)
    if not 1 <= number <= count or not devices or len(devices) % count:
        return None
    each = len(devices) // count
    return list(devices[(number - 1) * each : number * each])


def slots_of(wanted: int | None, devices: int) -> int:
    """Return how many slots a pod with so many devices has: as many as it wants, else one for each device."""
    return min(SLOTS_MAX, wanted or devices or 1)


def problem_with(slots: int, devices: int) -> str | None:
    """Return in words why so many slots cannot have the devices, None where they can."""
    if not devices or devices % slots == 0:
        return None
    fitting = ", ".join(str(each) for each in range(1, devices + 1) if devices % each == 0)
    return f"--slots (PODFLEET_SLOTS) is {slots}, and the pod has {devices} GPUs; slots that fit: {fitting}"


def devices_of(slot: Slot, devices: Sequence[str]) -> list[str] | None:
    """Return the devices of a slot; None where the pod has none, so that there is nothing to divide."""
    if not devices:
        return None
    each = len(devices) // slot.count  # beyond the count there are none
    return list(devices[(slot.number - 1) * each : slot.number * each])
