"""The table of transitions, walked pair by pair, and what an end charges."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, astuple
from itertools import product
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.lifecycle import (
    AT_ONCE_MAX,
    AT_REST,
    BACK_OFF_FIRST_S,
    BACK_OFF_MAX_S,
    END_CAUSES,
    FINAL,
    HELD,
    INITIAL,
    LIVE,
    PREEMPTIONS_MAX,
    TRANSITIONS,
    Cause,
    Ending,
    Failures,
    Fault,
    Illegal,
    Judgement,
    Outcome,
    Standing,
    Status,
    advance,
    end,
    next_status,
    rescue,
    retry_wait_s,
)
from events.queue.journal import Expression
from events.queue.settlement import End, end_decision, rescue_decision, settle_decision

# The whole table once more, by hand and by the names that are stored: a row that changes is a new promise.
MOVES: Final = {
    "claim": {"QUEUED": "SCHEDULED"},
    "started": {"SCHEDULED": "RUNNING"},
    "auto_started": {"SCHEDULED": "AUTO_VALIDATING", "RUNNING": "AUTO_VALIDATING"},
    "end: completed": {
        "SCHEDULED": "COMPLETED AWAITING_HUMAN",
        "RUNNING": "COMPLETED AWAITING_HUMAN",
        "AUTO_VALIDATING": "COMPLETED AWAITING_HUMAN",
        "CANCELING": "CANCELED",
    },
    "end: failed": {
        "SCHEDULED": "DELAYED QUEUED FAILED",
        "RUNNING": "DELAYED QUEUED FAILED",
        "AUTO_VALIDATING": "DELAYED QUEUED FAILED",
        "CANCELING": "CANCELED",
    },
    "end: preempted": {
        "SCHEDULED": "QUEUED FAILED DELAYED",
        "RUNNING": "QUEUED FAILED DELAYED",
        "AUTO_VALIDATING": "QUEUED FAILED DELAYED",
        "CANCELING": "CANCELED",
    },
    "end: canceled": {
        "SCHEDULED": "QUEUED FAILED",
        "RUNNING": "QUEUED FAILED",
        "AUTO_VALIDATING": "QUEUED FAILED",
        "CANCELING": "CANCELED",
    },
    "rescue": {
        "SCHEDULED": "QUEUED DELAYED FAILED",
        "RUNNING": "QUEUED DELAYED FAILED",
        "AUTO_VALIDATING": "QUEUED DELAYED FAILED",
        "CANCELING": "CANCELED",
    },
    "cancel": {
        "SCHEDULED": "CANCELING",
        "RUNNING": "CANCELING",
        "AUTO_VALIDATING": "CANCELING",
        "QUEUED": "CANCELED",
        "DELAYED": "CANCELED",
        "AWAITING_HUMAN": "CANCELED",
    },
    "promote": {"DELAYED": "QUEUED"},
    "release": {"DELAYED": "QUEUED DELAYED"},
    "queue time over": {"QUEUED": "FAILED", "DELAYED": "FAILED"},
    "review": {"AWAITING_HUMAN": "HUMAN_VALIDATED HUMAN_REJECTED"},
    "change": {"QUEUED": "QUEUED DELAYED", "DELAYED": "DELAYED QUEUED"},
    "revise": {"HUMAN_VALIDATED": "HUMAN_REJECTED", "HUMAN_REJECTED": "HUMAN_VALIDATED"},
}
EVERY: Final = (
    "DELAYED QUEUED SCHEDULED RUNNING AUTO_VALIDATING CANCELING AWAITING_HUMAN COMPLETED "
    "HUMAN_VALIDATED HUMAN_REJECTED FAILED CANCELED"
)
STAYS: Final = {
    "pause": "SCHEDULED RUNNING AUTO_VALIDATING",
    "preempt": "SCHEDULED RUNNING AUTO_VALIDATING",
    "resume": "DELAYED QUEUED SCHEDULED RUNNING AUTO_VALIDATING CANCELING",
    "start": "DELAYED QUEUED SCHEDULED RUNNING AUTO_VALIDATING CANCELING",
    "note": EVERY,
    "settled": EVERY,
}

PAIRS = list(product(TRANSITIONS, Status))
OUTCOMES: list[Outcome] = list(END_CAUSES)

statuses = st.sampled_from(list(Status))
failures = st.builds(
    Failures,
    app=st.integers(0, 10),
    infra=st.integers(0, 10),
    preempted=st.integers(0, PREEMPTIONS_MAX + 1),
    outside=st.integers(0, 10),
)
standings = st.builds(
    Standing, status=statuses, failures=failures, max_attempts=st.integers(1, 10), review=st.booleans()
)
chances = st.floats(0, 1, exclude_max=True)
judgements = st.builds(Judgement, fault=st.sampled_from(Fault), times=st.integers(1, 12))
LOST: Final = Judgement(Fault.POD)


def standing(
    status: Status = Status.RUNNING,
    *,
    app: int = 0,
    infra: int = 0,
    preempted: int = 0,
    max_attempts: int = 3,
    review: bool = False,
) -> Standing:
    return Standing(status, Failures(app, infra, preempted), max_attempts, review)


def test_the_table_is_the_one_that_was_promised() -> None:
    staying = {cause: {status: status for status in row.split()} for cause, row in STAYS.items()}
    found = {
        cause.value: {status.value: " ".join(targets) for status, targets in row.items()}
        for cause, row in TRANSITIONS.items()
    }
    assert found == {**MOVES, **staying}


def test_statuses_and_causes_are_stored_by_these_words() -> None:
    assert [status.value for status in Status] == STAYS["settled"].split()
    assert all(status.name == status.value for status in Status)
    assert {cause.value for cause in Cause} == {"submit", *MOVES, *STAYS}
    assert {cause.name: cause.value for cause in Cause if cause.name.lower() != cause.value} == {
        "END_COMPLETED": "end: completed",
        "END_FAILED": "end: failed",
        "END_PREEMPTED": "end: preempted",
        "END_CANCELED": "end: canceled",
        "QUEUE_TIMEOUT": "queue time over",
    }


def test_the_groups_of_statuses_are_these() -> None:
    assert LIVE == ("SCHEDULED", "RUNNING", "AUTO_VALIDATING")
    assert {"SCHEDULED", "RUNNING", "AUTO_VALIDATING", "CANCELING"} == HELD
    assert {"QUEUED", "DELAYED"} == INITIAL
    assert {*FINAL, "AWAITING_HUMAN"} == AT_REST
    assert {"COMPLETED", "HUMAN_VALIDATED", "HUMAN_REJECTED", "FAILED", "CANCELED"} == FINAL


def test_every_outcome_has_a_cause_of_its_own() -> None:
    assert tuple(END_CAUSES) == get_args(Outcome) == ("completed", "failed", "preempted", "canceled")
    assert all(cause.value == f"end: {outcome}" for outcome, cause in END_CAUSES.items())


def test_the_budgets_and_waits_are_these() -> None:
    assert (AT_ONCE_MAX, PREEMPTIONS_MAX) == (2, 100)
    assert (BACK_OFF_FIRST_S, BACK_OFF_MAX_S) == (2.0, 300.0)


def test_what_cannot_be_says_so_in_a_sentence() -> None:
    found = next_status(Status.FAILED, Cause.QUEUE_TIMEOUT)
    assert found == Illegal(Status.FAILED, Cause.QUEUE_TIMEOUT)
    assert str(found) == "a run that is FAILED cannot change by 'queue time over'"


def test_what_was_not_charged_is_nothing_and_what_does_not_wait_has_no_delay() -> None:
    assert Failures() == Failures(0, 0, 0, 0)
    assert Ending(Status.FAILED, Failures()) == Ending(Status.FAILED, Failures(0, 0, 0), None)


@pytest.mark.parametrize(
    "value",
    [Illegal(Status.FAILED, Cause.CLAIM), Failures(), standing(), Ending(Status.FAILED, Failures())],
    ids=lambda each: type(each).__name__,
)
def test_a_judgement_is_not_changed_any_more(value: object) -> None:
    name = next(iter(value.__slots__))  # type: ignore[attr-defined] # each is a slotted dataclass
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)
    assert not hasattr(value, "__dict__")


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
        if cause is not Cause.REVISE:
            assert row.get(status, (status,)) == (status,), cause


@pytest.mark.parametrize(
    ("cause", "outside"),
    [
        (Cause.PAUSE, set(Status) - set(LIVE)),
        (Cause.RESUME, AT_REST),
        (Cause.NOTE, set()),
        (Cause.START, AT_REST),
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


@given(
    run=standings,
    outcome=st.sampled_from(OUTCOMES),
    retryable=st.booleans(),
    jitter=chances,
    judgement=judgements,
)
def test_an_end_stays_in_its_row_and_charges_its_own_budget(
    run: Standing, outcome: Outcome, retryable: bool, jitter: float, judgement: Judgement
) -> None:
    ending = end(run, outcome, retryable=retryable, jitter=jitter, judgement=judgement)
    row = TRANSITIONS[END_CAUSES[outcome]].get(run.status)
    if row is None:
        assert isinstance(ending, Illegal)
        return
    assert isinstance(ending, Ending)
    assert ending.to in row
    charged = tuple(
        now - then for now, then in zip(astuple(ending.failures), astuple(run.failures), strict=True)
    )
    failed = {Fault.RUN: (1, 0, 0, 0), Fault.POD: (0, 1, 0, 0), Fault.OUTSIDE: (0, 0, 0, 1)}[judgement.fault]
    expected = {"completed": (0, 0, 0, 0), "failed": failed}.get(outcome, (0, 0, 1, 0))
    assert charged == ((0, 0, 0, 0) if run.status is Status.CANCELING else expected)
    if outcome == "failed" and judgement.fault is not Fault.RUN:
        assert ending.to is not Status.FAILED
    elif outcome == "failed" and ending.to is Status.DELAYED:
        assert retryable
        assert ending.failures.app < run.max_attempts
    assert (ending.delay_s is not None) == (ending.to is Status.DELAYED)


@given(run=standings, times=st.integers(1, 12), jitter=chances)
def test_a_rescue_charges_nothing_to_the_run_and_never_ends_it(
    run: Standing, times: int, jitter: float
) -> None:
    ending = rescue(run, Judgement(Fault.POD, times), jitter=jitter)
    if run.status not in HELD:
        assert isinstance(ending, Illegal)
        return
    assert isinstance(ending, Ending)
    assert ending.failures.app == run.failures.app
    assert ending.failures.preempted == run.failures.preempted
    if run.status is Status.CANCELING:
        assert (ending.to, ending.failures) == (Status.CANCELED, run.failures)
    else:
        assert ending.failures.infra == run.failures.infra + 1
        assert ending.to is (Status.QUEUED if times <= AT_ONCE_MAX else Status.DELAYED)


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
    assert by_settle.sets["settled"]["last"] == Expression({"$max": [7, "$lastEventSeq"]})


@given(run=standings, jitter=chances)
def test_what_a_rescue_takes_nobody_can_settle_any_more(run: Standing, jitter: float) -> None:
    decision = rescue_decision(run, 1, by="rescuer", jitter=jitter)
    if not isinstance(decision, Illegal):
        assert decision.silent["lease"] is None


@given(failure=st.integers(1, 1_000), one=chances, other=chances)
def test_a_back_off_grows_to_its_ceiling_and_jitters_in_its_upper_half(
    failure: int, one: float, other: float
) -> None:
    waits = [retry_wait_s(failure, jitter) for jitter in (one, other)]
    assert all(0 < wait <= BACK_OFF_MAX_S for wait in waits)
    assert max(waits) <= 2 * min(waits)
    assert retry_wait_s(failure + 1, one) >= retry_wait_s(failure, one)


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize(
    ("run", "outcome", "retryable", "expected"),
    [
        ({}, "completed", False, Ending(Status.COMPLETED, Failures())),
        ({"review": True}, "completed", False, Ending(Status.AWAITING_HUMAN, Failures())),
        (
            {"app": 2, "infra": 3, "preempted": 4, "review": True}, "completed", True,
            Ending(Status.AWAITING_HUMAN, Failures(2, 3, 4)),
        ),
        ({}, "failed", True, Ending(Status.DELAYED, Failures(app=1), 1.5)),
        (
            {"app": 1, "infra": 3, "preempted": 4}, "failed", True,
            Ending(Status.DELAYED, Failures(2, 3, 4), 3.0),
        ),
        ({"app": 2}, "failed", True, Ending(Status.FAILED, Failures(app=3))),
        ({"app": 3}, "failed", True, Ending(Status.FAILED, Failures(app=4))),
        ({"max_attempts": 1}, "failed", True, Ending(Status.FAILED, Failures(app=1))),
        ({"max_attempts": 2}, "failed", True, Ending(Status.DELAYED, Failures(app=1), 1.5)),
        ({"review": True}, "failed", False, Ending(Status.FAILED, Failures(app=1))),
        ({}, "preempted", False, Ending(Status.QUEUED, Failures(preempted=1))),
        ({"preempted": 99}, "preempted", False, Ending(Status.QUEUED, Failures(preempted=100))),
        ({"preempted": 100}, "preempted", True, Ending(Status.FAILED, Failures(preempted=101))),
        ({"app": 3, "infra": 5}, "canceled", True, Ending(Status.QUEUED, Failures(3, 5, 1))),
        ({"preempted": 99}, "canceled", False, Ending(Status.QUEUED, Failures(preempted=100))),
        ({"preempted": 100}, "canceled", False, Ending(Status.FAILED, Failures(preempted=101))),
    ],
)  # fmt: skip
def test_an_end_of_a_live_run_leads_where_its_budget_allows(
    status: Status, run: dict[str, Any], outcome: Outcome, retryable: bool, expected: Ending
) -> None:
    assert end(standing(status, **run), outcome, retryable=retryable, jitter=0.5) == expected


@pytest.mark.parametrize("retryable", [False, True])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_run_that_is_being_canceled_ends_canceled_and_is_charged_nothing(
    outcome: Outcome, retryable: bool
) -> None:
    run = standing(Status.CANCELING, app=3, infra=5, preempted=100, review=True)
    canceled = Ending(Status.CANCELED, Failures(3, 5, 100), None)
    assert end(run, outcome, retryable=retryable, jitter=0.5) == canceled
    assert rescue(run, LOST, jitter=0.5) == canceled


@pytest.mark.parametrize("status", sorted(set(Status) - HELD))
def test_what_nobody_holds_has_no_end(status: Status) -> None:
    for outcome, cause in END_CAUSES.items():
        assert end(standing(status), outcome, retryable=True, jitter=0.5) == Illegal(status, cause)
    assert rescue(standing(status), LOST, jitter=0.5) == Illegal(status, Cause.RESCUE)


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize(
    ("judgement", "expected"),
    [
        (Judgement(Fault.POD, 1), Ending(Status.QUEUED, Failures(2, 8, 100))),
        (Judgement(Fault.POD, 2), Ending(Status.QUEUED, Failures(2, 8, 100))),
        (Judgement(Fault.POD, 3), Ending(Status.DELAYED, Failures(2, 8, 100), 1.5)),
        (Judgement(Fault.POD, 7), Ending(Status.DELAYED, Failures(2, 8, 100), 24.0)),
        (Judgement(Fault.RUN, 6), Ending(Status.FAILED, Failures(3, 7, 100))),
    ],
)
def test_what_pods_lose_goes_elsewhere_at_once_twice_and_then_later_each_time(
    status: Status, judgement: Judgement, expected: Ending
) -> None:
    run = standing(status, app=2, infra=7, preempted=100)
    assert rescue(run, judgement, jitter=0.5) == expected
    assert end(run, "failed", retryable=True, jitter=0.5, judgement=judgement) == expected


@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize(("times", "wait_s"), [(1, 1.5), (2, 3.0), (12, 225.0)])
def test_what_fails_outside_waits_longer_each_time_and_is_charged_nothing(
    times: int, wait_s: float, retryable: bool
) -> None:
    judgement = Judgement(Fault.OUTSIDE, times)
    assert end(standing(app=2), "failed", retryable=retryable, jitter=0.5, judgement=judgement) == Ending(
        Status.DELAYED, Failures(app=2, outside=1), wait_s
    )


@pytest.mark.parametrize(
    ("failure", "jitter", "wait_s"),
    [
        (1, 0.0, 1.0),
        (1, 0.5, 1.5),
        (1, 1.0, 2.0),
        (2, 0.0, 2.0),
        (3, 0.25, 5.0),
        (8, 0.0, 128.0),
        (8, 0.5, 192.0),
        (9, 0.0, 150.0),
        (9, 0.5, 225.0),
        (9, 1.0, 300.0),
        (10_000, 0.0, 150.0),
    ],
)
def test_a_back_off_doubles_from_two_seconds_to_five_minutes(
    failure: int, jitter: float, wait_s: float
) -> None:
    assert retry_wait_s(failure, jitter) == wait_s


@pytest.mark.parametrize(
    ("status", "cause", "after"),
    [
        ("SCHEDULED", Cause.STARTED, "RUNNING"),
        ("RUNNING", Cause.STARTED, "RUNNING"),
        ("AUTO_VALIDATING", Cause.STARTED, "AUTO_VALIDATING"),
        ("SCHEDULED", Cause.AUTO_STARTED, "AUTO_VALIDATING"),
        ("RUNNING", Cause.AUTO_STARTED, "AUTO_VALIDATING"),
        ("AUTO_VALIDATING", Cause.AUTO_STARTED, "AUTO_VALIDATING"),
        ("CANCELING", Cause.STARTED, "CANCELING"),
        ("DELAYED", Cause.STARTED, "DELAYED"),
        ("COMPLETED", Cause.AUTO_STARTED, "COMPLETED"),
    ],
)
def test_a_phase_leads_a_run_from_here_to_there(status: str, cause: Cause, after: str) -> None:
    assert advance(Status(status), cause) is Status(after)
