"""The data sets that ship with scikit-learn, split once per run seed.

Law: the search is handed `Visible`, which holds no test data. `Sealed` is opened by the
validation alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from events.errors import PipelineError
from stages.experiment.metrics import Floats, Task

TEST_SHARE: Final = 0.3
VALIDATION_SHARE: Final = 0.2  # of everything, like the test share


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a split: standardised features, and class labels or values."""

    features: NDArray[np.float32]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a trial must know about a data set besides its rows."""

    name: str
    task: Task
    outputs: int
    image_side: int | None
    blank: float  # the standardised value of an empty pixel, which fills what a shift uncovers
    target_mean: float
    target_scale: float


@dataclass(frozen=True, slots=True)
class Visible:
    """What the search may look at."""

    train: Part
    validation: Part


@dataclass(frozen=True, slots=True)
class Sealed:
    """The test data, out of the search's reach."""

    _test: Part

    def open(self) -> Part:
        """Hand over the test data; only the validation does this."""
        return self._test


@dataclass(frozen=True, slots=True)
class Data:
    """One data set, split for one run."""

    facts: Facts
    visible: Visible
    sealed: Sealed
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Source:
    load: Callable[..., tuple[NDArray[Any], NDArray[Any]]]
    task: Task
    image_side: int | None = None


_SOURCES: Final[Mapping[str, _Source]] = {
    "digits": _Source(load_digits, "classification", image_side=8),
    "wine": _Source(load_wine, "classification"),
    "breast_cancer": _Source(load_breast_cancer, "classification"),
    "iris": _Source(load_iris, "classification"),
    "diabetes": _Source(load_diabetes, "regression"),
}


def prepare(name: str, *, seed: int, train_examples: int | None = None) -> Data:
    """Load the data set `name` and split it; equal arguments give equal splits."""
    if name not in _SOURCES:
        raise PipelineError("CONFIG", f"unknown data set {name!r}; known: {', '.join(sorted(_SOURCES))}")
    source = _SOURCES[name]
    features, targets = source.load(return_X_y=True)
    classes = source.task == "classification"
    targets = targets.astype(np.int64 if classes else np.float64)
    order = np.arange(len(targets))
    rest, test = train_test_split(
        order, test_size=TEST_SHARE, random_state=seed, stratify=targets if classes else None
    )
    train, validation = train_test_split(
        rest,
        test_size=round(VALIDATION_SHARE * len(order)),
        random_state=seed,
        stratify=targets[rest] if classes else None,
    )
    if train_examples is not None and train_examples < len(train):
        train, _ = train_test_split(
            train,
            train_size=max(train_examples, 2 * len(np.unique(targets)) if classes else 2),
            random_state=seed,
            stratify=targets[train] if classes else None,
        )
    scaled, blank = _standardised(features, train, whole=source.image_side is not None)
    facts = Facts(
        name=name,
        task=source.task,
        outputs=len(np.unique(targets)) if classes else 1,
        image_side=source.image_side,
        blank=blank,
        target_mean=0.0 if classes else float(targets[train].mean()),
        target_scale=1.0 if classes else float(targets[train].std()),
    )
    part = {"train": train, "validation": validation, "test": test}
    parts = {key: Part(scaled[rows], targets[rows]) for key, rows in part.items()}
    return Data(
        facts,
        Visible(parts["train"], parts["validation"]),
        Sealed(parts["test"]),
        {key: len(rows) for key, rows in part.items()},
    )


def _standardised(
    features: Floats, train: NDArray[np.int64], *, whole: bool
) -> tuple[NDArray[np.float32], float]:
    """Scale by the training rows alone: pixels together, other features each by itself."""
    axis = None if whole else 0
    mean = features[train].mean(axis=axis)
    scale = features[train].std(axis=axis)
    scale = np.where(scale > 0, scale, 1.0)
    blank = float((0.0 - mean) / scale) if whole else 0.0
    return ((features - mean) / scale).astype(np.float32), blank
