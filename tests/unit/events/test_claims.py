"""The statements of a claim, each whole, and what they make of a run on the simulation's store."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.lifecycle import Cause, Ending, Failures, Fault, PastFault, Standing, Status, end
from events.queue.claims import (
    CLAIM_ORDER,
    ORDERS,
    SETTLE_TRIES_MAX,
    Claim,
    Node,
    Orders,
    claim_decision,
    claim_of,
    claimed_with,
    extension,
    held,
    orders_of,
    owned,
    past_faults,
    settling,
    standing_of,
    taking,
    waiting_in,
)
from events.queue.journal import Decision, Expression, ServerTime, creation, update
from events.queue.lease_times import LEASE_TTL_S
from events.queue.matching import WaitingClass
from events.queue.notes import Note
from events.queue.settlement import End, settle_decision
from events.testing import EPOCH, RUN_ID, SeededIds
from events.text.key_text import digest, letters, read_run_token
from events.text.trace import traceparent_of
from testing.simulation.store.driver import sync_database
from testing.simulation.store.matching import matches
from testing.simulation.store.replica_set import ReplicaSet

TOKEN: Final = letters(SeededIds().token())
HASH: Final = digest(TOKEN)
POD: Final = "pod/1"
CLASS: Final = "probe/cpu/any"
TTL_S: Final = 60.0
SHORT_S: Final = 45.0  # not the usual length of a lease
HELD: Final = ["AUTO_VALIDATING", "CANCELING", "RUNNING", "SCHEDULED"]
TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
IN_A_TERM: Final = {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": 60_000}}
NEXT_ATTEMPT: Final = {"$add": ["$attempt", 1]}

ids = st.sampled_from(["a", "b"])
attempts = st.integers(1, 2)


def make_stored(**fields: Any) -> dict[str, Any]:
    """Return a stored run that its second attempt holds."""
    return {
        "_id": RUN_ID,
        "kind": "probe",
        "status": "RUNNING",
        "attempt": 2,
        "failures": {"app": 1, "infra": 2, "preempted": 3},
        "maxAttempts": 4,
        "review": "none",
        "claimedBy": POD,
        "hypothesisId": "h-1",
        "paused": False,
        "notes": [],
        "currentStage": {"name": "fit", "progress": 0.39, "activity": None},
        "faults": [{"pod": "pod/0", "code": "KILLED", "fault": "pod", "place": None, "until": EPOCH}],
        **fields,
    }


def make_note(number: int) -> dict[str, Any]:
    """Return a note as it is stored."""
    return {"number": number, "at": EPOCH, "by": f"user:{number}", "text": f"note {number}"}


def made(run: dict[str, Any], stored: dict[str, Any] | None) -> Claim:
    return claim_of(run, stored, collection="runs", token=TOKEN, lease_s=SHORT_S)


def in_order(filter_: dict[str, Any]) -> dict[str, Any]:
    """Return a filter with its list of statuses, which stands for a set, in order."""
    (operator, statuses), *rest = filter_["status"].items()
    assert rest == []
    return {**filter_, "status": {operator: sorted(statuses)}}


def test_the_head_of_a_class_has_the_highest_priority_and_waits_longest() -> None:
    assert CLAIM_ORDER == [("priority", -1), ("queuedAt", 1), ("_id", 1)]


def test_a_settlement_is_tried_again_in_a_bounded_number() -> None:
    assert SETTLE_TRIES_MAX == 50


def test_orders_are_read_from_these_fields_and_no_other() -> None:
    names = ("status", "attempt", "paused", "notes", "startAt", "node", "preempt", "lease.until")
    assert dict.fromkeys(names, 1) == ORDERS
    until = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    whole = make_stored(
        status="CANCELING",
        paused=True,
        notes=[make_note(1)],
        startAt=until,
        node=None,
        preempt=None,
        lease={"until": until},
    )
    read = {name.partition(".")[0] for name in ORDERS}
    known = orders_of({name: whole[name] for name in read}, extended_s=60.0)
    assert known == orders_of(whole, extended_s=60.0)
    assert (known.start_at, known.now) == (until, until - timedelta(seconds=60))
    assert (orders_of(make_stored()).start_at, orders_of(make_stored()).now) == (None, None)


def test_what_a_node_is_told_is_for_one_attempt() -> None:
    at = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    told = {"attempt": 2, "rank": 1, "nodes": 3, "address": "a:1"}
    now = orders_of(make_stored(attempt=2, startAt=at, node=told, preempt={"attempt": 2, "waitS": 5.0}))
    assert (now.start_at, now.node, now.preempt) == (at, Node(1, 3, "a:1"), True)
    later = orders_of(make_stored(attempt=3, startAt=at, node=told, preempt={"attempt": 2, "waitS": 5.0}))
    assert (later.start_at, later.node, later.preempt) == (None, None, False)


def test_how_long_a_run_is_held_is_told_by_the_renewals_of_its_lease() -> None:
    lease = {"tokenHash": "h", "until": EPOCH, "renewals": 60}
    assert standing_of(make_stored(lease={**lease, "ttlS": 6.0})).held_s == 60.0
    assert standing_of(make_stored(lease=lease)).held_s == 600.0, "claims of earlier releases say no length"
    assert standing_of(make_stored(lease=None)).held_s == 0.0
    assert (
        past_faults([{"pod": "a/1", "code": "K", "fault": "pod", "place": None, "until": None}])[0].held_s
        == 0
    )


def test_an_attempt_that_was_ordered_to_give_its_pod_back_waits_and_is_charged_to_nothing() -> None:
    ordered = make_stored(status="RUNNING", attempt=2, preempt={"attempt": 2, "waitS": 5.0})
    ending = end(standing_of(ordered), "preempted", retryable=False, jitter=0.0)
    assert isinstance(ending, Ending)
    assert (ending.to, ending.failures.preempted, ending.delay_s) == (Status.DELAYED, 3, 5.0)
    ending = end(standing_of({**ordered, "attempt": 3}), "preempted", retryable=False, jitter=0.0)
    assert isinstance(ending, Ending)
    assert (ending.to, ending.failures.preempted) == (Status.QUEUED, 4)


def test_the_filters_name_the_term_and_its_proof() -> None:
    own = {"_id": RUN_ID, "attempt": 2, "lease.tokenHash": HASH}
    here = {"$and": [{"$eq": ["$$this.pod", {"$literal": "pod/1"}]}, {"$gt": ["$$this.until", "$$NOW"]}]}
    left = {"$filter": {"input": {"$ifNull": ["$faults", []]}, "cond": here}}
    assert waiting_in(WaitingClass("runs", CLASS, 5), "pod/1/slot") == {
        "status": "QUEUED",
        "classKey": CLASS,
        "$expr": {"$eq": [{"$size": left}, 0]},
    }
    assert owned(RUN_ID, 2, TOKEN) == own
    assert in_order(held(RUN_ID, 2, TOKEN)) == {**own, "status": {"$in": HELD}}
    assert in_order(claimed_with(TOKEN)) == {"lease.tokenHash": HASH, "status": {"$in": HELD}}


def test_a_claim_leaves_nothing_of_the_attempt_before_it() -> None:
    assert claim_decision(TOKEN, POD, TTL_S, key_id="key-1") == Decision(
        cause=Cause.CLAIM,
        to=Status.SCHEDULED,
        by=POD,
        sets={
            "attempt": Expression(NEXT_ATTEMPT),
            "claimedBy": POD,
            "claimedAt": ServerTime(),
            "lastEventSeq": 0,
            "currentStage": None,
            "startedAt": None,
            "validation": None,
            "settled": None,
            "error": None,
        },
        silent={
            "lease": {
                "tokenHash": HASH,
                "until": ServerTime(TTL_S),
                "renewals": 0,
                "heard": Expression({"$add": ["$revision", 1]}),
                "ttlS": TTL_S,
            },
            "tokens": Expression(
                {
                    "$concatArrays": [
                        {
                            "$filter": {
                                "input": {"$ifNull": ["$tokens", []]},
                                "cond": {
                                    "$or": [
                                        {"$eq": ["$$this.endsAt", None]},
                                        {"$gt": ["$$this.endsAt", "$$NOW"]},
                                    ]
                                },
                            }
                        },
                        [
                            {
                                "attempt": NEXT_ATTEMPT,
                                "hash": HASH,
                                "keyId": {"$literal": "key-1"},
                                "endsAt": None,
                            }
                        ],
                    ]
                }
            ),
            "logOpen": True,
            "logIncomplete": None,
        },
    )


@pytest.mark.parametrize("key_id", [None, "key-1", "$key"])
def test_a_pod_takes_a_run_by_the_update_of_that_decision(key_id: str | None) -> None:
    expected = update(claim_decision(TOKEN, POD, TTL_S, key_id=key_id))
    assert taking(TOKEN, POD, TTL_S, key_id=key_id) == expected
    (stage,) = expected
    ((opened,),) = stage["$set"]["tokens"]["$concatArrays"][1:]
    assert opened["keyId"] == {"$literal": key_id}


def test_a_pod_with_a_database_of_its_own_shows_no_key() -> None:
    assert claim_decision(TOKEN, POD, TTL_S) == claim_decision(TOKEN, POD, TTL_S, key_id=None)
    assert taking(TOKEN, POD, TTL_S) == taking(TOKEN, POD, TTL_S, key_id=None)


def test_a_renewal_extends_the_lease_and_hears_of_every_decision_until_now() -> None:
    assert extension(TTL_S) == [
        {
            "$set": {
                "lease": {
                    "$mergeObjects": [
                        "$lease",
                        {
                            "until": IN_A_TERM,
                            "renewals": {"$add": ["$lease.renewals", 1]},
                            "heard": "$revision",
                        },
                    ]
                }
            }
        }
    ]


@pytest.mark.parametrize("status", list(Status))
def test_a_cancel_is_ordered_by_the_status_alone(status: Status) -> None:
    found = orders_of(make_stored(status=status.value))
    assert found == Orders(cancel=status is Status.CANCELING, paused=False, notes=())


@pytest.mark.parametrize(
    ("fields", "is_paused"), [({"paused": True}, True), ({"paused": False}, False), ({"paused": None}, False)]
)
def test_a_pause_is_an_order_and_the_past_of_a_claim(fields: dict[str, Any], is_paused: bool) -> None:
    assert orders_of(make_stored(**fields)) == Orders(cancel=False, paused=is_paused, notes=())
    assert made(make_stored(**fields), None).paused is is_paused


def test_notes_are_told_oldest_first_each_with_its_number_text_and_author() -> None:
    run = make_stored(notes=[make_note(1), make_note(2)])
    told = (Note(1, "note 1", "user:1"), Note(2, "note 2", "user:2"))
    assert orders_of(run) == Orders(cancel=False, paused=False, notes=told)
    assert made(run, None).notes == told


@pytest.mark.parametrize("notes", [None, []])
def test_a_run_without_notes_has_none_to_tell(notes: list[Any] | None) -> None:
    assert orders_of(make_stored(notes=notes)).notes == ()


def test_a_run_from_before_people_could_steer_is_steered_by_nobody() -> None:
    run = make_stored()
    del run["paused"], run["notes"]
    assert orders_of(run) == Orders() == Orders(cancel=False, paused=False, notes=())
    assert (made(run, None).paused, made(run, None).notes) == (False, ())


def test_a_claim_has_everything_that_the_run_and_its_specification_say() -> None:
    run = make_stored(paused=True, notes=[make_note(1)])
    spec = {"spec": {"seconds": 3}, "fromStage": "Stage_2", "traceparent": TRACE}
    assert made(run, spec) == Claim(
        collection="runs",
        run_id=RUN_ID,
        attempt=2,
        token=TOKEN,
        kind="probe",
        spec={"seconds": 3},
        hypothesis_id="h-1",
        from_stage="Stage_2",
        paused=True,
        notes=(Note(1, "note 1", "user:1"),),
        traceparent=traceparent_of(TRACE, f"{RUN_ID}/a2"),
        lease_s=SHORT_S,
    )


@pytest.mark.parametrize("stored", [None, {}, {"spec": {}, "fromStage": None, "traceparent": None}])
def test_a_claim_without_a_specification_has_nothing_to_do_and_a_trace_of_its_own(
    stored: dict[str, Any] | None,
) -> None:
    assert made(make_stored(), stored) == Claim(
        collection="runs",
        run_id=RUN_ID,
        attempt=2,
        token=TOKEN,
        kind="probe",
        spec={},
        hypothesis_id="h-1",
        from_stage=None,
        paused=False,
        notes=(),
        traceparent=traceparent_of(None, f"{RUN_ID}/a2"),
        lease_s=SHORT_S,
    )


def make_claim(**fields: Any) -> Claim:
    """Return a first attempt as its claim tells it, with nothing but what every claim has."""
    given = {"run_id": RUN_ID, "attempt": 1, "token": TOKEN, "kind": "probe", "spec": {}}
    return Claim(**{"collection": "runs", "hypothesis_id": None, **given, **fields})


def test_a_claim_has_no_more_than_it_was_given_and_the_usual_lease() -> None:
    whole = {"from_stage": None, "paused": False, "notes": (), "traceparent": None, "lease_s": LEASE_TTL_S}
    assert make_claim() == make_claim(**whole)


def test_a_claim_and_its_orders_stay_as_they_were_read() -> None:
    for read, name in ((make_claim(), "attempt"), (Orders(), "cancel")):
        with pytest.raises(FrozenInstanceError):
            setattr(read, name, 7)
        with pytest.raises(AttributeError):
            object.__setattr__(read, "opinion", "nothing that was read")
    assert (make_claim(), Orders()) == (make_claim(attempt=1), Orders(cancel=False))


def test_a_claim_that_is_shown_keeps_its_token_to_itself() -> None:
    claim = make_claim()
    assert TOKEN not in repr(claim)
    assert "token" not in repr(claim)
    assert RUN_ID in repr(claim)


def test_the_run_token_names_the_attempt_and_proves_it() -> None:
    claim = make_claim(attempt=3)
    assert read_run_token(claim.run_token) == (RUN_ID, 3, TOKEN)


@pytest.mark.parametrize(
    ("attempt", "from_stage", "has_past"),
    [(1, None, False), (2, None, True), (3, None, True), (1, "Stage_2", True), (2, "Stage_2", True)],
)
def test_only_a_later_attempt_or_the_retry_of_a_part_has_a_past(
    attempt: int, from_stage: str | None, has_past: bool
) -> None:
    assert make_claim(attempt=attempt, from_stage=from_stage).has_past is has_past


BROKEN: Final = End("failed", "BROKEN", "it broke", "fit", retryable=True)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("how", [End("completed"), BROKEN, End("preempted")], ids=lambda how: how.outcome)
def test_an_owner_settles_as_its_run_stands(status: Status, how: End) -> None:
    standing = Standing(
        status, Failures(1, 2, 3), max_attempts=4, review=False, pod="pod/1", place="fit 3/10",
        past=(PastFault("pod/0", "KILLED", Fault.POD, None, EPOCH),),
    )  # fmt: skip
    expected = settle_decision(standing, 2, how, 9, by="pod/1#a2", jitter=0.25)
    assert settling(make_stored(status=status.value), how, 9, jitter=0.25) == update(expected)


@pytest.mark.parametrize(
    ("review", "to"), [("human", "AWAITING_HUMAN"), ("none", "COMPLETED"), ("auto", "COMPLETED")]
)
def test_only_what_a_person_shall_review_waits_for_one(review: str, to: str) -> None:
    (stage,) = settling(make_stored(review=review), End("completed"), 9, jitter=0.0)
    assert stage["$set"]["status"] == {"$literal": to}


@pytest.mark.parametrize("pod", [None, ""])
def test_who_settles_a_run_that_nobody_has_any_more_is_a_worker_of_that_term(pod: str | None) -> None:
    (stage,) = settling(make_stored(claimedBy=pod, status="QUEUED"), BROKEN, 9, jitter=0.0)
    ((entry,),) = stage["$set"]["journal"]["$concatArrays"][1:]
    assert entry["by"] == {"$literal": "worker#a2"}


@pytest.fixture
def runs() -> Any:
    """An empty queue, whose store stands at the epoch."""
    return sync_database(ReplicaSet(lambda: EPOCH), "test").runs


def submit(runs: Any, run_id: str, *, priority: int = 0, waited_s: int = 0, class_key: str = CLASS) -> None:
    fields = {
        "kind": "probe", "status": "QUEUED", "classKey": class_key, "priority": priority,
        "queuedAt": EPOCH - timedelta(seconds=waited_s), "notBefore": None, "queueDeadline": None,
        "maxAttempts": 3, "review": "none", "hypothesisId": None, "queueLimitS": 3_600,
    }  # fmt: skip
    runs.update_one({"_id": run_id}, creation(fields, by="me"), upsert=True)


def take(runs: Any, class_key: str = CLASS, *, token: str = TOKEN, pod: str = POD) -> Any:
    return runs.find_one_and_update(
        waiting_in(WaitingClass("runs", class_key, 0), pod),
        taking(token, pod, TTL_S),
        sort=CLAIM_ORDER,
        return_document=True,
    )


@pytest.mark.parametrize(
    ("pod", "until", "is_taken"),
    [
        ("pod/1", timedelta(seconds=1), False),
        ("pod/1/slot", timedelta(seconds=1), False),
        ("pod/1", timedelta(0), True),  # its time is over
        ("pod/1", None, True),  # a fault that keeps it from nothing
        ("pod/2", timedelta(seconds=1), True),  # started again
        ("other/1", timedelta(seconds=1), True),
        ("$faults.pod", timedelta(seconds=1), True),  # a name is no expression
    ],
)
def test_a_run_is_left_to_others_by_the_pod_that_failed_it(
    runs: Any, pod: str, until: timedelta | None, is_taken: bool
) -> None:
    submit(runs, "failed-here", priority=1)
    submit(runs, "next")
    fault = {"pod": "pod/1", "code": "DISK_FULL", "fault": "pod", "place": None}
    fault["until"] = None if until is None else EPOCH + until
    runs.update_one({"_id": "failed-here"}, {"$set": {"faults": [fault]}})
    assert take(runs, pod=pod)["_id"] == ("failed-here" if is_taken else "next")


def test_claims_take_the_runs_of_a_class_in_its_order(runs: Any) -> None:
    submit(runs, "late")
    submit(runs, "later-by-name", waited_s=5)
    submit(runs, "early-by-name", waited_s=5)
    submit(runs, "urgent", priority=1)
    submit(runs, "foreign", priority=9, class_key="probe/80/any")
    taken = [take(runs, token=f"token-{number}")["_id"] for number in range(4)]
    assert taken == ["urgent", "early-by-name", "later-by-name", "late"]
    assert take(runs) is None


def test_a_claim_makes_a_run_the_pods_own(runs: Any) -> None:
    submit(runs, "r")
    left = {
        "attempt": 1, "lastEventSeq": 8, "currentStage": {"name": "x"}, "startedAt": EPOCH, "error": {"a": 1},
        "validation": {"verdict": "pass"}, "settled": {"last": 8}, "logOpen": False, "revision": 5,
        "logIncomplete": {"from": 1, "to": 2},
        "tokens": [
            {"attempt": -1, "hash": "over", "keyId": None, "endsAt": EPOCH},
            {"attempt": 0, "hash": "open", "keyId": None, "endsAt": EPOCH + timedelta(milliseconds=1)},
            {"attempt": 1, "hash": "never ended", "keyId": "k", "endsAt": None},
        ],
    }  # fmt: skip
    runs.update_one({"_id": "r"}, {"$set": left})
    before = runs.find_one({"_id": "r"})
    run = take(runs)
    sets = {
        "attempt": 2, "claimedBy": POD, "claimedAt": EPOCH, "lastEventSeq": 0, "currentStage": None,
        "startedAt": None, "validation": None, "settled": None, "error": None,
    }  # fmt: skip
    entry = {
        "n": 6, "cause": "claim", "by": POD, "at": EPOCH, "from": "QUEUED", "to": "SCHEDULED", "attempt": 1,
        "seq": 8, "set": sets,
    }  # fmt: skip
    until = EPOCH + timedelta(seconds=TTL_S)
    assert run == {
        **before,
        **sets,
        "status": "SCHEDULED",
        "revision": 6,
        "journal": [*before["journal"], entry],
        "lease": {"tokenHash": HASH, "until": until, "renewals": 0, "heard": 6, "ttlS": TTL_S},
        "tokens": [*left["tokens"][1:], {"attempt": 2, "hash": HASH, "keyId": None, "endsAt": None}],
        "logOpen": True,
        "logIncomplete": None,
    }


def test_a_renewal_changes_the_lease_alone(runs: Any) -> None:
    submit(runs, "r")
    run = take(runs)
    runs.update_one({"_id": "r"}, {"$set": {"revision": 9}})
    runs.update_one(held("r", 1, TOKEN), extension(90.0))
    until = EPOCH + timedelta(seconds=90)
    lease = {**run["lease"], "until": until, "renewals": 1, "heard": 9}
    assert runs.find_one({"_id": "r"}) == {**run, "revision": 9, "lease": lease}


def test_a_settled_run_is_still_owned_and_no_more_held(runs: Any) -> None:
    submit(runs, "r")
    run = take(runs)
    runs.update_one(held("r", 1, TOKEN), settling(run, End("completed"), 0, jitter=0.0))
    settled = runs.find_one({"_id": "r"})
    assert settled["status"] == "COMPLETED"
    assert runs.find_one(owned("r", 1, TOKEN)) == settled
    assert runs.find_one(held("r", 1, TOKEN)) is None
    assert runs.find_one(claimed_with(TOKEN)) is None


@given(
    mine=st.tuples(ids, attempts, ids),
    other=st.tuples(ids, attempts, ids),
    status=st.sampled_from(list(Status)),
)
def test_a_filter_finds_the_run_of_its_own_term_alone(
    mine: tuple[str, int, str], other: tuple[str, int, str], status: Status
) -> None:
    run_id, attempt, token = other
    lease = {"tokenHash": digest(token)}
    run = {"_id": run_id, "attempt": attempt, "status": status.value, "lease": lease}
    is_held = status.value in HELD
    assert matches(run, owned(*mine), EPOCH) == (mine == other)
    assert matches(run, held(*mine), EPOCH) == (mine == other and is_held)
    assert matches(run, claimed_with(mine[2]), EPOCH) == (mine[2] == token and is_held)
