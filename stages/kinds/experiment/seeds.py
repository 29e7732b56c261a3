"""Seeds by name: every random choice of a run follows from its one seed and what it is for."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final

SEED_BITS: Final = 31


def seed_for(run_seed: int, *purpose: str | int) -> int:
    """Return the seed of one purpose, such as `(7, "Stage_2/3", 0)`."""
    text = "\0".join(str(part) for part in (run_seed, *purpose))
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return int.from_bytes(digest[:4], "big") % (1 << SEED_BITS)


def unit_seeds(
    run_seed: int, count: int, used: Collection[int], purpose: str = "validation"
) -> tuple[int, ...]:
    """Return different seeds of `count` units, of the validation or its replication; none of them is in `used`."""
    found: list[int] = []
    number = 0
    while len(found) < count:
        seed = seed_for(run_seed, purpose, number)
        number += 1
        if seed not in used and seed not in found:
            found.append(seed)
    return tuple(found)
