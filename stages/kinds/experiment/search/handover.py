"""Which of the finalists a stage hands on, pure.

Law: a node that the stage was handed stays, unless another one is better by more than chance explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from stages.kinds.experiment.record.record import Finalist

ERRORS: Final = 2.0  # standard errors of the difference, by `tests/statistics/test_search.py`


def handed_on(finalists: Sequence[Finalist], root: str | None, *, higher_is_better: bool) -> Finalist:
    """Return the finalist with the best mean, or that of the node `root` where the best one does not surpass it.

    The seeds are fresh: what was chosen by a lucky score has none of its luck here.
    """
    sign = 1.0 if higher_is_better else -1.0
    best = max(finalists, key=lambda each: sign * each.mean)
    handed = next((each for each in finalists if each.node == root), best)
    surplus = sign * (best.mean - handed.mean)
    return best if surplus > ERRORS * _error(best, handed) else handed


def _error(one: Finalist, other: Finalist) -> float:
    return math.hypot(one.standard_error or 0.0, other.standard_error or 0.0)
