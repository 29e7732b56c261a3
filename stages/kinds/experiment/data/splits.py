"""Which row belongs to which part of a data set; pure.

Law: parts never share a row, equal arguments give equal parts, and every group of rows (every class)
is spread over the parts by their shares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from events.kinds.space.data_sets import SHARES

Rows = NDArray[np.int64]

NEEDED: Final = ("train", "test")  # a class that is never learnt or never judged measures nothing


def split(
    groups: NDArray[Any],
    *,
    seed: int,
    shares: Mapping[str, float] = SHARES,
    needed: Collection[str] = NEEDED,
) -> dict[str, Rows]:
    """Return the rows of each part in a random order; each group gives a row to every `needed` part.

    Random, because many files are sorted by what is to be predicted: a row's place would betray it.
    """
    chance = np.random.default_rng(seed)
    share = np.array(list(shares.values()))
    owed = np.zeros(len(shares))  # what rounding has kept from each part so far
    taken: dict[str, list[Rows]] = {name: [] for name in shares}
    for group in np.unique(groups):
        rows = chance.permutation(np.flatnonzero(groups == group))
        ideal = owed + len(rows) * share
        counts = _counts(ideal, len(rows), [name in needed for name in shares])
        owed = ideal - counts
        pieces = np.split(rows, np.cumsum(counts)[:-1])
        for name, piece in zip(shares, pieces, strict=True):
            taken[name].append(piece)
    return {name: chance.permutation(np.concatenate(pieces)) for name, pieces in taken.items()}


def _counts(ideal: NDArray[np.float64], size: int, needed: list[bool]) -> NDArray[np.int64]:
    """Return whole numbers near `ideal` that add up to `size`."""
    counts = np.floor(np.clip(ideal - 1.0, 0.0, None)).astype(np.int64)
    while counts.sum() > size:
        counts[np.argmin(np.where(counts > 0, ideal - counts, np.inf))] -= 1
    while counts.sum() < size:
        counts[np.argmax(ideal - counts)] += 1
    for index in np.flatnonzero(needed):
        if counts[index] == 0:
            spare = np.where(needed, counts - 1, counts)  # a needed part keeps its last row
            counts[np.argmax(spare)] -= 1
            counts[index] += 1
    return counts
