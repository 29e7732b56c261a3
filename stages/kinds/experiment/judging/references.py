"""Reference models: what plain learners reach on the rows of a unit.

Law: they are the judge's own code on rows that the judge has already written, so they run in its process and
in no sandbox; no program is told what they reach. A learner that cannot be fitted is no reference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from threadpoolctl import ThreadpoolController

from events.kinds.space.metrics import Metric, Task
from stages.kinds.experiment.data.columns import CLASSES_MAX
from stages.kinds.experiment.data.loading import Part
from stages.kinds.experiment.judging.evaluation_set import Judges
from stages.kinds.experiment.statistics.scores import Floats, quality_of

ROWS_MAX: Final = 5_000  # to learn from: more would only make the references better
EPOCHS: Final = 60  # of the network, at most
_TREES: Final[Mapping[str, Any]] = {
    "max_iter": 20,
    "max_leaf_nodes": 8,
    "learning_rate": 0.3,
    "random_state": 0,
}


def _network() -> Mapping[str, Any]:
    """Return the options of a network that learns for so many epochs, whether it has converged or not."""
    return {
        "hidden_layer_sizes": (32,),
        "learning_rate_init": 0.01,
        "random_state": 0,
        # no epoch counts as better than the one before: it ends by their number, and does not warn of it
        "tol": np.finfo(np.float64).max,
        "n_iter_no_change": EPOCHS - 2,
        "max_iter": EPOCHS + 1,
    }


_MODELS: Final[Mapping[Task, Mapping[str, Callable[[], Any]]]] = {
    "classification": {
        "logistic_regression": lambda: LogisticRegression(max_iter=1000, tol=1e-2),
        "boosted_trees": lambda: HistGradientBoostingClassifier(**_TREES),
        "small_network": lambda: MLPClassifier(**_network()),
    },
    "regression": {
        "ridge_regression": Ridge,
        "boosted_trees": lambda: HistGradientBoostingRegressor(**_TREES),
        "small_network": lambda: MLPRegressor(**_network()),
    },
}


def references_on(task: Task, quality: Metric, known: Part, judges: Judges) -> dict[str, float]:
    """Return the `quality` of each reference model, learnt from `known`, on the rows that judge."""
    features = np.load(judges.features, allow_pickle=False)[judges.rows].astype(np.float64)
    rows, targets = known.features[:ROWS_MAX].astype(np.float64), known.targets[:ROWS_MAX]
    found: dict[str, float] = {}
    with _threads().limit(limits=1):
        for name, model in _MODELS[task].items():
            try:
                given = _answers(quality, model(), (rows, targets), features)
                found[name] = quality_of(quality, given, judges.targets)
            except ValueError:  # rows of one class, or values beyond what a learner adds up
                continue
    return found


@functools.cache
def _threads() -> ThreadpoolController:
    """Return what limits the threads of the libraries that are loaded; to find them takes ten milliseconds."""
    return ThreadpoolController()


def _answers(
    quality: Metric, model: Any, known: tuple[Floats, NDArray[Any]], features: Floats
) -> NDArray[Any]:
    rows, targets = known
    if quality.name == "auroc":
        fitted = model.fit(rows, targets)
        probabilities = np.zeros((len(features), CLASSES_MAX))
        probabilities[:, fitted.classes_] = fitted.predict_proba(features)
        return probabilities
    if "classification" in quality.tasks:
        classes: NDArray[Any] = model.fit(rows, targets).predict(features)
        return classes
    mean, scale = float(targets.mean()), float(targets.std()) or 1.0
    given: NDArray[Any] = model.fit(rows, (targets - mean) / scale).predict(features)
    return given * scale + mean
