"""The log into documents: the same ones, whatever the order in which it was read."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.positions.interval_set import IntervalSet
from control_plane.model.projection import EFFECTIVE, AttemptView, Fold, Update, fold, project
from control_plane.model.run import CurrentStage, Entry
from control_plane.store.verify.evidence import Quiet
from control_plane.verify.replay import Replayed, replay
from events import catalog as c
from events.envelope import Event
from events.kinds.declaring.fact import Fact
from events.lifecycle import Cause, Status, advance
from tests.unit.control_plane.histories import (
    artifact,
    claimed,
    decided,
    log_of,
    moment_at,
    said,
    submitted,
    whole_life,
)

S: Final = Status
SUBMITTED: Final[dict[str, Any]] = {
    "attempt": 0, "lastEventSeq": 0, "currentStage": None, "startedAt": None, "priority": 5, "maxAttempts": 3,
    "status": "QUEUED", "revision": 1,
}  # fmt: skip
ENDED: Final = {"finishedAt": moment_at(99)}
REQUEUED: Final = {"claimedBy": None}


def claimed_fields(attempt: int = 1, revision: int = 2) -> dict[str, Any]:
    """Return the fields of a run whose last decision was the claim of `attempt`."""
    return {
        **SUBMITTED, "attempt": attempt, "claimedBy": f"pod/{attempt}", "validation": None, "settled": None,
        "error": None, "status": "SCHEDULED", "revision": revision,
    }  # fmt: skip


def completed(seq: int, came_from: Status = S.RUNNING, *, n: int = 3, attempt: int = 1) -> Entry:
    return decided(n, Cause.END_COMPLETED, came_from, S.COMPLETED, attempt=attempt, seq=seq, sets=ENDED)


def preempted(seq: int, came_from: Status = S.RUNNING, *, n: int = 3, attempt: int = 1) -> Entry:
    return decided(n, Cause.END_PREEMPTED, came_from, S.QUEUED, attempt=attempt, seq=seq, sets=REQUEUED)


def folded_whole(log: list[Event], attempt: int = 1) -> Fold:
    return fold(AttemptView("r", attempt), log, 0)


WHOLE: Final = log_of(whole_life())
TOLD_WHOLE: Final[dict[str, Any]] = {
    "lastEventSeq": 7,
    "currentStage": {"name": "probe", "progress": 1.0, "activity": None},
    "startedAt": moment_at(1),
    "validation": None,
}


def test_of_nothing_nothing_is_told() -> None:
    assert replay("r", [], []) == Replayed({}, {}, {}, [], [])
    first, second = Replayed(), Replayed()
    for name in ("fields", "writes", "attempts", "contradictions", "unreached"):
        assert getattr(first, name) is not getattr(second, name)
    assert not hasattr(first, "__dict__")


def test_a_submitted_run_waits_in_its_first_status() -> None:
    assert replay("r", [submitted()], []) == Replayed(SUBMITTED)
    assert replay("r", [submitted(S.DELAYED)], []).fields == {**SUBMITTED, "status": "DELAYED"}


def test_a_claim_begins_an_attempt_of_which_nothing_was_said_yet() -> None:
    assert replay("r", [submitted(), claimed()], []) == Replayed(claimed_fields())


def test_a_run_goes_from_submit_to_completed() -> None:
    replayed = replay("r", [submitted(), claimed(), completed(7)], WHOLE)
    whole = folded_whole(WHOLE)
    fields = {**claimed_fields(), **TOLD_WHOLE, **ENDED, "status": "COMPLETED", "revision": 3}
    assert replayed == Replayed(fields, whole.writes, {1: whole}, [], [])
    assert set(replayed.writes) == {("stages", "r/a1/probe"), ("artifacts", "r/a1/50a27247136414a5")}


@pytest.mark.parametrize("length", range(8))
def test_a_run_at_work_stands_where_its_log_has_come_to(length: int) -> None:
    log = WHOLE[:length]
    replayed = replay("r", [submitted(), claimed()], log)
    view = folded_whole(log).view
    fields = {
        **claimed_fields(),
        "status": "RUNNING" if length else "SCHEDULED",
        "lastEventSeq": length,
        "currentStage": view.current_stage and asdict(view.current_stage),
        "startedAt": moment_at(1) if length else None,
    }
    attempts = {1: folded_whole(log)} if length else {}
    assert replayed == Replayed(fields, folded_whole(log).writes, attempts, [], [])


def test_what_comes_after_the_end_was_decided_moves_the_cursor_and_not_the_status() -> None:
    replayed = replay("r", [submitted(), claimed(), completed(0, S.SCHEDULED)], WHOLE)
    fields = {**claimed_fields(), **TOLD_WHOLE, **ENDED, "status": "COMPLETED", "revision": 3}
    assert replayed == Replayed(fields, folded_whole(WHOLE).writes, {1: folded_whole(WHOLE)}, [], [])


def test_a_log_of_which_the_rest_never_came_is_told_as_far_as_it_goes() -> None:
    replayed = replay("r", [submitted(), claimed(), completed(0, S.SCHEDULED)], WHOLE[:3])
    assert replayed.fields["lastEventSeq"] == 3
    assert replayed.fields["currentStage"] == {"name": "probe", "progress": 0.5, "activity": "half way"}
    assert (replayed.contradictions, replayed.unreached) == ([], [])


def test_a_failure_is_charged_by_its_decision_once_whoever_tells_it_first() -> None:
    log = log_of([c.RunStarted(), c.RunFailed(code="TIMEOUT", message="$too {slow}", retryable=True)])
    charged = {"failures": {"app": 1, "infra": 0, "preempted": 0}, "error": {"message": "$too {slow}"}}
    note = {"settled": {"outcome": "failed", "last": 2}}
    by_event = [
        submitted(),
        claimed(),
        decided(3, Cause.END_FAILED, S.RUNNING, S.DELAYED, attempt=1, seq=2, sets=charged),
        decided(4, Cause.SETTLED, S.DELAYED, S.DELAYED, attempt=1, seq=2, sets=note),
    ]
    by_settle = [
        submitted(),
        claimed(),
        decided(3, Cause.END_FAILED, S.SCHEDULED, S.DELAYED, attempt=1, seq=0, sets={**charged, **note}),
    ]
    whole = folded_whole(log)
    fields = {
        **claimed_fields(), **charged, **note, "status": "DELAYED", "lastEventSeq": 2,
        "startedAt": moment_at(1),
    }  # fmt: skip
    for revision, entries in ((4, by_event), (3, by_settle)):
        expected = Replayed({**fields, "revision": revision}, whole.writes, {1: whole}, [], [])
        assert replay("r", entries, log) == expected


def test_late_events_of_an_older_attempt_complete_its_own_record_only() -> None:
    entries = [submitted(), claimed(), preempted(2), claimed(4, 2, seq=2)]
    replayed = replay("r", entries, WHOLE)
    fields = {**claimed_fields(2, 4)}
    assert replayed == Replayed(fields, folded_whole(WHOLE).writes, {1: folded_whole(WHOLE)}, [], [])


def test_a_run_that_has_two_attempts_is_told_by_the_last_and_each_attempt_by_its_own_log() -> None:
    second = log_of(whole_life(2), attempt=2)
    entries = [submitted(), claimed(), preempted(3), claimed(4, 2, seq=3), completed(7, n=5, attempt=2)]
    replayed = replay("r", entries, [*WHOLE[:3], *second])
    attempts = {1: folded_whole(WHOLE[:3]), 2: folded_whole(second, 2)}
    fields = {**claimed_fields(2), **TOLD_WHOLE, **ENDED, "status": "COMPLETED", "revision": 5}
    writes = {**attempts[1].writes, **attempts[2].writes}
    assert replayed == Replayed(fields, writes, attempts, [], [])
    assert set(replayed.writes) > {("stages", "r/a1/probe"), ("stages", "r/a2/probe")}


def test_what_an_attempt_said_before_it_was_rescued_is_applied_while_no_other_has_begun() -> None:
    rescued = decided(3, Cause.RESCUE, S.SCHEDULED, S.DELAYED, attempt=1, sets={"error": {"code": "LOST"}})
    replayed = replay("r", [submitted(), claimed(), rescued], WHOLE[:1])
    fields = {
        **claimed_fields(), "error": {"code": "LOST"}, "status": "DELAYED", "revision": 3, "lastEventSeq": 1,
        "startedAt": moment_at(1),
    }  # fmt: skip
    assert replayed == Replayed(fields, {}, {1: folded_whole(WHOLE[:1])}, [], [])


def test_a_cancel_leads_a_waiting_run_to_its_end_and_a_held_one_towards_it() -> None:
    waiting = decided(2, Cause.CANCEL, S.QUEUED, S.CANCELED)
    assert replay("r", [submitted(), waiting], []).fields == {
        **SUBMITTED, "status": "CANCELED", "revision": 2,
    }  # fmt: skip
    held = [
        submitted(),
        claimed(),
        decided(3, Cause.CANCEL, S.RUNNING, S.CANCELING, attempt=1, seq=1),
        decided(4, Cause.END_CANCELED, S.CANCELING, S.CANCELED, attempt=1, seq=3),
    ]
    replayed = replay("r", held, WHOLE[:3])
    assert (replayed.fields["status"], replayed.fields["revision"]) == ("CANCELED", 4)
    assert (replayed.contradictions, replayed.unreached) == ([], [])


def test_events_of_an_attempt_that_nobody_has_claimed_wait() -> None:
    assert replay("r", [], WHOLE) == Replayed()
    assert replay("r", [submitted()], WHOLE) == Replayed(SUBMITTED)
    early = log_of([c.RunStarted()], attempt=2)
    replayed = replay("r", [submitted(), claimed()], [*WHOLE[:1], *early])
    assert set(replayed.attempts) == {1}
    assert replayed.fields["attempt"] == 1


def test_an_event_without_a_position_tells_nothing() -> None:
    unnumbered = [said(c.RunCompleted(), None), said(c.RunHeartbeat(gpu_util=0.75), None)]
    entries = [submitted(), claimed()]
    assert replay("r", entries, unnumbered) == replay("r", entries, [])
    assert replay("r", entries, [*unnumbered, *WHOLE, *unnumbered]) == replay("r", entries, WHOLE)


def test_phases_lead_forward_through_every_stretch() -> None:
    log = log_of([c.RunStarted(), c.ValidationAutoStarted(), c.RunStarted(), c.ValidationAutoStarted()])
    paused = decided(3, Cause.PAUSE, S.RUNNING, S.RUNNING, attempt=1, seq=1, sets={"paused": True})
    noted = decided(4, Cause.NOTE, S.AUTO_VALIDATING, S.AUTO_VALIDATING, attempt=1, seq=3)
    replayed = replay("r", [submitted(), claimed(), paused, noted], log)
    assert (replayed.contradictions, replayed.unreached) == ([], [])
    fields = {
        **claimed_fields(), "paused": True, "status": "AUTO_VALIDATING", "revision": 4, "lastEventSeq": 4,
        "startedAt": moment_at(3),
    }  # fmt: skip
    assert replayed == Replayed(fields, {}, {1: folded_whole(log)}, [], [])


def test_between_two_decisions_an_attempt_is_known_as_it_was_left() -> None:
    facts = [
        c.RunStarted(),
        c.ValidationAutoCompleted(verdict="pass"),
        c.StageStarted(stage="a"),
        c.RunLog(message="x"),
    ]
    log = log_of(facts)
    notes = [
        decided(n, Cause.NOTE, S.RUNNING, S.RUNNING, attempt=1, seq=seq)
        for n, seq in ((3, 1), (4, 2), (5, 3))
    ]
    replayed = replay("r", [submitted(), claimed(), *notes], log)
    assert replayed.fields["startedAt"] == moment_at(1)
    assert replayed.fields["validation"] == {"verdict": "pass", "summary": None}
    assert replayed.fields["currentStage"] == {"name": "a", "progress": 0.0, "activity": None}
    assert (replayed.fields["lastEventSeq"], replayed.contradictions, replayed.unreached) == (4, [], [])


def test_a_verdict_is_a_field_of_the_run_until_the_next_claim() -> None:
    log = log_of([c.ValidationAutoCompleted(verdict="fail", summary="no gain")])
    entries = [submitted(), claimed(), preempted(1, S.SCHEDULED)]
    verdict = {"verdict": "fail", "summary": "no gain"}
    assert replay("r", entries, log).fields["validation"] == verdict
    assert replay("r", [*entries, claimed(4, 2, seq=1)], log).fields["validation"] is None


@pytest.mark.parametrize(("sealed", "last"), [(None, 7), ({"attempt": 1, "last": 5, "whole": False}, 5)])
def test_behind_the_seal_of_a_verdict_nothing_is_told(sealed: dict[str, Any] | None, last: int) -> None:
    waits = decided(3, Cause.END_COMPLETED, S.RUNNING, S.AWAITING_HUMAN, attempt=1, seq=5)
    verdict = decided(
        4, Cause.REVIEW, S.AWAITING_HUMAN, S.HUMAN_VALIDATED, attempt=1, seq=5, sets={"sealed": sealed}
    )
    result = replay("r", [submitted(), claimed(), waits, verdict], WHOLE)
    assert (result.fields["lastEventSeq"], result.attempts[1].seq) == (last, last)


def test_the_number_of_a_decision_is_its_place_whatever_the_order_it_is_read_in() -> None:
    entries = [submitted(), claimed(), preempted(2), claimed(4, 2, seq=2)]
    assert replay("r", list(reversed(entries)), list(reversed(WHOLE))) == replay("r", entries, WHOLE)


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
def test_decisions_are_made_as_far_as_no_number_is_missing(missing: int) -> None:
    entries = [submitted(), claimed(), preempted(2), claimed(4, 2, seq=2)]
    kept = [entry for entry in entries if entry.n != missing]
    assert replay("r", kept, WHOLE) == replay("r", entries[: missing - 1], WHOLE)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_number_that_is_given_twice_ends_what_is_told(n: int) -> None:
    stray = replace(completed(0), n=n)
    replayed = replay("r", [submitted(), claimed(), stray], [])
    assert replayed == replay("r", {0: [], 1: [submitted()], 2: [submitted(), claimed()]}[n], [])


def test_a_number_that_is_given_twice_stands_for_no_other() -> None:
    twice = [submitted(), replace(submitted(), to="DELAYED"), completed(0)]
    assert replay("r", twice, []) == replay("r", [submitted()], [])


def test_documents_are_told_attempt_by_attempt() -> None:
    second = log_of(whole_life(2), attempt=2)
    entries = [submitted(), claimed(), preempted(0, S.SCHEDULED), claimed(4, 2)]
    unnumbered = said(c.RunHeartbeat(), None, attempt=2)
    replayed = replay("r", entries, [unnumbered, *second, *WHOLE])
    stages = [identity for collection, identity in replayed.writes if collection == "stages"]
    assert stages == ["r/a1/probe", "r/a2/probe"]


def test_a_decision_that_left_another_status_is_a_contradiction_and_counts() -> None:
    replayed = replay("r", [submitted(), claimed(), completed(1, S.SCHEDULED)], WHOLE[:1])
    assert replayed.contradictions == ["decision 3 left SCHEDULED, but the log stands at RUNNING"]
    assert (replayed.fields["status"], replayed.fields["revision"], replayed.unreached) == (
        "COMPLETED",
        3,
        [],
    )


def test_a_first_decision_leaves_nothing_and_no_other_does() -> None:
    odd = replay("r", [replace(submitted(), came_from=S.FAILED)], [])
    assert odd.contradictions == ["decision 1 left FAILED, but the log stands at None"]
    again = replay("r", [submitted(), replace(submitted(), n=2)], [])
    assert again.contradictions == ["decision 2 left None, but the log stands at QUEUED"]
    assert again.fields == {**SUBMITTED, "revision": 2}


def test_only_a_submission_makes_a_run_of_nothing() -> None:
    replayed = replay("r", [replace(claimed(), n=1, came_from=None, sets={"x": 1})], [])
    assert replayed == Replayed({"x": 1, "status": "SCHEDULED", "revision": 1})


def test_a_second_submission_takes_back_what_the_log_said_and_no_decision() -> None:
    again = replace(submitted(), n=3, came_from=S.RUNNING, attempt=1, seq=6)
    replayed = replay("r", [submitted(), claimed(), again], WHOLE[:6])
    assert replayed == Replayed(
        {**claimed_fields(), **SUBMITTED, "revision": 3}, {}, replayed.attempts, [], []
    )


@pytest.mark.parametrize(("seen", "is_reached"), [(0, True), (2, True), (3, True), (4, False), (7, False)])
def test_a_decision_that_saw_an_event_which_the_log_lacks_is_named(seen: int, is_reached: bool) -> None:
    came_from = S.RUNNING if seen else S.SCHEDULED
    replayed = replay("r", [submitted(), claimed(), completed(seen, came_from)], WHOLE[:3])
    expected = [] if is_reached else [f"decision 3 saw event {seen}, which the log does not reach"]
    assert (replayed.unreached, replayed.contradictions) == (expected, [])
    assert (replayed.fields["status"], replayed.fields["lastEventSeq"]) == ("COMPLETED", 3)


def test_a_decision_that_saw_less_than_the_one_before_it_is_named() -> None:
    noted = decided(3, Cause.NOTE, S.RUNNING, S.RUNNING, attempt=1, seq=3)
    replayed = replay("r", [submitted(), claimed(), noted, completed(2, n=4)], WHOLE)
    assert replayed.unreached == ["decision 4 saw event 2, which the log does not reach"]


def test_a_first_decision_that_saw_an_event_is_named() -> None:
    replayed = replay("r", [replace(submitted(), seq=1)], [])
    assert replayed.unreached == ["decision 1 saw event 1, which the log does not reach"]


def test_behind_a_gap_of_the_log_nothing_is_told() -> None:
    broken = [*WHOLE[:3], *WHOLE[4:]]
    replayed = replay("r", [submitted(), claimed(), completed(7)], broken)
    assert replayed.unreached == ["decision 3 saw event 7, which the log does not reach"]
    assert replayed.fields["lastEventSeq"] == 3
    assert replayed.attempts == {1: folded_whole(WHOLE[:3])}
    assert replayed.writes == folded_whole(WHOLE[:3]).writes


def test_of_a_log_that_begins_behind_a_gap_nothing_is_told() -> None:
    entries = [submitted(), claimed()]
    assert replay("r", entries, WHOLE[1:]) == replay("r", entries, [])


def test_a_log_that_begins_behind_a_gap_hides_no_other_attempt() -> None:
    second = log_of(whole_life(2), attempt=2)
    entries = [submitted(), claimed(), preempted(0, S.SCHEDULED), claimed(4, 2)]
    replayed = replay("r", entries, [*WHOLE[1:], *second])
    assert replayed.attempts == {2: folded_whole(second, 2)}
    assert replayed.writes == folded_whole(second, 2).writes


def test_an_attempt_that_nobody_has_claimed_hides_no_other() -> None:
    """The attempts of a log are told in their order, and what waits is the last of them only."""
    entries = [submitted(), claimed()]
    waiting = log_of([c.RunStarted()], attempt=2) + log_of([c.RunStarted()], attempt=3)
    assert replay("r", entries, [*waiting, *WHOLE]) == replay("r", entries, WHOLE)


def test_a_second_claim_beside_the_owner_is_told_as_it_was_decided() -> None:
    second = replace(claimed(3, 2, seq=2), came_from=S.RUNNING)
    replayed = replay("r", [submitted(), claimed(), second], WHOLE)
    assert replayed == Replayed(
        claimed_fields(2, 3), folded_whole(WHOLE).writes, {1: folded_whole(WHOLE)}, [], []
    )


def test_a_cursor_that_was_set_back_begins_the_attempt_anew() -> None:
    log = log_of([c.RunLog(message="x"), c.RunStarted(), c.StageStarted(stage="a")])
    set_back = decided(3, Cause.NOTE, S.RUNNING, S.RUNNING, attempt=1, seq=3, sets={"lastEventSeq": 0})
    # The run leaves the attempt after its first event, and keeps what it knew by then.
    left = decided(4, Cause.NOTE, S.RUNNING, S.RUNNING, attempt=1, seq=1, sets={"attempt": 2})
    replayed = replay("r", [submitted(), claimed(), set_back, left], log)
    fields = {**claimed_fields(2, 4), "claimedBy": "pod/1", "status": "RUNNING", "lastEventSeq": 1}
    assert replayed == Replayed(fields, folded_whole(log).writes, {1: folded_whole(log)}, [], [])


@pytest.mark.parametrize("seen", [[], [3]], ids=["nobody looked since", "a decision saw it"])
def test_a_cursor_that_was_set_ahead_goes_on_with_an_attempt_of_which_nothing_is_known(
    seen: list[int],
) -> None:
    ahead = decided(3, Cause.NOTE, S.SCHEDULED, S.SCHEDULED, attempt=1, sets={"lastEventSeq": 2})
    after = [decided(4, Cause.NOTE, S.SCHEDULED, S.SCHEDULED, attempt=1, seq=seq) for seq in seen]
    replayed = replay("r", [submitted(), claimed(), ahead, *after], WHOLE[2:3])
    now = CurrentStage("probe", 0.5, "half way")
    fields = {
        **claimed_fields(), "revision": 3 + len(seen), "lastEventSeq": 3, "currentStage": asdict(now),
    }  # fmt: skip
    behind_the_gap = fold(AttemptView("r", 1), WHOLE[2:3], 2)
    assert replayed == Replayed(fields, {}, {1: behind_the_gap}, [], [])
    assert behind_the_gap.view == AttemptView("r", 1, now)


def test_what_an_attempt_said_of_a_foreign_file_is_kept_with_its_record() -> None:
    log = log_of([c.RunStarted(), artifact(attempt=2), c.RunCompleted(), c.RunLog(message="late")])
    replayed = replay("r", [submitted(), claimed()], log)
    assert [(event, aside.code) for event, aside in replayed.attempts[1].set_aside] == [
        (log[1], "foreign_key"),
        (log[3], "after_end"),
    ]
    assert (replayed.writes, replayed.fields["lastEventSeq"]) == ({}, 4)


def at(*positions: int | None) -> list[Event]:
    return [said(c.RunLog(message="x"), position) for position in positions]


@pytest.mark.parametrize(
    ("log", "after", "up_to", "found"),
    [
        ([], 0, None, []),
        ([], 0, 5, []),
        ([1, 2, 3], 0, None, [1, 2, 3]),
        ([1, 2, 3], 1, None, [2, 3]),
        ([1, 2, 3], 2, None, [3]),
        ([1, 2, 3], 3, None, []),
        ([1, 2, 3], 4, None, []),
        ([1, 2, 3], 0, 0, []),
        ([1, 2, 3], 0, 1, [1]),
        ([1, 2, 3], 0, 2, [1, 2]),
        ([1, 2, 3], 0, 3, [1, 2, 3]),
        ([1, 2, 3], 0, 4, [1, 2, 3]),
        ([1, 2, 3], 1, 2, [2]),
        ([1, 2, 3], 2, 2, []),
        ([1, 2, 3], 2, 1, []),
        ([2, 3], 0, None, []),
        ([3, 4], 1, None, []),
        ([1, 2, 4, 5], 0, None, [1, 2]),
        ([1, 2, 4, 5], 2, None, []),
        ([1, 2, 4, 5], 3, None, [4, 5]),
        ([1, 1, 2], 0, None, [1, 2]),
        ([1, 1, 2], 1, None, [2]),
        ([None, 1, 2], 0, None, [1, 2]),
        ([1, None, 2, None], 0, None, [1, 2]),
        ([2, 1], 0, None, [1, 2]),
        ([3, 1, 2], 0, 2, [1, 2]),
        ([1, 5, 2], 0, 2, [1, 2]),
    ],
)
def test_a_stretch_follows_its_cursor_without_a_gap_up_to_where_it_is_wanted(
    log: list[int | None], after: int, up_to: int | None, found: list[int]
) -> None:
    held = IntervalSet.of((n, n) for n in log if n is not None)
    last = held.last_contiguous(after)
    last = last if up_to is None else min(last, up_to)
    assert list(range(after + 1, last + 1)) == found


MOMENT: Final = datetime(2026, 11, 21, tzinfo=UTC)
SPOKEN: Final[list[Fact]] = [
    c.RunStarted(),
    *(c.StageStarted(stage=stage) for stage in "ab"),
    c.StageProgress(stage="a", progress=0.5, activity="x"),
    c.StageCompleted(stage="a"),
    c.RunLog(message="x"),
    c.ValidationAutoStarted(),
    c.ValidationAutoCompleted(verdict="pass"),
    artifact(attempt=1),
    artifact(attempt=2),
    c.RunCompleted(),
    c.RunPreempted(reason="spot"),
    c.ResultRecorded(set="s", key="a", values={"v": 1}),
    c.ResultRecorded(set="s", key="a", values={"v": 2}),
    c.RunSummarized(values={"v": 1}),
    c.RunSummarized(values={"v": 2, "w": "x"}),
]


@dataclass
class Online:
    """A run as it is kept while its log grows: each event applied, each decision made, as it comes."""

    entries: list[Entry] = field(default_factory=list)
    logs: dict[int, list[Event]] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    view: AttemptView = field(default_factory=lambda: AttemptView("r", 0))

    def decide(self, cause: Cause, to: Status, sets: dict[str, Any]) -> None:
        came_from = self.fields.get("status")
        attempt, seq = self.fields.get("attempt", 0), self.fields.get("lastEventSeq", 0)
        n = len(self.entries) + 1
        self.entries.append(decided(n, cause, came_from, to, attempt=attempt, seq=seq, sets=sets))
        self.fields |= {**sets, "status": to.value, "revision": n}

    def submit(self) -> None:
        self.fields = {"attempt": 0, "lastEventSeq": 0, "currentStage": None, "startedAt": None}
        self.decide(Cause.SUBMIT, S.QUEUED, {"priority": 5})

    def claim(self) -> None:
        attempt = self.fields["attempt"] + 1
        self.decide(Cause.CLAIM, S.SCHEDULED, dict(claimed(attempt=attempt).sets))
        self.view = AttemptView("r", attempt)

    def speak(self, fact: Fact, attempt: int) -> None:
        log = self.logs.setdefault(attempt, [])
        log.append(said(fact, len(log) + 1, attempt=attempt))
        if attempt != self.fields["attempt"]:
            return
        effect = project(self.view, log[-1])
        status = Status(self.fields["status"])
        if isinstance(effect, Update):
            self.view = effect.view
            status = status if effect.phase is None else advance(status, effect.phase)
        stage = self.view.current_stage
        self.fields |= {
            "status": status.value,
            "lastEventSeq": len(log),
            "currentStage": stage and asdict(stage),
            "startedAt": self.view.started_at,
            "validation": self.view.validation,
        }
        if self.view.summary is not None:
            self.fields |= {"summary": self.view.summary, "summaryAttempt": attempt}


@st.composite
def onlines(draw: st.DrawFn) -> Online:
    """Draw a run's whole history; what is said late belongs to an attempt that the run has left."""
    run = Online()
    run.submit()
    for step in draw(st.lists(st.integers(0, len(SPOKEN) + 5), max_size=25)):
        attempt, status = run.fields["attempt"], Status(run.fields["status"])
        if status is S.QUEUED and step % 2:
            run.claim()
        elif step == 0 and attempt:
            run.decide(Cause.END_PREEMPTED, S.QUEUED, {"claimedBy": None})
        elif step == 1:
            run.decide(Cause.NOTE, status, {"notes": [step]})
        elif step == 2 and attempt > 1:
            run.speak(c.StageStarted(stage="late"), attempt - 1)
        elif 3 <= step < 3 + len(SPOKEN) and attempt:
            run.speak(SPOKEN[step - 3], attempt)
    return run


