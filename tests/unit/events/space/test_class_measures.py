"""Measures in which classes count alike, or one alone: which class a claim means, and what guards it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from events.kinds.idea import idea_of
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.measuring import measured
from events.kinds.space.metrics import METRICS, OF_CLASS, is_possible, metric_named, metric_of_class
from events.kinds.space.understanding import understand
from events.runtime.errors import NotMeasurable

OWN = replace(
    SHIPPED["wine"], name="visits", location="/data/visits.csv", target="ill", classes=("no", "Yes!")
)


def claimed(sentence: str) -> Claim:
    return understand(idea_of(sentence)).claim


def refusal(sentence: str) -> str:
    with pytest.raises(NotMeasurable) as caught:
        understand(idea_of(sentence))
    return caught.value.message


@pytest.mark.parametrize("name", OF_CLASS)
def test_the_measure_of_a_class_is_known_by_its_name_and_stands_in_the_claim(name: str) -> None:
    metric = metric_of_class(name, "malignant")
    assert metric_named(metric.name) == metric
    assert metric.name not in METRICS
    assert (metric.most, metric.margin) == (1.0, 0.02)
    claim = claimed(f"Dropout raises the {metric.title} on breast cancer")
    assert claim.metric == metric
    assert claimed(claim.sentence).metric == metric


@pytest.mark.parametrize("name", ["recall", "recall_of_", "recall_of__x", "speed_of_1", "recall_of_a b", ""])
def test_no_other_name_is_a_measure_of_a_class(name: str) -> None:
    assert metric_named(name) is None


def test_no_share_of_a_class_is_above_one() -> None:
    assert is_possible("recall_of_3", 1.0)
    assert not is_possible("recall_of_3", 1.1)


def test_a_class_that_the_data_lack_is_refused_before_the_queue() -> None:
    said = refusal("Dropout improves the recall of class 12 on digits")
    assert "digits has no one class 12: its classes are 0, 1, 2, 3" in said
    with pytest.raises(NotMeasurable):
        measured(idea_of("Dropout improves the recall of class virginica"), "wine")
    assert "recall of class virginica" in measured(
        idea_of("Dropout improves the recall of class virginica"), "iris"
    )


def test_classes_are_named_in_plain_words() -> None:
    assert claimed("Dropout improves the recall of class 0 on wine").metric.of_class == "0"
    claim = understand(idea_of("Dropout improves the recall of class YES"), OWN).claim
    assert claim.metric.name == "recall_of_yes"
    with pytest.raises(NotMeasurable, match="no one class maybe: its classes are no, yes"):
        understand(idea_of("Dropout improves the recall of class maybe"), OWN)
    twice = replace(OWN, classes=("yes", "Yes!"))
    with pytest.raises(NotMeasurable, match="two of that name"):
        understand(idea_of("Dropout improves the recall of class yes"), twice)


def test_before_a_file_is_read_any_class_may_be_meant() -> None:
    assert "recall of class ill on visits" in measured(
        idea_of("Dropout improves the recall of class ill"), "visits.csv#state"
    )


def test_a_measure_of_no_class_is_asked_for_the_class() -> None:
    assert "does not say of which class: say “recall of class …”" in refusal(
        "Dropout improves recall on wine"
    )


def test_the_accuracy_of_a_class_is_told_to_be_its_recall() -> None:
    claim = claimed("Dropout lowers the error for class 3 on digits")
    assert (claim.metric.name, claim.direction) == ("recall_of_3", "increase")
    assert "Measured is the recall of class 3: the share of its rows that is answered right." in claim.notes
    assert not claimed("Dropout improves the recall of class 3 on digits").notes


def test_where_classes_count_the_answers_are_good_by_balanced_accuracy() -> None:
    recall = claimed("Dropout improves the recall of class 3 on digits")
    assert (recall.quality.name, recall.selection.name) == ("balanced_accuracy", "balanced_accuracy")
    ranking = claimed("Dropout improves the AUROC on digits")
    assert (ranking.quality.name, ranking.selection.name) == ("auroc", "auroc")
    plain = claimed("Dropout improves the accuracy on digits")
    assert (plain.quality.name, plain.selection.name) == ("accuracy", "accuracy")
    assert claimed("Dropout lowers the RMSE on diabetes").quality.name == "rmse"
