"""The measures that a claim may be about, as declarations; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

Task = Literal["classification", "regression"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One measure. `selects` is whether a search may optimise it without a degenerate answer."""

    name: str
    title: str
    tasks: frozenset[Task]
    higher_is_better: bool = False
    selects: bool = True
    perfect: float | None = None  # its value where there is no error at all
    is_told: bool = False  # by the programs themselves: nobody else can count it
    of_answers: bool = True  # else of the program that gives them
    noisy: bool = False
    decimals: int = 4
    most: float = math.inf  # of its values; none is below zero
    # The smallest effect of interest where a claim names none; None where it depends on data or machine.
    margin: float | None = None
    unit: Literal["point", "second", ""] = ""  # of a margin in words; a point is a hundredth
    counts_rows: bool = False  # so that one row is the least that it can show
    # Each class counts alike in it, or one alone: accuracy, which large classes decide, does not guard it.
    is_by_class: bool = False
    of_class: str = ""  # in plain words, where the measure is of one class


_CLASSES: Final[frozenset[Task]] = frozenset({"classification"})
_VALUES: Final[frozenset[Task]] = frozenset({"regression"})
_BOTH: Final = _CLASSES | _VALUES

METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy", "accuracy", _CLASSES, higher_is_better=True, perfect=1.0, most=1.0, margin=0.01,
            unit="point", counts_rows=True,
        ),
        Metric(
            "balanced_accuracy", "balanced accuracy", _CLASSES, higher_is_better=True, perfect=1.0, most=1.0,
            margin=0.01, unit="point", is_by_class=True,
        ),
        Metric(
            "auroc", "AUROC", _CLASSES, higher_is_better=True, most=1.0, margin=0.01, is_by_class=True,
        ),
        Metric("nll", "negative log-likelihood", _CLASSES, perfect=0.0, most=28.0, margin=0.02),
        Metric("ece", "expected calibration error", _CLASSES, most=1.0, margin=0.01),
        Metric("brier", "Brier score", _CLASSES, perfect=0.0, most=2.0, margin=0.01),
        Metric("rmse", "root mean squared error", _VALUES, perfect=0.0, decimals=3),
        Metric(
            "training_seconds", "training time in seconds", _BOTH,
            selects=False, of_answers=False, noisy=True, unit="second",
        ),
        Metric(
            "parameters", "number of parameters", _BOTH,
            selects=False, of_answers=False, is_told=True, decimals=0, margin=1.0,
        ),
    )
}  # fmt: skip
# Measures of one class, whose name and title end with it; who always answers it has the best recall.
OF_CLASS: Final[Mapping[str, Metric]] = {
    name: Metric(
        name, f"{title} of class", _CLASSES, higher_is_better=True, selects=name == "f1", most=1.0,
        margin=0.02, unit="point", is_by_class=True,
    )
    for name, title in (("recall", "recall"), ("precision", "precision"), ("f1", "F1 score"))
}  # fmt: skip
_OF_CLASS: Final = re.compile(rf"({'|'.join(OF_CLASS)})_of_([^\W_]\w{{0,199}})")
QUALITY: Final[Mapping[Task, Metric]] = {
    "classification": METRICS["accuracy"],
    "regression": METRICS["rmse"],
}


def metric_named(name: str) -> Metric | None:
    """Return the measure of this name, also that of one class; None where there is none."""
    found = _OF_CLASS.fullmatch(name)
    return METRICS.get(name) if found is None else metric_of_class(found[1], found[2].replace("_", " "))


def metric_of_class(name: str, words: str) -> Metric:
    """Return the measure of the class that is called so in plain words."""
    plain = OF_CLASS[name]
    whole = f"{name}_of_{words.replace(' ', '_')}"
    return replace(plain, name=whole, title=f"{plain.title} {words}", of_class=words)


def is_possible(name: str, value: float) -> bool:
    """Return whether a measure can have a value; of one that is not declared nothing is known."""
    metric = metric_named(name)
    return metric is None or 0.0 <= value <= metric.most


def is_better(metric: Metric, one: float, other: float) -> bool:
    """Return whether `one` is strictly better than `other`."""
    return one > other if metric.higher_is_better else one < other
