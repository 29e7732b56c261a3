"""The table of transitions, walked pair by pair, and what an end charges."""

from __future__ import annotations

from dataclasses import astuple
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.lifecycle import (
    AT_REST,
    BACK_OFF_MAX_S,
    END_CAUSES,
    FINAL,
    HELD,
    INFRA_FAILURES_MAX,
    LIVE,
    PREEMPTIONS_MAX,
    TRANSITIONS,
    Cause,
    Ending,
    Failures,
    Illegal,
    Outcome,
    Standing,
    Status,
    advance,
    back_off_s,
    end,
    next_status,
    rescue,
)
from events.settlement import End, end_decision, rescue_decision, settle_decision

PAIRS = list(product(TRANSITIONS, Status))
OUTCOMES: list[Outcome] = list(END_CAUSES)

statuses = st.sampled_from(list(Status))
failures = st.builds(
    Failures,
    app=st.integers(0, 10),
    infra=st.integers(0, INFRA_FAILURES_MAX + 1),
    preempted=st.integers(0, PREEMPTIONS_MAX + 1),
)
standings = st.builds(
    Standing, status=statuses, failures=failures, max_attempts=st.integers(1, 10), review=st.booleans()
)
chances = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("cause", "status"), PAIRS, ids=lambda each: each.value)
def test_every_pair_leads_where_its_row_says_or_nowhere(cause: Cause, status: Status) -> None:
    row = TRANSITIONS[cause].get(status)
    found = next_status(status, cause)
    assert found == (Illegal(status, cause) if row is None else row[0])
    if isinstance(found, Illegal):
        assert status.value in str(found)
        assert cause.value in str(found)


@pytest.mark.parametrize("status", sorted(FINAL))
def test_nothing_leaves_a_final_status(status: Status) -> None:
    assert {"COMPLETED", "HUMAN_VALIDATED", "HUMAN_REJECTED", "FAILED", "CANCELED"} == FINAL
    for cause, row in TRANSITIONS.items():
        assert row.get(status, (status,)) == (status,), cause


@pytest.mark.parametrize(
    ("cause", "outside"),
    [
        (Cause.PAUSE, set(Status) - set(LIVE)),
        (Cause.RESUME, AT_REST),
        (Cause.NOTE, FINAL),
    ],
)
def test_people_steer_without_moving_the_run(cause: Cause, outside: set[Status]) -> None:
    for status in Status:
        found = next_status(status, cause)
        assert found == (Illegal(status, cause) if status in outside else status)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("cause", [Cause.STARTED, Cause.AUTO_STARTED])
def test_a_phase_moves_a_live_run_forward_only(status: Status, cause: Cause) -> None:
    after = advance(status, cause)
    if status in LIVE:
        assert after in LIVE
        assert LIVE.index(after) >= LIVE.index(status)
    else:
        assert after is status


@given(run=standings, outcome=st.sampled_from(OUTCOMES), retryable=st.booleans(), jitter=chances)
def test_an_end_stays_in_its_row_and_charges_its_own_budget(
    run: Standing, outcome: Outcome, retryable: bool, jitter: float
) -> None:
    ending = end(run, outcome, retryable=retryable, jitter=jitter)
    row = TRANSITIONS[END_CAUSES[outcome]].get(run.status)
    if row is None:
        assert isinstance(ending, Illegal)
        return
    assert isinstance(ending, Ending)
    assert ending.to in row
    charged = tuple(
        now - then for now, then in zip(astuple(ending.failures), astuple(run.failures), strict=True)
    )
    expected = {"completed": (0, 0, 0), "failed": (1, 0, 0)}.get(outcome, (0, 0, 1))
    assert charged == ((0, 0, 0) if run.status is Status.CANCELING else expected)
    if outcome == "failed" and ending.to is Status.DELAYED:
        assert retryable
        assert ending.failures.app < run.max_attempts
    assert (ending.delay_s is not None) == (ending.to is Status.DELAYED)


@given(run=standings, jitter=chances)
def test_a_rescue_charges_the_infrastructure_and_ends_with_its_budget(run: Standing, jitter: float) -> None:
    ending = rescue(run, jitter=jitter)
    if run.status not in HELD:
        assert isinstance(ending, Illegal)
        return
    assert isinstance(ending, Ending)
    assert ending.failures.app == run.failures.app
    assert ending.failures.preempted == run.failures.preempted
    if run.status is Status.CANCELING:
        assert (ending.to, ending.failures) == (Status.CANCELED, run.failures)
    elif run.failures.infra >= INFRA_FAILURES_MAX:
        assert ending.to is Status.FAILED
    else:
        assert ending.to is Status.DELAYED


@given(run=standings, outcome=st.sampled_from(OUTCOMES), retryable=st.booleans(), jitter=chances)
def test_settle_and_end_event_decide_the_same(
    run: Standing, outcome: Outcome, retryable: bool, jitter: float
) -> None:
    how = End(outcome, "CODE", "why", None, retryable)
    by_event = end_decision(run, 1, how, by="event", jitter=jitter)
    by_settle = settle_decision(run, 1, how, 7, by="pod/1#a1", jitter=jitter)
    if isinstance(by_event, Illegal):
        assert (by_settle.cause, by_settle.to) == (Cause.SETTLED, run.status)
    else:
        assert (by_settle.cause, by_settle.to) == (by_event.cause, by_event.to)
        assert {**by_settle.sets, "settled": None} == {**by_event.sets, "settled": None}
    assert by_settle.sets["settled"]["last"] == 7


@given(run=standings, jitter=chances)
def test_what_a_rescue_takes_nobody_can_settle_any_more(run: Standing, jitter: float) -> None:
    decision = rescue_decision(run, 1, by="rescuer", jitter=jitter)
    if not isinstance(decision, Illegal):
        assert decision.silent["lease"] is None


@given(failure=st.integers(1, 1_000), one=chances, other=chances)
def test_a_back_off_grows_to_its_ceiling_and_jitters_in_its_upper_half(
    failure: int, one: float, other: float
) -> None:
    waits = [back_off_s(failure, jitter) for jitter in (one, other)]
    assert all(0 < wait <= BACK_OFF_MAX_S for wait in waits)
    assert max(waits) <= 2 * min(waits)
    assert back_off_s(failure + 1, one) >= back_off_s(failure, one)
