"""Several claims of one hypothesis: Holm's correction, and one conclusion of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from events.catalog import Conclusion
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.paper.words import verdict_line
from stages.kinds.experiment.record.numbers import p_text
from stages.kinds.experiment.record.record import Verdicts
from stages.kinds.experiment.statistics.estimate import LEVEL
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.several import ALONE, corrected, together
from stages.kinds.experiment.statistics.validation import BOTH_SIDES, Interval, Judgement, Registration

PLAN = Registration(METRICS["nll"], superior("increase"), 10, rows=1797, test_rows=540)


def judged(conclusion: Conclusion, p_value: float | None) -> Judgement:
    """Return a judgement whose decisive p-value is this one."""
    p_values = (p_value, 0.9) if conclusion == "supported" else (0.9, p_value)
    interval = Interval(0.1, 0.0, 0.2, *(p_values if p_value is not None else (None, None)), 0.05)
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
            assert (found[1].conclusion, found[1].reason) == (other.conclusion, other.reason), (
                "what is open stays so"
            )


def test_the_corrected_p_value_decides_and_is_told() -> None:
    found = corrected([judged("supported", 0.4 * LEVEL), judged("supported", 0.3 * LEVEL)])
    assert [each.p_corrected for each in found] == [pytest.approx(0.6 * LEVEL), pytest.approx(0.6 * LEVEL)]
    opposite = corrected([judged("contradicted", 0.2 * LEVEL), judged("supported", 0.9)])
    assert opposite[0].p_corrected == pytest.approx(0.4 * LEVEL), "of what is concluded"
    assert opposite[1].p_corrected == 1.0, "no chance is more than certain"
    line = verdict_line(Verdicts(tuple(opposite), {}))
    assert f"of its opposite {p_text(0.4 * LEVEL)} as one of several claims" in line
    assert corrected([judged("supported", 0.1)])[0].p_corrected is None, "one alone needs none"
    exact = corrected([judged("supported", None), judged("supported", 0.9)])
    assert exact[0].p_corrected is None, "what is counted has no chance"


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
