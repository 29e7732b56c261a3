"""What an attempt's end is: every word weighed against every other, and what is left of the loser."""

from __future__ import annotations

import signal
from dataclasses import FrozenInstanceError
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.catalog import RunCanceled, RunCompleted, RunFailed, RunPreempted
from events.kinds.declaring.fact import Fact
from pod_worker.attempt.settlement import Evidence, Order, final_fact, obeyed, without_files
from pod_worker.child.exit_status import Exited, NeverStarted, Signalled, TimedOut, failure_for

COMPLETED = RunCompleted(summary="all done")
FAILED = RunFailed(
    code="BAD_DATA", message="row 7 is empty", stage="load", traceback="line 3", retryable=True
)
CANCELED = RunCanceled(reason="its own word")
PREEMPTED = RunPreempted(reason="its own word")
OBSTACLE = RunFailed(
    code="OUTBOX_FULL", message="no room", stage="elsewhere", traceback="line 9", retryable=True
)
TIMEOUT = TimedOut("total", 90.0)
DIED = Exited(3)

# What our own parts say, whatever the child said.
OBEYED: dict[Order, Fact] = {
    "cancel": RunCanceled(reason="canceled on request"),
    "preempt": RunPreempted(reason="the pod is going away"),
}
HINDERED = RunFailed(code="OUTBOX_FULL", message="no room", stage="fit", traceback="line 9", retryable=True)
OVERDUE = RunFailed(
    code="TIMEOUT",
    message="the pipeline was ended at its total limit of 90 s",
    stage="fit",
    traceback=None,
    retryable=True,
)
FOREIGN = RunFailed(
    code="KILLED",
    message="somebody outside the run told its process to stop",
    stage="fit",
    traceback=None,
    retryable=True,
)
DEAD = RunFailed(
    code="EXITED",
    message="the pipeline's process exited with status 3 and reported no end",
    stage="fit",
    traceback="last words",
    retryable=False,
)

SAID: list[Fact | None] = [None, COMPLETED, FAILED, CANCELED, PREEMPTED]
ORDERS: list[Order | None] = [None, "cancel", "preempt"]

facts = st.sampled_from(SAID)
orders = st.sampled_from(ORDERS)
stages = st.sampled_from([None, "fit", "test"])
ends = st.one_of(
    st.builds(Exited, st.integers(0, 255)),
    st.builds(Signalled, st.integers(1, 64)),
    st.builds(NeverStarted, st.just(30.0), st.sampled_from([None, Exited(1), Signalled(9)])),
)
limits = st.one_of(
    st.none(), st.builds(TimedOut, st.sampled_from(["start", "total", "no progress"]), st.just(9.0))
)
evidences = st.builds(
    Evidence,
    end=ends,
    reported=facts,
    ordered=orders,
    timed_out=limits,
    obstacle=st.sampled_from([None, OBSTACLE]),
    oom_evidence=st.booleans(),
    stage=stages,
    last_words=st.sampled_from(["", "last words"]),
)


def make_evidence(**known: Any) -> Evidence:
    """Return what is known of a child that died in its stage `fit`, and `known` besides."""
    return Evidence(**{"end": DIED, "stage": "fit", "last_words": "last words", **known})


def weighed(said: Fact | None, ordered: Order | None, *, hindered: bool, late: bool) -> Fact:
    """Return the fact that must come out: the first of these that is there, the strongest first."""
    ranking = [
        said if said == COMPLETED and not hindered else None,
        OBEYED[ordered] if ordered else None,
        HINDERED if hindered else None,
        OVERDUE if late else None,
        FOREIGN if said == CANCELED else None,
        said,
        DEAD,
    ]
    return next(each for each in ranking if each is not None)


@pytest.mark.parametrize(
    ("said", "ordered", "hindered", "late"), list(product(SAID, ORDERS, (False, True), (False, True)))
)
def test_the_strongest_word_is_the_end(
    said: Fact | None, ordered: Order | None, hindered: bool, late: bool
) -> None:
    evidence = make_evidence(
        reported=said,
        ordered=ordered,
        obstacle=OBSTACLE if hindered else None,
        timed_out=TIMEOUT if late else None,
    )
    assert final_fact(evidence) == weighed(said, ordered, hindered=hindered, late=late)


def test_a_result_counts_whatever_was_ordered_and_however_the_process_went() -> None:
    evidence = make_evidence(
        reported=COMPLETED, ordered="cancel", timed_out=TIMEOUT, end=Signalled(9), oom_evidence=True
    )
    assert final_fact(evidence) == COMPLETED


def test_a_result_behind_a_hole_in_the_log_is_no_result() -> None:
    assert final_fact(make_evidence(reported=COMPLETED, obstacle=OBSTACLE)) == HINDERED


@pytest.mark.parametrize("order", ["cancel", "preempt"])
def test_a_failure_that_our_order_caused_is_obedience(order: Order) -> None:
    assert final_fact(make_evidence(reported=FAILED, ordered=order)) == OBEYED[order]
    assert final_fact(make_evidence(end=Signalled(9), ordered=order)) == OBEYED[order]


def test_a_failure_that_nobody_ordered_is_told_in_the_childs_own_words() -> None:
    assert final_fact(make_evidence(reported=FAILED)) is FAILED


