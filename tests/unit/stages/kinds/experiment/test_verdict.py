"""Who decides on a claim: the measurement, and reviewers only where it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stages.kinds.experiment.paper.words import problems_of, verdict_words, write_words
from stages.kinds.experiment.record.numbers import numbers_of
from stages.kinds.experiment.record.record import Record
from stages.kinds.experiment.record.reviews import Review
from stages.kinds.experiment.statistics.validation import CAUGHT, FAILED, TOO_GOOD, Pair, doubted, judge
from stages.kinds.experiment.steps.verdict import Verdict, weigh
from stages.kinds.experiment.testing import make_record

HOLDS = make_record(effect=0.05)
DOES_NOT = make_record(effect=-0.05)
NOTHING_THERE = make_record(effect=0.0)


def review(decision: str, overall: int) -> Review:
    return Review(
        summary="A summary.", strengths=["clear"], weaknesses=["small"], questions=[], limitations=[],
        originality=2, quality=2, clarity=3, significance=2, soundness=2, presentation=3, contribution=2,
        overall=overall, confidence=4, decision=decision,
    )  # fmt: skip


ACCEPT, REJECT = review("accept", 7), review("reject", 3)


def weighed(record: Record, *reviews: Review, untraced: tuple[str, ...] = ()) -> Verdict:
    return weigh(record, untraced, 10, reviews)


def test_a_measured_effect_on_the_claimed_side_passes_without_reviewers() -> None:
    verdict = weighed(HOLDS)
    assert (verdict.verdict, verdict.decided_by) == ("pass", "measurement")
    assert verdict.scores["meta_review"] is None
    assert "a baseline that the run wrote itself" in verdict.summary, "which nobody has compared with others"


@pytest.mark.parametrize(
    ("record", "conclusion"), [(DOES_NOT, "contradicted"), (NOTHING_THERE, "inconclusive")]
)
def test_no_review_rescues_a_claim_that_the_measurement_does_not_support(
    record: Record, conclusion: str
) -> None:
    verdict = weighed(record, ACCEPT, ACCEPT, ACCEPT)
    assert (verdict.verdict, verdict.conclusion, verdict.decided_by) == ("fail", conclusion, "measurement")
    assert verdict.scores["measured"] == conclusion


def test_reviewers_can_refuse_what_was_measured_to_hold_and_the_verdict_says_that_they_did() -> None:
    verdict = weighed(HOLDS, REJECT, REJECT, ACCEPT)
    assert (verdict.conclusion, verdict.decided_by) == ("inconclusive", "review")
    assert "2 of 3 reviews reject" in verdict.summary
    assert verdict.scores["measured"] == "supported"


def test_a_paper_that_states_what_nobody_measured_fails_whatever_reviewers_say() -> None:
    verdict = weighed(HOLDS, ACCEPT, untraced=("'0.99' is printed",))
    assert (verdict.verdict, verdict.decided_by) == ("fail", "measurement")
    assert verdict.scores["numbers_untraced"] == ["'0.99' is printed"]


def test_what_is_too_good_asks_for_replication_in_the_verdict_and_in_the_paper() -> None:
    judgement = doubted(HOLDS.verdicts.judgement, replace(HOLDS.claim.metric, perfect=1.0))
    assert judgement is HOLDS.verdicts.judgement
    pairs = [replace(pair, intervention=1.0) for pair in judgement.pairs]
    perfect = doubted(judge(pairs, judgement.plan), HOLDS.claim.metric)
    record = replace(HOLDS, verdicts=replace(HOLDS.verdicts, judgements=(perfect,)))
    verdict = weighed(record, ACCEPT, ACCEPT, ACCEPT)
    assert (verdict.verdict, verdict.decided_by) == ("fail", "measurement")
    assert TOO_GOOD in verdict.summary
    assert TOO_GOOD in verdict_words(record, numbers_of(record))
    assert "abstract" in write_words(record, numbers_of(record)).sections


def _failed(pair: Pair) -> Pair:
    return replace(pair, failed=(True, False))


def _caught(pair: Pair) -> Pair:
    return replace(pair, intervention=None, is_caught=True)


@pytest.mark.parametrize(
    ("changed", "count", "why"), [(_failed, 1, FAILED), (_caught, 1, CAUGHT), (_caught, 7, CAUGHT)]
)
def test_a_finding_about_the_programs_is_the_reason_in_the_verdict_and_in_the_paper(
    changed: Callable[[Pair], Pair], count: int, why: str
) -> None:
    pairs = HOLDS.verdicts.judgement.pairs
    pairs = (*map(changed, pairs[:count]), *pairs[count:])
    found = doubted(judge(pairs, HOLDS.verdicts.judgement.plan), HOLDS.claim.metric)
    record = replace(HOLDS, verdicts=replace(HOLDS.verdicts, judgements=(found,)))
    verdict = weighed(record, ACCEPT, ACCEPT, ACCEPT)
    assert (verdict.conclusion, why in verdict.summary) == ("inconclusive", True)
    assert why in verdict_words(record, numbers_of(record))
    prose = write_words(record, numbers_of(record))
    assert why in " ".join(prose.sections["conclusion"])
    assert problems_of(prose, numbers_of(record)) == []


def test_reviewers_that_agree_are_counted_in_the_summary() -> None:
    verdict = weighed(HOLDS, ACCEPT, ACCEPT, REJECT)
    assert verdict.verdict == "pass"
    assert "2 of 3 reviews accept" in verdict.summary
