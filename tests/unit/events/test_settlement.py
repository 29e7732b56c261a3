"""Which fields follow from the end of an attempt: each decision whole, and what its update makes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.lifecycle import (
    BACK_OFF_MAX_S,
    END_CAUSES,
    FINAL,
    HELD,
    LIVE,
    PREEMPTIONS_MAX,
    Cause,
    Ending,
    Failures,
    Fault,
    Illegal,
    Judgement,
    PastFault,
    Standing,
    Status,
    end,
    rescue,
)
from events.queue.faults import KEPT_MAX, PODS_MAX, judge
from events.queue.journal import Decision, Expression, ServerTime, creation, kept_failures, update
from events.queue.settlement import (
    ENDING,
    RELEASED,
    TOKEN_LIFE,
    End,
    end_decision,
    pod_lost,
    rescue_decision,
    settle_decision,
    settled,
)
from events.testing import EPOCH
from testing.simulation.store.driver import sync_database
from testing.simulation.store.replica_set import ReplicaSet

ATTEMPT: Final = 3
BY: Final = "pod/1#a3"
JITTER: Final = 0.5  # three quarters of the ceiling
WEEK_MS: Final = 604_800_000
CHARGED: Final = {"app": 1, "infra": 1, "preempted": 1}  # `outside` is kept once there is one
POD: Final = "pod-7/ab"
LOST: Final = Judgement(Fault.POD)
BROKEN: Final = End("failed", "BROKEN", "it broke", "fit", retryable=True)
GIVEN_UP: Final = replace(BROKEN, retryable=False)
COMPLETED: Final = End("completed")
PREEMPTED: Final = End("preempted", message="the pod is going away")
CANCELED: Final = End("canceled", message="told to stop from outside")
ENDS: Final = (COMPLETED, BROKEN, GIVEN_UP, PREEMPTED, CANCELED)

# The token stays where it is; nobody renews any more.
LEASE_RELEASED: Final = {
    "tokenHash": Expression("$lease.tokenHash"),
    "until": None,
    "renewals": Expression("$lease.renewals"),
}
TOKENS_ENDING: Final = Expression(
    {
        "$map": {
            "input": {"$ifNull": ["$tokens", []]},
            "in": {
                "$cond": [
                    {"$eq": ["$$this.endsAt", None]},
                    {
                        "$mergeObjects": [
                            "$$this",
                            {
                                "endsAt": {
                                    "$dateAdd": {
                                        "startDate": "$$NOW",
                                        "unit": "millisecond",
                                        "amount": WEEK_MS,
                                    }
                                }
                            },
                        ]
                    },
                    "$$this",
                ]
            },
        }
    }
)
TOKENS_CLOSED: Final = Expression(
    {
        "$map": {
            "input": TOKENS_ENDING.body,
            "in": {
                "$cond": [
                    {"$eq": ["$$this.attempt", "$attempt"]},
                    {"$mergeObjects": ["$$this", {"last": {"$max": [7, "$lastEventSeq"]}}]},
                    "$$this",
                ]
            },
        }
    }
)
SILENT: Final = {"lease": LEASE_RELEASED, "tokens": TOKENS_ENDING}
SILENT_AT_RESCUE: Final = {"lease": None, "logOpen": False, "tokens": TOKENS_ENDING}

outcomes = st.sampled_from(list(END_CAUSES))
hows = st.builds(
    End,
    outcome=outcomes,
    code=st.sampled_from([None, "BROKEN", "KILLED", "DISK_FULL", "MODEL_UNREACHABLE"]),
    message=st.sampled_from([None, "it broke"]),
    stage=st.sampled_from([None, "fit"]),
    retryable=st.booleans(),
)
standings = st.builds(
    Standing,
    status=st.sampled_from(list(Status)),
    failures=st.builds(
        Failures,
        app=st.integers(0, 10),
        infra=st.integers(0, 10),
        preempted=st.integers(PREEMPTIONS_MAX - 2, PREEMPTIONS_MAX + 1),
    ),
    max_attempts=st.integers(1, 10),
    review=st.booleans(),
)
chances = st.floats(0, 1, exclude_max=True)


def make_standing(
    status: Status = Status.RUNNING,
    *,
    app: int = 1,
    infra: int = 1,
    preempted: int = 1,
    max_attempts: int = 3,
    review: bool = False,
    past: tuple[PastFault, ...] = (),
) -> Standing:
    """Return a run that was charged once to each of its budgets, on the pod `POD`."""
    return Standing(status, Failures(app, infra, preempted), max_attempts, review, POD, "fit 3/10", past)


def deadline(since: Any) -> Expression:
    """Return the whole limit of a wait that begins at `since`."""
    return Expression({"$dateAdd": {"startDate": since, "unit": "second", "amount": "$queueLimitS"}})


def in_ms(amount: int) -> dict[str, Any]:
    """Return the store's clock and `amount` milliseconds, as the server adds them up."""
    return {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": amount}}


def error(how: End, fault: str = "run") -> dict[str, Any]:
    """Return the error that a run keeps of a failure."""
    return {
        "code": how.code,
        "message": how.message,
        "stage": how.stage,
        "retryable": how.retryable,
        "attempt": ATTEMPT,
        "fault": fault,
    }


def faults(code: str, *, fault: str = "pod", until: Any = None, earlier: Any = ()) -> Expression:
    """Return what a run keeps of a failure that was not its own."""
    here = {"pod": POD, "code": code, "fault": fault, "place": "fit 3/10", "until": until, "heldS": 0.0}
    literal = {name: {"$literal": value} for name, value in here.items()}
    if until is not None:
        literal["until"] = until
    return Expression({"$concatArrays": [{"$literal": list(earlier)}, [{"$mergeObjects": [literal]}]]})


def waiting(since: Any = "$$NOW") -> dict[str, Any]:
    """Return what a run that waits again has lost and got."""
    return {"claimedBy": None, "claimedAt": None, "queueDeadline": deadline(since)}


def decided(run: Standing, how: End) -> Decision | Illegal:
    return end_decision(run, ATTEMPT, how, by=BY, jitter=JITTER)


def test_a_completed_run_is_finished_and_charged_nothing() -> None:
    assert decided(make_standing(), COMPLETED) == Decision(
        cause=Cause.END_COMPLETED,
        to=Status.COMPLETED,
        by=BY,
        sets={"failures": CHARGED, "finishedAt": ServerTime()},
        silent=SILENT,
    )


def test_a_completed_run_that_a_person_shall_review_is_not_finished() -> None:
    assert decided(make_standing(review=True), COMPLETED) == Decision(
        cause=Cause.END_COMPLETED,
        to=Status.AWAITING_HUMAN,
        by=BY,
        sets={"failures": CHARGED},
        silent=SILENT,
    )


def test_a_failure_that_may_be_tried_again_waits_for_its_time_and_then_its_whole_limit() -> None:
    # The second failure: 4 s at most, of which the jitter leaves three quarters.
    assert decided(make_standing(), BROKEN) == Decision(
        cause=Cause.END_FAILED,
        to=Status.DELAYED,
        by=BY,
        sets={
            "failures": {**CHARGED, "app": 2},
            "error": error(BROKEN),
            **waiting(in_ms(3_000)),
            "notBefore": ServerTime(3.0),
        },
        silent=SILENT,
    )


@pytest.mark.parametrize(
    ("how", "app"), [(GIVEN_UP, 1), (BROKEN, 2)], ids=["not retryable", "the last of three"]
)
def test_a_failure_that_nobody_tries_again_ends_the_run(how: End, app: int) -> None:
    assert decided(make_standing(app=app), how) == Decision(
        cause=Cause.END_FAILED,
        to=Status.FAILED,
        by=BY,
        sets={
            "failures": {**CHARGED, "app": app + 1},
            "error": error(how),
            "finishedAt": ServerTime(),
        },
        silent=SILENT,
    )


@pytest.mark.parametrize(("how", "cause"), [(PREEMPTED, Cause.END_PREEMPTED), (CANCELED, Cause.END_CANCELED)])
def test_a_run_that_was_given_back_waits_at_once_for_its_whole_limit_and_has_no_error(
    how: End, cause: Cause
) -> None:
    assert decided(make_standing(), how) == Decision(
        cause=cause,
        to=Status.QUEUED,
        by=BY,
        sets={"failures": {**CHARGED, "preempted": 2}, **waiting()},
        silent=SILENT,
    )


@pytest.mark.parametrize(("how", "cause"), [(PREEMPTED, Cause.END_PREEMPTED), (CANCELED, Cause.END_CANCELED)])
@pytest.mark.parametrize(
    ("before", "to"), [(PREEMPTIONS_MAX - 1, Status.QUEUED), (PREEMPTIONS_MAX, Status.FAILED)]
)
def test_a_run_that_was_given_back_too_often_has_failed(
    before: int, to: Status, how: End, cause: Cause
) -> None:
    after = {"finishedAt": ServerTime()} if to is Status.FAILED else waiting()
    assert decided(make_standing(preempted=before), how) == Decision(
        cause=cause,
        to=to,
        by=BY,
        sets={"failures": {**CHARGED, "preempted": before + 1}, **after},
        silent=SILENT,
    )


@pytest.mark.parametrize("how", ENDS, ids=lambda how: how.outcome)
def test_a_run_that_was_to_be_canceled_is_canceled_however_its_attempt_ended(how: End) -> None:
    assert decided(make_standing(Status.CANCELING, review=True), how) == Decision(
        cause=END_CAUSES[how.outcome],
        to=Status.CANCELED,
        by=BY,
        sets={"failures": CHARGED, "finishedAt": ServerTime()},
        silent=SILENT,
    )


@pytest.mark.parametrize("how", ENDS, ids=lambda how: how.outcome)
@pytest.mark.parametrize("status", LIVE)
def test_every_live_run_ends_alike(status: Status, how: End) -> None:
    assert decided(make_standing(status), how) == decided(make_standing(), how)


@pytest.mark.parametrize("status", sorted(set(Status) - HELD))
@pytest.mark.parametrize("how", ENDS, ids=lambda how: how.outcome)
def test_a_run_that_nobody_holds_does_not_end(status: Status, how: End) -> None:
    assert decided(make_standing(status), how) == Illegal(status, END_CAUSES[how.outcome])
    found = rescue_decision(make_standing(status), ATTEMPT, by="rescuer", jitter=JITTER)
    assert found == Illegal(status, Cause.RESCUE)


@given(run=standings, how=hows, jitter=chances)
def test_an_end_goes_where_the_table_says_and_sets_the_fields_of_that_place(
    run: Standing, how: End, jitter: float
) -> None:
    judgement = judge(how.code, run.pod, run.place, run.past)
    must_follow(
        end_decision(run, ATTEMPT, how, by=BY, jitter=jitter),
        end(run, how.outcome, retryable=how.retryable, jitter=jitter, judgement=judgement),
        how,
        judgement.fault,
    )


@given(run=standings, jitter=chances)
def test_a_worker_that_lost_an_attempt_gives_it_back_as_a_rescue_would(run: Standing, jitter: float) -> None:
    how = pod_lost("it was started again")
    decision = end_decision(run, ATTEMPT, how, by=BY, jitter=jitter)
    must_follow(decision, rescue(run, LOST, jitter=jitter), how, Fault.POD)
    assert isinstance(decision, Illegal) or decision.cause is Cause.RESCUE


@given(run=standings, jitter=chances)
def test_a_rescue_goes_where_the_table_says_and_sets_the_fields_of_that_place(
    run: Standing, jitter: float
) -> None:
    decision = rescue_decision(run, ATTEMPT, by=BY, jitter=jitter)
    must_follow(decision, rescue(run, LOST, jitter=jitter), lost(ATTEMPT, run.pod), Fault.POD)


def lost(attempt: int, pod: str) -> End:
    """Return the end that a rescue gives an attempt of a pod."""
    named = f" {pod}" if pod else ""
    why = f"attempt {attempt} stopped renewing its lease; its pod{named} is gone or cut off"
    return End("failed", "POD_LOST", why, None, retryable=True)


def must_follow(decision: Decision | Illegal, ending: Ending | Illegal, how: End, fault: Fault) -> None:
    """Hold a decision against the place to which the table leads."""
    if isinstance(ending, Illegal) or isinstance(decision, Illegal):
        assert decision == ending
        return
    waits = ending.to in (Status.QUEUED, Status.DELAYED)
    since = "$$NOW" if ending.delay_s is None else in_ms(int(ending.delay_s * 1_000))
    assert decision.to is ending.to
    has_error = how.outcome == "failed" and ending.to is not Status.CANCELED
    kept = decision.sets.get("faults")
    assert (kept is not None) == (has_error and fault is not Fault.RUN)
    assert decision.sets == {
        "failures": kept_failures(ending.failures),
        **({"error": error(how, fault)} if has_error else {}),
        **({"faults": kept} if kept is not None else {}),
        **({"finishedAt": ServerTime()} if ending.to in FINAL else {}),
        **(waiting(since) if waits else {}),
        **({"notBefore": ServerTime(ending.delay_s)} if ending.delay_s is not None else {}),
    }


@pytest.mark.parametrize("status", LIVE)
def test_a_rescued_run_is_tried_again_at_once_and_nobody_waits_for_its_log(status: Status) -> None:
    assert rescue_decision(make_standing(status), ATTEMPT, by="rescuer", jitter=JITTER) == Decision(
        cause=Cause.RESCUE,
        to=Status.QUEUED,
        by="rescuer",
        sets={
            "failures": {**CHARGED, "infra": 2},
            "error": {
                "code": "POD_LOST",
                "message": f"attempt 3 stopped renewing its lease; its pod {POD} is gone or cut off",
                "stage": None,
                "retryable": True,
                "attempt": ATTEMPT,
                "fault": "pod",
            },
            "faults": faults("POD_LOST"),
            **waiting(),
        },
        silent=SILENT_AT_RESCUE,
    )


def past(pod: str, code: str, *, fault: Fault = Fault.POD, place: str | None = "fit 3/10") -> PastFault:
    return PastFault(pod, code, fault, place, None)


def stored(fault: PastFault) -> dict[str, Any]:
    return {
        "pod": fault.pod, "code": fault.code, "fault": fault.fault.value, "place": fault.place,
        "until": fault.until, "heldS": fault.held_s,
    }  # fmt: skip


FIVE_PODS: Final = tuple(past(f"pod-{n}/x", "POD_LOST") for n in range(PODS_MAX))


def test_what_six_pods_lose_at_one_place_is_charged_to_the_run() -> None:
    found = rescue_decision(make_standing(past=FIVE_PODS), ATTEMPT, by="rescuer", jitter=JITTER)
    assert isinstance(found, Decision)
    assert found.sets["failures"] == {**CHARGED, "app": 2}
    assert found.sets["error"] == error(lost(ATTEMPT, POD), "run")
    assert found.to is Status.DELAYED
    last = rescue_decision(make_standing(past=FIVE_PODS, app=2), ATTEMPT, by="rescuer", jitter=JITTER)
    assert isinstance(last, Decision)
    assert last.to is Status.FAILED


def test_what_six_pods_lose_at_one_place_after_a_long_time_is_charged_to_no_run() -> None:
    before = tuple(replace(each, held_s=1800.0) for each in FIVE_PODS)
    standing = replace(make_standing(past=before), held_s=1800.0)
    found = rescue_decision(standing, ATTEMPT, by="rescuer", jitter=JITTER)
    assert isinstance(found, Decision)
    assert (found.to, found.sets["failures"]) == (Status.QUEUED, {**CHARGED, "infra": 2})
    kept = found.sets["faults"].body["$concatArrays"]
    assert kept[0]["$literal"] == [stored(each) for each in before]
    assert kept[1][0]["$mergeObjects"][0]["heldS"] == {"$literal": 1800.0}


@pytest.mark.parametrize(
    "before",
    [
        FIVE_PODS[1:],  # fewer pods
        tuple(replace(each, place="fit 4/10") for each in FIVE_PODS),  # it got further
        tuple(replace(each, pod=f"pod-7/{n}") for n, each in enumerate(FIVE_PODS)),  # always on this pod
        tuple(replace(each, fault=Fault.OUTSIDE) for each in FIVE_PODS),
    ],
)
def test_what_does_not_follow_the_run_from_pod_to_pod_is_charged_to_no_run(
    before: tuple[PastFault, ...],
) -> None:
    found = rescue_decision(make_standing(past=before), ATTEMPT, by="rescuer", jitter=JITTER)
    assert isinstance(found, Decision)
    assert found.sets["failures"] == {**CHARGED, "infra": 2}


@pytest.mark.parametrize(
    ("code", "fault", "pods", "times"),
    [
        ("KILLED", Fault.POD, (POD, "elsewhere/1"), 3),
        ("KILLED", Fault.POD, (POD,), 8),  # one pod alone may as well be what kills
        ("POD_LOST", Fault.POD, (POD,), 8),
        ("MODEL_UNREACHABLE", Fault.OUTSIDE, (POD,), 12),
    ],
)
def test_what_never_ends_is_charged_to_the_run(
    code: str, fault: Fault, pods: Sequence[str], times: int
) -> None:
    how = End("failed", code, "again", None)
    budget = {Fault.POD: "infra", Fault.OUTSIDE: "outside"}[fault]
    often = tuple(past(pods[n % len(pods)], code, fault=fault) for n in range(times))
    for before, charged in (
        (often[1:], {**CHARGED, budget: CHARGED.get(budget, 0) + 1}),
        (often, {**CHARGED, "app": 2}),
    ):
        found = decided(make_standing(past=before), how)
        assert isinstance(found, Decision)
        assert found.sets["failures"] == charged


@pytest.mark.parametrize(("here", "left_ms"), [(0, 60_000), (1, 120_000), (2, 240_000), (6, 600_000)])
def test_a_pod_that_failed_a_run_by_its_own_fault_leaves_it_to_others_for_longer_each_time(
    here: int, left_ms: int
) -> None:
    before = tuple(past(POD, "DISK_FULL", place=f"{n}") for n in range(here))
    found = decided(make_standing(past=before), End("failed", "DISK_FULL", "no room"))
    assert isinstance(found, Decision)
    earlier = [stored(each) for each in before]
    assert found.sets["faults"] == faults("DISK_FULL", until=in_ms(left_ms), earlier=earlier)


def test_no_more_than_the_last_faults_are_kept() -> None:
    before = tuple(past("other/x", "POD_LOST", place=f"{n}") for n in range(KEPT_MAX + 3))
    found = decided(make_standing(past=before), End("failed", "KILLED", "killed"))
    assert isinstance(found, Decision)
    earlier = [stored(each) for each in before[4:]]
    assert found.sets["faults"] == faults("KILLED", earlier=earlier)
    assert len(earlier) == KEPT_MAX - 1


def test_a_rescue_completes_a_cancel() -> None:
    found = rescue_decision(make_standing(Status.CANCELING), ATTEMPT, by="rescuer", jitter=JITTER)
    assert found == Decision(
        cause=Cause.RESCUE,
        to=Status.CANCELED,
        by="rescuer",
        sets={"failures": CHARGED, "finishedAt": ServerTime()},
        silent=SILENT_AT_RESCUE,
    )


def test_jitter_spreads_what_is_tried_again() -> None:
    lost_twice = tuple(past(f"pod-{n}/x", "POD_LOST") for n in range(2))
    run = make_standing(app=8, infra=0, max_attempts=99, past=lost_twice)
    for jitter, share in ((0.0, 0.5), (0.5, 0.75)):
        failed = end_decision(run, 1, BROKEN, by=BY, jitter=jitter)
        taken = rescue_decision(run, 1, by=BY, jitter=jitter)
        assert isinstance(failed, Decision)
        assert isinstance(taken, Decision)
        assert failed.sets["notBefore"] == ServerTime(BACK_OFF_MAX_S * share)
        assert taken.sets["notBefore"] == ServerTime(2.0 * share)


def test_a_settle_leaves_what_the_worker_knows() -> None:
    assert settled(BROKEN, 7, "r") == {
        "outcome": "failed",
        "code": "BROKEN",
        "message": "it broke",
        "last": Expression({"$max": [7, "$lastEventSeq"]}),
        "root": "r",
        "at": ServerTime(),
    }


@pytest.mark.parametrize("how", ENDS, ids=lambda how: how.outcome)
@pytest.mark.parametrize("status", sorted(HELD))
def test_a_settle_of_a_held_run_is_its_end_with_a_note(status: Status, how: End) -> None:
    run = make_standing(status)
    alone = decided(run, how)
    assert isinstance(alone, Decision)
    assert settle_decision(run, ATTEMPT, how, 7, by=BY, jitter=JITTER, root="r") == Decision(
        cause=alone.cause,
        to=alone.to,
        by=BY,
        sets={**alone.sets, "settled": settled(how, 7, "r")},
        silent={**SILENT, "logOpen": Expression({"$lt": ["$lastEventSeq", 7]}), "tokens": TOKENS_CLOSED},
    )


@pytest.mark.parametrize("how", ENDS, ids=lambda how: how.outcome)
@pytest.mark.parametrize("status", sorted(set(Status) - HELD))
def test_a_settle_that_comes_after_the_end_only_leaves_its_note(status: Status, how: End) -> None:
    assert settle_decision(
        make_standing(status), ATTEMPT, how, 7, by=BY, jitter=JITTER, root="r"
    ) == Decision(
        cause=Cause.SETTLED,
        to=status,
        by=BY,
        sets={"settled": settled(how, 7, "r")},
        silent={"logOpen": Expression({"$lt": ["$lastEventSeq", 7]}), "tokens": TOKENS_CLOSED},
    )


def test_what_is_written_beside_every_end() -> None:
    assert RELEASED == LEASE_RELEASED
    assert ENDING == TOKENS_ENDING
    assert timedelta(days=7) == TOKEN_LIFE


def test_an_end_is_no_more_than_its_outcome_where_nobody_says_more() -> None:
    assert End("completed") == End("completed", code=None, message=None, stage=None, retryable=False)


def test_an_end_stays_as_it_was_told() -> None:
    how: Any = replace(COMPLETED)
    with pytest.raises(FrozenInstanceError):
        how.outcome = "failed"
    with pytest.raises(AttributeError):
        object.__setattr__(how, "opinion", "none of the end")
    assert how == COMPLETED


@pytest.fixture
def runs() -> Any:
    """A store whose run has had two tokens, of which the first has ended, and waits an hour at most."""
    db = sync_database(ReplicaSet(lambda: EPOCH), "test")
    fields = {
        "status": "RUNNING", "classKey": "c", "priority": 0, "queuedAt": EPOCH, "notBefore": None,
        "queueDeadline": None, "maxAttempts": 3, "queueLimitS": 3_600,
    }  # fmt: skip
    db.runs.update_one({"_id": "r"}, creation(fields, by="me"), upsert=True)
    held = {
        "attempt": 2,
        "lastEventSeq": 6,
        "logOpen": True,
        "claimedBy": "pod/1",
        "claimedAt": EPOCH,
        "lease": {"tokenHash": "hash-2", "until": EPOCH, "renewals": 4, "heard": 1, "ttlS": 60.0},
        "tokens": [
            {"attempt": 1, "hash": "hash-1", "keyId": None, "endsAt": EPOCH},
            {"attempt": 2, "hash": "hash-2", "keyId": "key", "endsAt": None},
        ],
    }
    db.runs.update_one({"_id": "r"}, {"$set": held})
    return db.runs


def settle(runs: Any, decision: Decision | Illegal) -> dict[str, Any]:
    assert isinstance(decision, Decision)
    runs.update_one({"_id": "r"}, update(decision))
    found: dict[str, Any] = runs.find_one({"_id": "r"})
    return found


def test_a_token_outlives_its_attempt_by_a_week_and_one_that_has_ended_stays_ended(runs: Any) -> None:
    run = settle(runs, decided(make_standing(), COMPLETED))
    assert run["tokens"] == [
        {"attempt": 1, "hash": "hash-1", "keyId": None, "endsAt": EPOCH},
        {"attempt": 2, "hash": "hash-2", "keyId": "key", "endsAt": EPOCH + timedelta(days=7)},
    ]


@pytest.mark.parametrize(("said", "last"), [(9, 9), (2, 6)])  # never below what was applied
def test_the_token_of_a_settled_attempt_says_for_good_where_its_log_ends(
    runs: Any, said: int, last: int
) -> None:
    for how in (COMPLETED, GIVEN_UP):  # the second one finds the end decided
        status = Status(runs.find_one({"_id": "r"})["status"])
        decision = settle_decision(make_standing(status), 2, how, said, by=BY, jitter=JITTER)
        run = settle(runs, decision)
        assert [each.get("last") for each in run["tokens"]] == [None, last]
    assert [each["endsAt"] for each in run["tokens"]] == [EPOCH, EPOCH + timedelta(days=7)]


def test_a_run_from_before_there_were_tokens_ends_with_none(runs: Any) -> None:
    runs.update_one({"_id": "r"}, {"$unset": {"tokens": ""}})
    assert settle(runs, decided(make_standing(), COMPLETED))["tokens"] == []


def test_a_settled_run_keeps_the_token_of_its_lease_and_nothing_that_runs(runs: Any) -> None:
    run = settle(runs, decided(make_standing(), COMPLETED))
    assert run["lease"] == {"tokenHash": "hash-2", "until": None, "renewals": 4}


def test_a_rescued_run_keeps_nothing_of_its_lease(runs: Any) -> None:
    run = settle(runs, rescue_decision(make_standing(), 2, by="rescuer", jitter=0.0))
    assert (run["lease"], run["logOpen"], run["claimedBy"], run["claimedAt"]) == (None, False, None, None)


@pytest.mark.parametrize(
    ("how", "wait_s"), [(PREEMPTED, 0), (BROKEN, 3)], ids=["given back", "tried again later"]
)
def test_each_wait_has_the_whole_limit_from_the_moment_it_begins(runs: Any, how: End, wait_s: int) -> None:
    run = settle(runs, decided(make_standing(), how))
    begins = EPOCH + timedelta(seconds=wait_s)
    assert run["queueDeadline"] == begins + timedelta(hours=1)
    assert run["notBefore"] == (begins if wait_s else None)


@pytest.mark.parametrize(("last", "is_open"), [(5, False), (6, False), (7, True)])
def test_a_log_stays_open_while_events_before_the_last_are_missing(
    runs: Any, last: int, is_open: bool
) -> None:
    run = settle(runs, settle_decision(make_standing(), 2, COMPLETED, last, by=BY, jitter=0.0))
    assert run["logOpen"] is is_open
    note = {"outcome": "completed", "code": None, "message": None, "root": None, "at": EPOCH}
    note["last"] = max(last, 6)  # what was applied belongs to the record
    assert run["settled"] == run["journal"][-1]["set"]["settled"] == note