def test_a_child_that_gave_itself_back_is_believed() -> None:
    assert final_fact(make_evidence(reported=PREEMPTED)) is PREEMPTED


@pytest.mark.parametrize("stage", [None, "fit"])
def test_every_failure_of_ours_names_the_stage_in_which_it_struck(stage: str | None) -> None:
    found = [
        final_fact(make_evidence(obstacle=OBSTACLE, stage=stage)),
        final_fact(make_evidence(timed_out=TIMEOUT, stage=stage)),
        final_fact(make_evidence(reported=CANCELED, stage=stage)),
        final_fact(make_evidence(stage=stage)),
        without_files("2 files", None, stage),
    ]
    assert [each.stage for each in found if isinstance(each, RunFailed)] == [stage] * 5


def test_the_limit_that_ended_a_child_leaves_no_last_words() -> None:
    evidence = make_evidence(timed_out=TimedOut("no progress", 5.0), oom_evidence=True, end=Signalled(9))
    assert final_fact(evidence) == RunFailed(
        code="NO_PROGRESS",
        message="the pipeline showed no progress for 5 s and was ended",
        stage="fit",
        traceback=None,
        retryable=True,
    )


@pytest.mark.parametrize(
    ("oom_evidence", "code", "message", "retryable"),
    [
        (True, "OUT_OF_MEMORY", "the machine's memory was full, and the kernel ended the pipeline", False),
        (False, "KILLED", "somebody outside the run ended its process (SIGKILL)", True),
    ],
)
def test_a_death_without_a_word_is_judged_by_its_own_evidence(
    oom_evidence: bool, code: str, message: str, retryable: bool
) -> None:
    evidence = make_evidence(end=Signalled(signal.SIGKILL), oom_evidence=oom_evidence)
    assert final_fact(evidence) == RunFailed(
        code=code, message=message, stage="fit", traceback="last words", retryable=retryable
    )


def test_a_child_that_only_died_leaves_just_that() -> None:
    assert final_fact(Evidence(end=DIED)) == RunFailed(
        code="EXITED", message=DEAD.message, stage=None, traceback=None, retryable=False
    )


def test_nothing_is_known_that_nobody_said() -> None:
    assert Evidence(end=DIED) == Evidence(
        end=DIED,
        reported=None,
        ordered=None,
        timed_out=None,
        obstacle=None,
        oom_evidence=False,
        stage=None,
        last_words="",
    )


def test_evidence_is_named_whole_and_stays_as_it_was_gathered() -> None:
    evidence: Any = make_evidence()
    with pytest.raises(FrozenInstanceError):
        evidence.stage = "another"
    with pytest.raises(AttributeError):
        object.__setattr__(evidence, "opinion", "none of the evidence")
    with pytest.raises(TypeError):
        Evidence(DIED, COMPLETED)  # type: ignore[misc]
    assert evidence == make_evidence()


def test_each_order_that_there_is_has_its_end() -> None:
    assert list(get_args(Order)) == list(OBEYED)


@pytest.mark.parametrize("order", ["cancel", "preempt"])
def test_an_order_that_was_obeyed_has_one_end(order: Order) -> None:
    assert obeyed(order) == OBEYED[order]
    assert type(obeyed(order)) is type(OBEYED[order])


@pytest.mark.parametrize("order", ["cancel", "preempt"])
def test_files_that_an_order_kept_from_storage_are_no_failure(order: Order) -> None:
    assert without_files("2 files", order, "fit") == OBEYED[order]


def test_files_that_cannot_be_kept_are_the_runs_own_failure() -> None:
    assert without_files("a link", None, "fit", is_own=True) == RunFailed(
        code="ARTIFACT_REFUSED", message="a link", stage="fit", traceback=None, retryable=True
    )


def test_files_that_did_not_reach_storage_are_a_failure_that_may_be_tried_again() -> None:
    assert without_files("2 files", None, "fit") == RunFailed(
        code="ARTIFACT_UPLOAD_FAILED", message="2 files", stage="fit", traceback=None, retryable=True
    )


@given(evidence=evidences)
def test_a_log_with_a_hole_never_ends_as_if_it_were_whole(evidence: Evidence) -> None:
    found = final_fact(evidence)
    if isinstance(found, RunCompleted):
        assert evidence.obstacle is None
        assert found == evidence.reported


@given(evidence=evidences)
def test_an_attempt_is_canceled_only_by_our_own_order(evidence: Evidence) -> None:
    if isinstance(final_fact(evidence), RunCanceled):
        assert evidence.ordered == "cancel"


@given(evidence=evidences)
def test_what_our_order_caused_is_never_a_failure(evidence: Evidence) -> None:
    if evidence.ordered is not None:
        assert not isinstance(final_fact(evidence), RunFailed)


@given(evidence=evidences)
def test_a_death_speaks_only_where_nothing_else_does(evidence: Evidence) -> None:
    others = (evidence.reported, evidence.ordered, evidence.timed_out, evidence.obstacle)
    if others == (None,) * 4:
        assert final_fact(evidence) == failure_for(
            evidence.end,
            oom_evidence=evidence.oom_evidence,
            stage=evidence.stage,
            last_words=evidence.last_words,
        )