@given(run=onlines(), seed=st.integers(0, 2**16))
def test_a_log_in_any_order_tells_the_run_as_it_was_kept_online(run: Online, seed: int) -> None:
    chance = random.Random(seed)
    events = [event for log in run.logs.values() for event in log] + at(None, None)
    entries = list(run.entries)
    chance.shuffle(events)
    chance.shuffle(entries)
    attempts = {attempt: folded_whole(log, attempt) for attempt, log in run.logs.items()}
    writes = {key: write for folded in attempts.values() for key, write in folded.writes.items()}
    assert replay("r", entries, events) == Replayed(run.fields, writes, attempts, [], [])


@given(run=onlines())
def test_events_without_an_effect_may_be_told_as_stretches(run: Online) -> None:
    events = [event for log in run.logs.values() for event in log]
    loud = [event for event in events if event.type in EFFECTIVE]
    quiet = [
        Quiet(event.attempt, event.sequence or 0, event.sequence or 0, MOMENT, MOMENT)
        for event in events
        if event.type not in EFFECTIVE
    ]
    whole, thin = replay("r", run.entries, events), replay("r", run.entries, loud, quiet)
    for replayed in (whole, thin):
        for folded in replayed.attempts.values():
            folded.set_aside.clear()
            # rows are compared with their events one by one
            folded.writes = {key: each for key, each in folded.writes.items() if key[0] != "results"}
        replayed.writes = {key: each for key, each in replayed.writes.items() if key[0] != "results"}
    assert thin == whole


def test_a_seal_closes_the_record_of_its_own_attempt_alone() -> None:
    sealed = {"attempt": 2, "last": 3, "whole": False}
    entries = [
        submitted(),
        claimed(2, 1),
        preempted(2, n=3),
        claimed(4, 2, seq=2),
        decided(
            5, Cause.REVIEW, S.AWAITING_HUMAN, S.HUMAN_VALIDATED, attempt=2, seq=3, sets={"sealed": sealed}
        ),
    ]
    found = replay("r", entries, [*log_of(whole_life(), attempt=1), *log_of(whole_life(2), attempt=2)])
    assert {attempt: each.seq for attempt, each in found.attempts.items()} == {1: 7, 2: 3}


def test_behind_a_status_that_there_is_not_nothing_is_applied_and_nothing_raised() -> None:
    nowhere = replace(claimed(), to="NOWHERE")
    found = replay("r", [submitted(), nowhere], log_of(whole_life()))
    assert (found.fields["status"], found.fields["lastEventSeq"]) == ("NOWHERE", 0)
