"""A claim may be judged several times: what is registered of that, and when more units are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from events.kinds.experiment import LOOKS_MAX
from events.kinds.space.measuring import LINEAR, SEEN
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.statistics.estimate import LEVEL, estimate, overlap, seen_of_spread
from stages.kinds.experiment.statistics.foresight import foreseen
from stages.kinds.experiment.statistics.looks import LEVELS, looks_of, units_of
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.several import ALONE, corrected, is_open
from stages.kinds.experiment.statistics.validation import (
    BOTH_SIDES,
    CAUGHT,
    TOO_GOOD,
    Judgement,
    Pair,
    Registration,
    judge,
    undecided,
)

LOOKS = looks_of(2)
PLAN = Registration(
    METRICS["nll"], superior("increase"), 10, rows=500, test_rows=150, level=LOOKS[0].level, looks=LOOKS
)


def judged(plan: Registration, differences: Sequence[float]) -> Judgement:
    return judge([Pair(seed, 0.0, each) for seed, each in enumerate(differences)], plan)


def alternating(mean: float, units: int) -> list[float]:
    return [mean + (-1.0) ** place for place in range(units)]


def test_there_are_levels_for_each_number_of_looks_that_may_be_asked_for() -> None:
    assert sorted(LEVELS) == [*range(1, LOOKS_MAX + 1)]
    for count, levels in LEVELS.items():
        assert len(levels) == len(looks_of(count)) == count
        assert levels[-1] <= LEVEL <= sum(levels), (
            "more looks are no stricter than one together, and no laxer each"
        )
    assert [units_of(count) for count in sorted(LEVELS)] == [10, 20, 40]


def test_what_is_told_before_the_queue_is_what_the_rule_shows_of_what_a_linear_model_leaves() -> None:
    for count, (units, reach) in SEEN.items():
        last = looks_of(count)[-1]
        assert units == last.units
        assert reach == pytest.approx(seen_of_spread(1.0, units, overlap(3, 10), last.level), abs=0.006)
    for name, load in (("wine", load_wine), ("iris", load_iris)):
        rows, labels = load(return_X_y=True)
        scores = [linear_accuracy(rows, labels, seed) for seed in range(20)]
        assert LINEAR[name] == pytest.approx(np.mean(scores), abs=0.02)


def linear_accuracy(rows: Any, labels: Any, seed: int) -> float:
    scaled = StandardScaler().fit_transform(rows)
    known, asked, learnt, wanted = train_test_split(
        scaled, labels, test_size=0.3, train_size=0.4, random_state=seed
    )
    return float(LogisticRegression(max_iter=300).fit(known, learnt).score(asked, wanted))


def test_each_look_has_its_units_and_its_level_and_the_last_has_none_behind_it() -> None:
    later = PLAN.further
    assert later is not None
    assert (PLAN.look, later.look) == (1, 2)
    assert (later.units, later.level) == (20, LOOKS[1].level)
    assert later.further is None
    assert replace(PLAN, looks=()).further is None, "without looks it is judged once"


def test_an_interval_at_a_stricter_level_is_wider_and_its_power_smaller() -> None:
    values = alternating(0.5, 10)
    usual, strict = (estimate(values, PLAN.shared, level) for level in (LEVEL, LOOKS[0].level))
    assert strict.low < usual.low < usual.high < strict.high
    assert strict.smallest_seen() > usual.smallest_seen()


def test_a_difference_that_the_usual_level_would_show_is_left_open_at_the_first_look() -> None:
    mean = 2.0
    alone = replace(PLAN, level=LEVEL, looks=())
    assert judged(alone, alternating(mean, 10)).conclusion == "supported"
    assert judged(PLAN, alternating(mean, 10)).reason == BOTH_SIDES
    later = PLAN.further
    assert later is not None
    assert judged(later, alternating(mean, 20)).conclusion == "supported"


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([BOTH_SIDES], True),
        ([ALONE, None], True),
        ([None, None], False),
        ([CAUGHT], False),
        ([TOO_GOOD], False),
        ([TOO_GOOD, BOTH_SIDES], True),
    ],
)
def test_more_units_are_taken_only_where_they_could_decide(reasons: list[str | None], expected: bool) -> None:
    supported = judged(PLAN, alternating(9.0, 10))
    assert is_open([undecided(supported, reason) for reason in reasons]) is expected


def test_a_claim_one_part_of_which_is_contradicted_is_decided() -> None:
    found = [judged(PLAN, alternating(mean, 10)) for mean in (-9.0, 0.0)]
    assert not is_open(corrected(found))


def test_what_is_foreseen_is_what_the_last_look_shows() -> None:
    once = replace(PLAN, units=20, level=LOOKS[1].level, looks=())
    told = foreseen(PLAN, None, [[0.1, 0.2, 0.4]])
    assert told == foreseen(once, None, [[0.1, 0.2, 0.4]])
    assert told.at_best is not None
