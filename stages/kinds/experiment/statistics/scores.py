"""How each measure is computed from predictions. Pure: predictions and targets in, numbers out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from events.kinds.space.metrics import Metric, metric_named
from events.kinds.space.understanding import class_words

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


def scores_by_class(
    probabilities: Floats, labels: NDArray[np.int64], classes: Sequence[str], wanted: Collection[str]
) -> dict[str, float]:
    """Return those of the `wanted` measures in which classes count alike, or one class alone.

    Only classes that judge are counted. What has no value, such as the precision for a class that is never
    answered, is 0.
    """
    found = {}
    for name in wanted:
        metric = metric_named(name)
        if metric is not None and metric.is_by_class:
            found[name] = _by_class(metric, probabilities, labels, classes)
    return found


def _by_class(
    metric: Metric, probabilities: Floats, labels: NDArray[np.int64], classes: Sequence[str]
) -> float:
    answers = probabilities.argmax(axis=1)
    if metric.name == "balanced_accuracy":
        return balanced_accuracy(answers, labels)
    if metric.name == "auroc":
        return auroc(probabilities, labels)
    label = class_words(classes).index(metric.of_class)
    right = int(((answers == label) & (labels == label)).sum())
    there, said = int((labels == label).sum()), int((answers == label).sum())
    counted = {"recall": (right, there), "precision": (right, said), "f1": (2 * right, there + said)}
    part, whole = counted[metric.name.partition("_of_")[0]]
    return part / whole if whole else 0.0


def balanced_accuracy(answers: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return the mean over the classes of the share of its rows that are answered right."""
    return float(np.mean([(answers[labels == label] == label).mean() for label in np.unique(labels)]))


def auroc(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """Return how often a row of a class gets a higher probability of it than a row of another class.

    Ties count half, so that of answers that are 0 or 1 not more is left than their balanced accuracy. Of
    several classes it is the mean over them, each against all others.
    """
    return float(np.mean([*_one_against_others(probabilities, labels)] or [0.5]))


def _one_against_others(probabilities: Floats, labels: NDArray[np.int64]) -> Iterator[float]:
    for label in np.unique(labels):
        is_of = labels == label
        there, others = int(is_of.sum()), int((~is_of).sum())
        if others:
            ranks = float(rankdata(probabilities[:, label])[is_of].sum())
            yield (ranks - there * (there + 1) / 2) / (there * others)


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


def naive_quality(quality: Metric, known: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Return what the best constant answer, learnt from `known`, reaches on `wanted`."""
    if quality.name == "rmse":
        return quality_of(quality, np.full(len(wanted), known.mean()), wanted)
    most = np.full(len(wanted), np.bincount(known).argmax())
    if quality.name == "auroc":
        return quality_of(quality, np.eye(max(most[0], wanted.max()) + 1)[most], wanted)
    return quality_of(quality, most, wanted)


def quality_of(quality: Metric, answers: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Return how good answers are: classes, values, or for a ranking the probabilities of classes."""
    match quality.name:
        case "auroc":
            return auroc(answers, wanted)
        case "rmse":
            return value_scores(answers, wanted.astype(np.float64))["rmse"]
        case "balanced_accuracy":
            return balanced_accuracy(answers, wanted)
        case _:
            return float((wanted == answers).mean())
