"""Several claims of one hypothesis: Holm's correction, and one conclusion of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from events.catalog import Conclusion
from events.kinds.space.metrics import METRICS
from stages.experiment.statistics.estimate import LEVEL
from stages.experiment.statistics.region import superior
from stages.experiment.statistics.several import ALONE, corrected, together
from stages.experiment.statistics.validation import BOTH_SIDES, Interval, Judgement, Registration

PLAN = Registration(METRICS["nll"], superior("increase"), 10, rows=1797, test_rows=540)


def judged(conclusion: Conclusion, p_value: float | None) -> Judgement:
    """Return a judgement whose decisive p-value is this one."""
    p_values = (p_value, 0.9) if conclusion == "supported" else (0.9, p_value)
    interval = Interval(0.1, 0.0, 0.2, *(p_values if p_value is not None else (None, None)))
    return Judgement(conclusion, BOTH_SIDES, interval, (), PLAN)


@pytest.mark.parametrize(
    ("p_values", "kept"),
    [
        ([0.9 * LEVEL], [True]),
        ([0.4 * LEVEL, 0.9 * LEVEL], [True, True]),
        ([0.9 * LEVEL, 0.4 * LEVEL], [True, True]),
        ([0.6 * LEVEL, 0.9 * LEVEL], [False, False]),
        ([0.3 * LEVEL, 0.6 * LEVEL, 0.9 * LEVEL], [True, False, False]),
        ([0.3 * LEVEL, 0.4 * LEVEL, 0.9 * LEVEL], [True, True, True]),
        ([None, 0.9 * LEVEL], [True, True]),
    ],
)
@pytest.mark.parametrize("conclusion", ["supported", "contradicted"])
def test_each_claim_is_corrected_for_the_number_of_all(
    p_values: Sequence[float | None], kept: list[bool], conclusion: Conclusion
) -> None:
    found = corrected([judged(conclusion, each) for each in p_values])
    assert [each.conclusion == conclusion for each in found] == kept
    assert {each.reason for each in found if each.conclusion != conclusion} <= {ALONE}


def test_a_claim_beside_one_that_is_open_or_not_measured_is_one_of_two_all_the_same() -> None:
    beside = (judged("inconclusive", 0.5), replace(judged("inconclusive", 0.5), interval=None))
    for other in beside:
        for share, expected in ((0.4, "supported"), (0.6, "inconclusive")):
            found = corrected([judged("supported", share * LEVEL), other])
            assert found[0].conclusion == expected
            assert found[1] == other, "what is open stays so, with its reason"


@pytest.mark.parametrize(
    ("conclusions", "expected"),
    [
        (["supported"], "supported"),
        (["supported", "supported"], "supported"),
        (["supported", "inconclusive"], "inconclusive"),
        (["inconclusive", "contradicted"], "contradicted"),
        (["supported", "contradicted"], "contradicted"),
    ],
)
def test_all_together_hold_where_each_does_and_not_where_one_does_not(
    conclusions: list[Conclusion], expected: Conclusion
) -> None:
    assert together([judged(each, 0.001) for each in conclusions]) == expected
