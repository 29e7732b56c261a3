"""How each measure is computed from predictions. Pure: predictions and targets in, numbers out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from events.kinds.space.metrics import Task

Floats = NDArray[np.float64]

ECE_BINS: Final = 15
PROBABILITY_MIN: Final = 1e-12  # keeps the log of a certain mistake finite


def class_scores(probabilities: Floats, labels: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy, likelihood, calibration and Brier score of class probabilities."""
    picked = probabilities[np.arange(len(labels)), labels]
    hot = np.eye(probabilities.shape[1])[labels]
    return {
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()),
        "nll": float(-np.log(np.clip(picked, PROBABILITY_MIN, 1.0)).mean()),
        "ece": calibration_error(probabilities, labels),
        "brier": float(((probabilities - hot) ** 2).sum(axis=1).mean()),
    }


def calibration_error(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """Return the expected calibration error over equally wide bins of confidence."""
    confidence = probabilities.max(axis=1)
    right = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    bins = np.clip(np.ceil(confidence * ECE_BINS).astype(int) - 1, 0, ECE_BINS - 1)
    gaps = np.zeros(ECE_BINS)
    np.add.at(gaps, bins, confidence - right)
    return float(np.abs(gaps).sum() / len(labels))


def value_scores(predictions: Floats, targets: Floats) -> dict[str, float]:
    """Return the error of predicted values, in the target's own unit."""
    return {"rmse": float(np.sqrt(((predictions - targets) ** 2).mean()))}


def naive_quality(task: Task, known: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Return what the best constant answer, learnt from `known`, reaches on `wanted`."""
    if task == "regression":
        return value_scores(np.full(len(wanted), known.mean()), wanted.astype(np.float64))["rmse"]
    return float((wanted == np.bincount(known).argmax()).mean())
