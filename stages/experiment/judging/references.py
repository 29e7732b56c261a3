"""Reference models: what plain learners reach on the rows of a unit.

Law: they are the judge's own code on rows that the judge has already written, so they run in its process and
in no sandbox; no program is told what they reach. A learner that cannot be fitted is no reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from threadpoolctl import threadpool_limits

from events.kinds.space.metrics import Metric, Task
from stages.experiment.data.columns import CLASSES_MAX
from stages.experiment.data.loading import Part
from stages.experiment.judging.evaluation_set import Judges
from stages.experiment.statistics.scores import Floats, quality_of

ROWS_MAX: Final = 5_000  # to learn from: more would only make the references better
EPOCHS: Final = 60  # of the network
_TREES: Final[Mapping[str, Any]] = {
    "max_iter": 20,
    "max_leaf_nodes": 8,
    "learning_rate": 0.3,
    "random_state": 0,
}
_NETWORK: Final[Mapping[str, Any]] = {
    "hidden_layer_sizes": (32,),
    "learning_rate_init": 0.01,
    "random_state": 0,
}
_MODELS: Final[Mapping[Task, Mapping[str, Callable[[], Any]]]] = {
    "classification": {
        "logistic_regression": lambda: LogisticRegression(max_iter=1000, tol=1e-2),
        "boosted_trees": lambda: HistGradientBoostingClassifier(**_TREES),
        "small_network": lambda: MLPClassifier(**_NETWORK),
    },
    "regression": {
        "ridge_regression": Ridge,
        "boosted_trees": lambda: HistGradientBoostingRegressor(**_TREES),
        "small_network": lambda: MLPRegressor(**_NETWORK),
    },
}


def references_on(task: Task, quality: Metric, known: Part, judges: Judges) -> dict[str, float]:
    """Return the `quality` of each reference model, learnt from `known`, on the rows that judge."""
    features = np.load(judges.features, allow_pickle=False)[judges.rows].astype(np.float64)
    rows, targets = known.features[:ROWS_MAX].astype(np.float64), known.targets[:ROWS_MAX]
    found: dict[str, float] = {}
    for name, model in _MODELS[task].items():
        try:
            with threadpool_limits(limits=1):
                found[name] = quality_of(
                    quality, _answers(quality, model(), (rows, targets), features), judges.targets
                )
        except ValueError:  # rows of one class, or values beyond what a learner adds up
            continue
    return found


def _answers(
    quality: Metric, model: Any, known: tuple[Floats, NDArray[Any]], features: Floats
) -> NDArray[Any]:
    rows, targets = known
    if quality.name == "auroc":
        fitted = _fitted(model, rows, targets)
        probabilities = np.zeros((len(features), CLASSES_MAX))
        probabilities[:, fitted.classes_] = fitted.predict_proba(features)
        return probabilities
    if "classification" in quality.tasks:
        classes: NDArray[Any] = _fitted(model, rows, targets).predict(features)
        return classes
    mean, scale = float(targets.mean()), float(targets.std()) or 1.0
    given: NDArray[Any] = _fitted(model, rows, (targets - mean) / scale).predict(features)
    return given * scale + mean


def _fitted(model: Any, rows: Floats, targets: NDArray[Any]) -> Any:
    """Return the model after its training; that of the network is bounded, whether it has converged or not."""
    match model:
        case MLPClassifier():
            for _ in range(EPOCHS):
                model.partial_fit(rows, targets, classes=np.unique(targets))
        case MLPRegressor():
            for _ in range(EPOCHS):
                model.partial_fit(rows, targets)
        case _:
            model.fit(rows, targets)
    return model
