"""Kernel regression: estimates the distribution of each row's target from its nearest neighbours; pure.

Neighbours vote by a Gaussian of their distance, each row without its own vote, so that its known target has
no part in what is drawn for it. The width is the one that predicts the known targets best.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stages.kinds.experiment.statistics.scores import Floats

NEIGHBOURS: Final = 32
POWERS: Final = (1.0, 1.5, 2.0, 3.0)  # of a vote: many features make every neighbour far, and votes too timid
REACHES: Final = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0)  # in squares of the usual distance of a neighbour
DOUBTS: Final = (
    0.03,
    0.06,
    0.1,
)  # shares that the frequencies of the classes have in a vote: no law is certain


def class_law(features: NDArray[Any], labels: NDArray[np.int64], classes: int) -> Floats:
    """Return the probabilities of each row's class, shape (rows, classes)."""
    hot = np.eye(classes)[labels]
    frequent = hot.mean(axis=0)
    best: tuple[float, Floats] | None = None
    for votes, near in _votes(features):
        voted = (votes[:, :, None] * hot[near]).sum(axis=1)
        for power, doubt in product(POWERS, DOUBTS):
            sharp = voted**power
            law: Floats = (1.0 - doubt) * sharp / sharp.sum(axis=1, keepdims=True) + doubt * frequent
            surprise = float(-np.log(law[np.arange(len(labels)), labels]).mean())
            if best is None or surprise < best[0]:
                best = surprise, law
    assert best is not None
    chosen: Floats = best[1] / best[1].sum(axis=1, keepdims=True)
    return chosen


def value_law(features: NDArray[Any], values: Floats) -> tuple[Floats, float]:
    """Return each row's mean value, shape (rows,), and the deviation from it, in the values' own unit."""
    best: tuple[float, Floats] | None = None
    for votes, near in _votes(features):
        means: Floats = (votes * values[near]).sum(axis=1)
        error = float(((means - values) ** 2).mean())
        if best is None or error < best[0]:
            best = error, means
    assert best is not None
    return best[1], float(np.sqrt(best[0]))


def _votes(features: NDArray[Any]) -> list[tuple[Floats, NDArray[np.int64]]]:
    """Return for each reach the weights of each row's neighbours, which sum to one, and their numbers."""
    rows = features.astype(np.float64)
    lengths = (rows**2).sum(axis=1)
    distances = lengths[:, None] + lengths[None, :] - 2.0 * rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    count = min(NEIGHBOURS, len(rows) - 1)
    near = np.argpartition(distances, count - 1, axis=1)[:, :count]
    squares = np.take_along_axis(np.maximum(distances, 0.0), near, axis=1)
    usual = float(np.median(squares.min(axis=1))) or 1.0
    found = []
    for reach in REACHES:
        weights = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2.0 * reach * usual))
        found.append((weights / weights.sum(axis=1, keepdims=True), near))
    return found
