"""The error of a measure by the choice of the rows that judge; pure.

The delete-a-group jackknife: a measure is computed again without each group of rows, and the spread of these
values estimates the spread over other rows. Unlike the usual formula, which it gives for a mean, it also
holds for a root of a mean, and roughly for bins. Tukey, "Bias and confidence in not-quite large samples"
(1958); Kott, "The delete-a-group jackknife" (Journal of Official Statistics 17, 2001).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

GROUPS_MAX: Final = 50  # more would cost time, and hardly say more


def row_groups(rows: int) -> list[NDArray[np.int64]]:
    """Return the groups of so many rows, the order of which has to be random; none of a single row."""
    if rows < 2:
        return []
    size = -(-rows // GROUPS_MAX)  # so that groups differ by one row at most
    return np.array_split(np.arange(rows), -(-rows // size))


def standard_error(without: Sequence[float]) -> float:
    """Return the standard error of a measure from its values without each group."""
    count = len(without)
    return (count - 1) / math.sqrt(count) * stdev(without)
