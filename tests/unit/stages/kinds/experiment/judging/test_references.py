"""The reference models on data that ship."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.metrics import METRICS, QUALITY
from stages.kinds.experiment.data.loading import Part, divided, load_table
from stages.kinds.experiment.judging.disguise import disguise_of
from stages.kinds.experiment.judging.references import references_on
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.trials.units import Units


@pytest.mark.parametrize(("name", "least"), [("iris", 0.8), ("diabetes", None)])
def test_every_reference_learns_something_and_says_the_same_again(
    tmp_path: Path, name: str, least: float | None
) -> None:
    secret, table = Secret("nobody knows"), load_table(SHIPPED[name])
    disguise = disguise_of(divided(table, name, seed=0), secret, is_public=True)
    with Units(table, name, 10, None, QUALITY[SHIPPED[name].task], disguise, secret, tmp_path).opened(
        3
    ) as unit:
        one, two = (
            references_on(unit.facts.task, QUALITY[unit.facts.task], unit.known, unit.judges)
            for _ in range(2)
        )
    assert one == two
    assert len(one) == 3
    for value in one.values():
        assert value > least if least else value < unit.naive


def test_rows_of_one_class_give_no_reference_that_cannot_be_fitted(tmp_path: Path) -> None:
    secret, table = Secret("nobody knows"), load_table(SHIPPED["iris"])
    disguise = disguise_of(divided(table, "iris", seed=0), secret, is_public=True)
    with Units(table, "iris", 10, None, METRICS["accuracy"], disguise, secret, tmp_path).opened(3) as unit:
        known = Part(unit.known.features, np.zeros_like(unit.known.targets))
        assert "logistic_regression" not in references_on(
            "classification", QUALITY["classification"], known, unit.judges
        )


def test_a_reference_ranks_where_a_ranking_is_claimed(tmp_path: Path) -> None:
    secret, table = Secret("nobody knows"), load_table(SHIPPED["iris"])
    disguise = disguise_of(divided(table, "iris", seed=0), secret, is_public=True)
    with Units(table, "iris", 10, None, METRICS["auroc"], disguise, secret, tmp_path).opened(3) as unit:
        found = references_on("classification", METRICS["auroc"], unit.known, unit.judges)
        plain = references_on("classification", METRICS["balanced_accuracy"], unit.known, unit.judges)
    assert unit.naive == 0.5
    assert all(0.9 < found[name] < 1 and plain[name] < found[name] for name in found)
    assert len(found) == 3
