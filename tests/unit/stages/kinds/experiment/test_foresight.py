"""What the baseline alone foretells of a validation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.statistics.estimate import estimate
from stages.kinds.experiment.statistics.foresight import Foresight, foreseen
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.validation import Registration

PLAN = Registration(METRICS["accuracy"], superior("increase"), 10, rows=178, test_rows=53)


def test_programs_that_err_on_rows_of_their_own_are_the_worst_case() -> None:
    """Units of two such programs have the spread from which it follows."""
    chance = np.random.default_rng(3)
    one, other = (chance.binomial(53, 0.9, (20_000, 10)) / 53 for _ in range(2))
    seen = np.sqrt((estimate(one - other, PLAN.shared).smallest_seen() ** 2).mean())
    found = foreseen(PLAN, 0.9, ())
    assert found.at_best is None
    assert found.at_worst == pytest.approx(float(seen), rel=0.02)


def test_the_chance_in_training_is_the_best_case() -> None:
    few = foreseen(PLAN, None, [(0.90, 0.91, 0.92), (0.80, 0.81, 0.82)])
    more = foreseen(PLAN, None, [(0.90, 0.91, 0.92), (0.80, 0.85, 0.90)])
    assert few.at_worst is None
    assert few.at_best is not None
    assert more.at_best is not None
    assert 0 < few.at_best < more.at_best


def test_what_foretells_nothing_says_nothing() -> None:
    assert foreseen(PLAN, 1.0, [(0.9,), ()]) == Foresight()
    assert foreseen(PLAN, None, [(0.9, 0.9, 0.9)]) == Foresight()
    assert foreseen(replace(PLAN, metric=METRICS["nll"]), 0.5, ()) == Foresight()
