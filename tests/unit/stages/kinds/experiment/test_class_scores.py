"""Scores in which classes count alike, or one alone: as scikit-learn has them, and what guards a claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from events.kinds.space.metrics import METRICS, Metric, metric_of_class
from stages.kinds.experiment.data.loading import find_data_set, prepare
from stages.kinds.experiment.statistics.guards import NAIVE, WORSE, Arms, guarded
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.scores import auroc, naive_quality, scores_by_class
from stages.kinds.experiment.statistics.validation import UNRESOLVED, Reading, Registration, judge, pairs_of

CLASSES = ("class_0", "Ill!", "very bad")
WANTED = ("balanced_accuracy", "auroc", "recall_of_ill", "precision_of_ill", "f1_of_very_bad")
SEEDS = range(10)
BALANCED = METRICS["balanced_accuracy"]


def answers(rows: int = 200, classes: int = 3) -> tuple[Any, Any]:
    chance = np.random.default_rng(5)
    labels = chance.choice(classes, rows, p=[0.8, 0.15, 0.05][:classes] if classes == 3 else [0.9, 0.1])
    given = chance.dirichlet(np.ones(classes), rows) + 0.4 * np.eye(classes)[labels]
    given = np.round(given, 1) + 0.01  # ties
    return given / given.sum(axis=1, keepdims=True), labels


def test_scores_are_those_of_scikit_learn() -> None:
    given, labels = answers()
    said, one = given.argmax(axis=1), {"labels": [1], "average": "macro"}
    assert scores_by_class(given, labels, CLASSES, WANTED) == pytest.approx(
        {
            "balanced_accuracy": reference.balanced_accuracy_score(labels, said),
            "auroc": reference.roc_auc_score(labels, given, multi_class="ovr", average="macro"),
            "recall_of_ill": reference.recall_score(labels, said, **one),
            "precision_of_ill": reference.precision_score(labels, said, **one),
            "f1_of_very_bad": reference.f1_score(labels, said, labels=[2], average="macro"),
        }
    )
    assert scores_by_class(given, labels, CLASSES, ["accuracy", "parameters", "nll"]) == {}


def test_of_two_classes_there_is_one_area() -> None:
    given, labels = answers(classes=2)
    assert auroc(given, labels) == pytest.approx(reference.roc_auc_score(labels, given[:, 1]))


def test_of_answers_without_doubt_the_area_is_the_balanced_accuracy() -> None:
    given, labels = answers(classes=2)
    hard = np.eye(2)[given.argmax(axis=1)]
    found = scores_by_class(hard, labels, ("a", "b"), ["auroc", "balanced_accuracy"])
    assert found["auroc"] == pytest.approx(found["balanced_accuracy"])
    assert auroc(given, labels) > found["auroc"]


def test_what_has_no_value_is_the_worst() -> None:
    given, labels = np.eye(3)[[0, 0, 0, 2]], np.array([0, 0, 1, 2])
    found = scores_by_class(given, labels, ("a", "b", "c"), ["precision_of_b", "recall_of_b", "f1_of_b"])
    assert found == {"precision_of_b": 0.0, "recall_of_b": 0.0, "f1_of_b": 0.0}
    assert auroc(given[:2], labels[:2]) == 0.5, "of one class nothing is ranked"


def test_who_always_says_the_same_has_a_balanced_accuracy_of_chance() -> None:
    labels = np.array([0] * 594 + [1] * 6)
    assert naive_quality(METRICS["accuracy"], labels, labels) == 0.99
    assert naive_quality(BALANCED, labels, labels) == 0.5
    assert naive_quality(METRICS["auroc"], labels, labels) == 0.5


def arm(metric: Metric, value: float, quality: float) -> list[Reading]:
    scores = [(value + 0.002 * (seed % 3), quality + 0.002 * (seed % 3) + 0.001 * seed) for seed in SEEDS]
    return [Reading({"balanced_accuracy": two, metric.name: one}, naive=0.5) for one, two in scores]


@pytest.mark.parametrize(
    ("quality", "reason"), [(0.8, None), (0.5, WORSE), (0.49, WORSE)], ids=["kept", "lost", "none"]
)
def test_recall_that_the_other_classes_pay_for_supports_no_claim(quality: float, reason: str | None) -> None:
    metric = metric_of_class("recall", "ill")
    plan = Registration(metric, superior("increase"), 10, rows=600, test_rows=180, class_rows=50)
    one, other = arm(metric, 0.5, 0.75), arm(metric, 0.9 + quality / 50, quality)
    other = [
        Reading({**(each.scores or {}), metric.name: 0.9 + 0.01 * (seed % 2)}, 0.5)
        for seed, each in enumerate(other)
    ]
    found = guarded(judge(pairs_of(SEEDS, one, other, metric), plan), Arms(one, other), BALANCED)
    assert (found.conclusion, found.reason) == (
        ("inconclusive", reason) if reason else ("supported", found.reason)
    )
    assert found.reason != NAIVE


def test_less_than_one_row_of_its_class_decides_nothing() -> None:
    metric = metric_of_class("recall", "ill")
    one, other = arm(metric, 0.5, 0.75), arm(metric, 0.52, 0.75)
    other = [
        Reading({**(each.scores or {}), metric.name: 0.53 + 0.003 * (seed % 3) + 0.001 * (seed % 2)}, 0.5)
        for seed, each in enumerate(other)
    ]
    conclusions = {}
    for rows in (2, 200):
        plan = Registration(metric, superior("increase"), 10, rows=600, test_rows=180, class_rows=rows)
        conclusions[rows] = judge(pairs_of(SEEDS, one, other, metric), plan)
    assert conclusions[2].reason == UNRESOLVED
    assert conclusions[200].conclusion == "supported"
    assert conclusions[200].in_test_rows is None


def test_a_measure_counts_the_rows_of_its_class_that_judge(tmp_path: Path) -> None:
    cells = [f"{place % 97},{'yes' if place % 10 == 0 else 'no'}" for place in range(400)]
    (tmp_path / "t.csv").write_text("x,ill\n" + "\n".join(cells) + "\n")
    found = find_data_set("t.csv", (tmp_path,))
    assert found is not None
    assert found.classes == ("no", "yes")
    data = prepare(found, seed=0)
    counted = {name: data.counted_by(metric_of_class("recall", name)) for name in found.classes}
    assert counted == {"no": 108, "yes": 12}
    assert data.counted_by(BALANCED) == 24
    assert data.counted_by(METRICS["auroc"]) is data.counted_by(METRICS["accuracy"]) is None
