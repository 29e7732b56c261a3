"""A model that is away, told from items that it cannot answer."""

from __future__ import annotations

import pytest

from events.runtime.errors import PipelineError
from stages.kinds.benchmark.engine import Evaluated
from stages.kinds.benchmark.outage import IN_A_ROW, Outage
from stages.kinds.benchmark.suites.item import Score
from stages.models.model import Answer, Trouble, Usage

ANSWER = Answer(text="7", usage=Usage(prompt_tokens=1, completion_tokens=1, seconds=0.1), is_cut_off=False)


def failed(key: object, trouble: Trouble = "unreachable") -> Evaluated:
    score = Score(outcome="error", why="no connection")
    return Evaluated(key=str(key), score=score, answer=None, seconds=0.1, trouble=trouble)


def answered() -> Evaluated:
    return Evaluated(key="other", score=Score(outcome="right"), answer=ANSWER, seconds=0.1)


def test_items_that_fail_again_while_others_are_answered_are_no_outage_however_many() -> None:
    outage, keys = Outage(), [str(number) for number in range(2 * IN_A_ROW)]
    for key in keys:
        assert outage.holds(failed(key))
        assert not outage.holds(answered())
    assert outage.begin_again() == keys
    assert not any(outage.holds(failed(key)) for key in keys), "each has its own error now"
    assert outage.left(has_score=True) == []


def test_items_in_a_row_are_an_outage_also_over_the_second_round() -> None:
    outage = Outage()
    for key in range(IN_A_ROW - 1):
        assert outage.holds(failed(key))
    outage.begin_again()
    with pytest.raises(PipelineError) as away:
        outage.holds(failed(0, "rate_limited"))
    assert (away.value.code, away.value.retryable) == ("MODEL_RATE_LIMITED", True)


@pytest.mark.parametrize("trouble", ["refused", "malformed", "cut_off"])
def test_who_refuses_an_item_is_there(trouble: Trouble) -> None:
    outage = Outage()
    for key in range(2 * IN_A_ROW):
        assert outage.holds(failed(key))
        assert not outage.holds(failed("other", trouble))


def test_what_is_left_is_a_result_where_anything_was_answered_and_an_outage_else() -> None:
    outage = Outage()
    outage.holds(failed("one", "quota"))
    assert [each.key for each in outage.left(has_score=True)] == ["one"]
    with pytest.raises(PipelineError) as away:
        outage.left(has_score=False)
    assert away.value.code == "MODEL_QUOTA"
