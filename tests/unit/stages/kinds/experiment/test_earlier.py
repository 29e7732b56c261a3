"""What a verdict is worth beside the earlier ones on the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from events.catalog import Conclusion
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.metrics import METRICS
from stages.kinds.experiment.paper.words import use_words, write_words
from stages.kinds.experiment.record.numbers import numbers_of
from stages.kinds.experiment.statistics.earlier import Use, earlier_of, identity_of, measurement_of
from stages.kinds.experiment.statistics.estimate import LEVEL
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.several import p_of_all
from stages.kinds.experiment.statistics.validation import BOTH_SIDES, Interval, Judgement, Pair, Registration
from stages.kinds.experiment.steps.verdict import weigh
from stages.kinds.experiment.testing import make_record

PLAN = Registration(METRICS["nll"], superior("increase"), 10, rows=1797, test_rows=540)
SEVENTH = Use("breast cancer", "breast_cancer", "test", 171, 6, "supported", 0.004)


def judged(conclusion: Conclusion, p_value: float, pairs: tuple[Pair, ...] = ()) -> Judgement:
    """Return a judgement whose decisive p-value is this one."""
    p_values = (0.9, p_value) if conclusion == "contradicted" else (p_value, 0.9)
    return Judgement(conclusion, BOTH_SIDES, Interval(0.1, 0.0, 0.2, *p_values), pairs, PLAN)


def test_all_verdicts_on_some_rows_together_have_the_error_of_one_however_many_follow() -> None:
    shares = [1 / (replace(SEVENTH, earlier=earlier).factor or 0) for earlier in range(100_000)]
    assert 0.9999 < sum(shares) <= 1.0
    assert shares == sorted(shares, reverse=True)


def test_a_verdict_is_worth_less_the_more_there_were_before_it() -> None:
    assert (SEVENTH.number, SEVENTH.factor) == (7, 56)
    assert SEVENTH.p_beside == pytest.approx(0.224)
    assert SEVENTH.holds is False
    assert replace(SEVENTH, p_value=0.9 * LEVEL / 56).holds is True
    assert replace(SEVENTH, p_value=LEVEL / 56).holds is False
    assert replace(SEVENTH, earlier=0, p_value=0.4 * LEVEL).holds is True, "the first has half of the error"
    assert replace(SEVENTH, earlier=0, p_value=0.6 * LEVEL).holds is False
    assert replace(SEVENTH, p_value=0.5).p_beside == 1.0


def test_it_is_said_in_words() -> None:
    said = SEVENTH.sentence()
    assert (
        "verdict 7 on the test rows of breast cancer (known of other runs when its attempt began: 6)" in said
    )
    assert "counts 56 times: it is worth 0.22, with which the conclusion does not hold" in said
    assert "the conclusion holds beside" in replace(SEVENTH, p_value=1e-6).sentence()
    assert "the reserve of breast cancer" in replace(SEVENTH, part="reserve").sentence()
    assert "the first verdict" in replace(SEVENTH, earlier=0).sentence()
    unknown = replace(SEVENTH, earlier=None)
    assert "is not known, so none is corrected for" in unknown.sentence()
    assert (unknown.p_beside, unknown.holds, unknown.number) == (None, None, None)
    open_ = replace(SEVENTH, conclusion="inconclusive", p_value=None)
    assert open_.sentence().endswith("began: 6)."), "nothing is concluded"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"verdicts": {"iris test": 4}, "isWhole": True}, 4),
        ({"verdicts": {"iris reserve": 4}, "isWhole": True}, 0),
        ({"verdicts": {"iris test": 4}, "isWhole": False}, None),
        ({"verdicts": {"iris test": 4}}, None),
        ({"verdicts": {"iris test": -1}, "isWhole": True}, None),
        ({"verdicts": {"iris test": True}, "isWhole": True}, None),
        ({"verdicts": [1], "isWhole": True}, None),
        ({}, None),
    ],
)
def test_what_was_not_told_or_not_of_all_is_not_known(told: Any, expected: int | None) -> None:
    assert earlier_of(told, "iris", "test") == expected


def test_a_data_set_is_what_its_rows_are() -> None:
    assert identity_of(SHIPPED["iris"]) == "iris"
    table = replace(SHIPPED["iris"], location="/data/iris.csv", digest="ab" * 32)
    assert identity_of(table) == f"sha256:{'ab' * 32}"
    assert identity_of(replace(table, location="/elsewhere/copy.csv", name="copy")) == identity_of(table)


def test_a_measurement_is_known_again_and_told_from_any_other() -> None:
    pairs = (Pair(1, 0.5, 0.6), Pair(2, 0.5, 0.7))
    one = measurement_of("m", [judged("supported", 0.01, pairs)])
    assert one == measurement_of("m", [judged("supported", 0.02, pairs)])
    others = [
        measurement_of("n", [judged("supported", 0.01, pairs)]),
        measurement_of("m", [judged("supported", 0.01, pairs[:1])]),
        measurement_of("m", [judged("supported", 0.01, (pairs[0], Pair(2, 0.5, 0.71)))]),
        measurement_of("m", [judged("supported", 0.01, (pairs[0], Pair(3, 0.5, 0.7)))]),
    ]
    assert len({one, *others}) == 5


def test_the_p_value_of_several_claims_is_that_of_what_is_concluded_of_all() -> None:
    assert p_of_all([judged("supported", 0.004)]) == 0.004
    assert p_of_all([judged("supported", 0.004), judged("supported", 0.001)]) == 0.004
    assert p_of_all([judged("supported", 0.001), judged("inconclusive", 0.5)]) is None
    assert p_of_all([judged("contradicted", 0.001), judged("supported", 0.004)]) == 0.002
    counted = Registration(METRICS["parameters"], superior("increase"), 10, rows=1797, test_rows=540)
    exact = Judgement("supported", BOTH_SIDES, Interval(1.0, 1.0, 1.0), (), counted)
    assert p_of_all([exact]) is None, "a count errs never"


def test_paper_and_summary_say_it_with_numbers_that_have_events() -> None:
    record = make_record()
    record = replace(record, verdicts=replace(record.verdicts, use=SEVENTH))
    numbers = numbers_of(record)
    said = numbers.resolved(use_words(record))
    assert "verdict 7 on the test rows of digits (known of other runs when its attempt began: 6)" in said
    assert "counts 56 times: it is worth 0.224," in said
    assert use_words(record) in write_words(record, numbers).sections["validation"]
    verdict = weigh(record, (), 0, ())
    assert SEVENTH.sentence() in verdict.summary
    assert verdict.scores["data_use"]["earlier"] == 6
    assert use_words(make_record()) == ""
