"""Which GPUs a program sees by `CUDA_VISIBLE_DEVICES`, pure.

Law: as CUDA reads the variable, what stands behind a name that is none is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
NAMES_MAX: Final = 64
MIG: Final = "MIG-"  # a slice of a card, which no list of cards has


def visible_devices(named: str | None, uuids: Sequence[str | None]) -> list[int | str]:
    """Return the devices that the variable names: places in the list of cards, and names of slices.

    None names all of them. A card without a known UUID has the next name that is the UUID of no other.
    """
    if named is None:
        return list(range(len(uuids)))
    found: list[int | str] = []
    for name in (each.strip() for each in named.split(",")[:NAMES_MAX]):
        device = name if name.startswith(MIG) else _place(name, uuids, found)
        if device is None or device in found:
            break
        found.append(device)
    return found


def _place(name: str, uuids: Sequence[str | None], taken: Sequence[int | str]) -> int | None:
    if name.isascii() and name.isdecimal():
        return int(name) if len(name) < 4 and int(name) < len(uuids) else None
    if not name.startswith("GPU-"):
        return None
    fitting = [place for place, uuid in enumerate(uuids) if uuid is not None and uuid.startswith(name)]
    if fitting:
        return fitting[0] if len(fitting) == 1 else None
    unknown = (place for place, uuid in enumerate(uuids) if uuid is None and place not in taken)
    return next(unknown, None)
