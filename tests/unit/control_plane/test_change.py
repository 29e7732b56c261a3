"""Other options for a run that waits: the decision whole, and what a claim at the same moment sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from control_plane.model.run import Run
from control_plane.runs.change import change_decision
from control_plane.runs.decisions import Decider
from control_plane.runs.options import LABELS_MAX, OptionChanges, StartOptions, labels_with, options_of
from control_plane.runs.submission import Submission, Submitter
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.runs import Runs
from control_plane.store.queue.submissions import Submissions
from control_plane.store.reads import RunReads
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events.kinds.declaring.queues import DEFAULT_MODE
from events.lifecycle import INITIAL, Cause, Failures, Illegal, Status
from events.queue.abilities import Abilities
from events.queue.journal import Decision, Expression
from events.queue.matching import Seeker
from events.runtime.errors import Conflict, OutOfDate, Rejected
from events.testing import EPOCH, RUN_ID, ManualClock, SeededIds
from pod_worker.queue.mongo import MongoQueue
from testing.simulation.store.driver import async_database, sync_database
from testing.simulation.store.replica_set import ReplicaSet

BY: Final = "user:me"
HOUR: Final = timedelta(hours=1)
LATER: Final = EPOCH + HOUR


def make_run(status: Status = Status.QUEUED, **fields: Any) -> Run:
    """Return a run that has waited for an hour."""
    waiting = Run(
        id=RUN_ID, kind="probe", status=status, revision=3, attempt=0, last_event_seq=0, failures=Failures(),
        max_attempts=3, review=False, class_key="probe/cpu/any", claimed_by=None, lease=None, settled=None,
        log_open=False, log_incomplete=False, current_stage=None, started_at=None, validation=None,
        journal=(), hypothesis_id=None, paused=False, notes_count=0, queued_at=EPOCH - HOUR,
        queue_limit_s=7200, queue_deadline=EPOCH + HOUR, labels={"team": "a"},
    )  # fmt: skip
    return replace(waiting, **fields)


def decided(run: Run, **changes: Any) -> Any:
    return change_decision(run, OptionChanges(**changes), by=BY, now=EPOCH)


def sets_of(run: Run, **changes: Any) -> dict[str, Any]:
    decision = decided(run, **changes)
    assert isinstance(decision, Decision)
    assert (decision.cause, decision.by, decision.silent) == (Cause.CHANGE, BY, {})
    return {**decision.sets, "to": decision.to}


@pytest.mark.parametrize("status", list(Status))
def test_only_a_run_that_waits_is_changed(status: Status) -> None:
    found = decided(make_run(status), priority=5)
    if status in INITIAL:
        assert found == Decision(Cause.CHANGE, status, BY, sets={"priority": 5})
    else:
        assert found == Illegal(status, Cause.CHANGE)
        assert str(status) in str(found)


@pytest.mark.parametrize(
    ("changes", "sets"),
    [
        ({"priority": 9}, {"priority": 9}),
        ({"max_attempts": 1}, {"maxAttempts": 1}),
        ({"queue_limit_s": 60}, {"queueLimitS": 60, "queueDeadline": EPOCH - HOUR + timedelta(minutes=1)}),
        (
            {"requires": {"gpu_gib": 20}},
            {"requires": Expression({"$literal": {"gpu_gib": 20}}), "classKey": "probe/24/any"},
        ),
        (
            {"labels": {"a.b": "x"}},
            {
                "labels": Expression({"$literal": {"team": "a", "a.b": "x"}}),
                "labelList": ["a.b=x", "team=a"],
            },
        ),
        ({"labels": {"team": None}}, {"labels": Expression({"$literal": {}}), "labelList": []}),
    ],
)
def test_what_changes_is_set_with_what_follows_from_it(changes: Any, sets: dict[str, Any]) -> None:
    assert sets_of(make_run(), **changes) == {**sets, "to": Status.QUEUED}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"priority": 0, "max_attempts": 3, "queue_limit_s": 7200, "labels": {"team": "a", "x": None}},
        {"not_before": None},
        {"not_before": EPOCH - HOUR},
        {"not_before": EPOCH},
    ],
)
def test_what_is_so_already_is_no_decision(changes: dict[str, Any]) -> None:
    assert decided(make_run(), **changes) is None


def test_the_same_requirements_twice_are_one_decision() -> None:
    changed = make_run(requires={"region": "eu"}, class_key="probe/cpu/eu")
    assert decided(changed, requires={"region": "eu"}) is None
    assert sets_of(changed, requires={})["classKey"] == "probe/cpu/any"


@pytest.mark.parametrize("status", sorted(INITIAL))
def test_a_later_start_delays_it_and_its_wait_begins_then(status: Status) -> None:
    assert sets_of(make_run(status), not_before=LATER) == {
        "to": Status.DELAYED,
        "notBefore": LATER,
        "queuedAt": LATER,
        "queueDeadline": LATER + 2 * HOUR,
    }


@pytest.mark.parametrize("start", [None, EPOCH, EPOCH - HOUR])
@pytest.mark.parametrize(("queued", "place"), [(EPOCH - HOUR, EPOCH - HOUR), (LATER, EPOCH)])
def test_an_earlier_start_ends_the_delay_and_is_no_way_to_the_head(
    start: datetime | None, queued: datetime, place: datetime
) -> None:
    delayed = make_run(Status.DELAYED, not_before=LATER, queued_at=queued)
    assert sets_of(delayed, not_before=start, queue_limit_s=60) == {
        "to": Status.QUEUED,
        "notBefore": None,
        "queuedAt": place,
        "queueLimitS": 60,
        "queueDeadline": EPOCH + timedelta(minutes=1),
    }


def test_whoever_looked_at_another_revision_looks_again() -> None:
    with pytest.raises(OutOfDate, match="revision 2 of the run, by now it is 3"):
        change_decision(make_run(), OptionChanges(priority=1), by=BY, now=EPOCH, revision=2)
    assert change_decision(make_run(), OptionChanges(priority=1), by=BY, now=EPOCH, revision=3) is not None


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"requires": {"gpu_gib": 1e9}}, "invalid_requirements"),
        ({"requires": {"colour": "red"}}, "invalid_requirements"),
        ({"requires": {"region": "eu/24"}}, "invalid_requirements"),
        ({"labels": {"schedule": "mine"}}, "reserved_label"),
        ({"labels": {"schedule": None}}, "reserved_label"),
        ({"labels": {f"l{number}": "x" for number in range(LABELS_MAX + 9)}}, "too_many_labels"),
    ],
)
def test_what_no_submission_may_have_no_change_may(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Rejected) as refused:
        decided(make_run(), **changes)
    assert refused.value.code == code


def test_a_run_with_more_labels_than_are_taken_today_can_lose_some() -> None:
    many = {f"l{number}": "x" for number in range(LABELS_MAX * 3)}
    assert len(sets_of(make_run(labels=many), labels={"l0": None})["labelList"]) == LABELS_MAX * 3 - 1


def test_options_go_from_one_submission_to_the_next_whole() -> None:
    wanted = StartOptions(priority=1, requires={"region": "eu"}, labels={"a": "b"}, not_before=EPOCH)
    assert options_of(Submission(kind="probe", spec={}, by="me", **options_of(wanted))) == options_of(wanted)
    changed = OptionChanges(labels={"a": None, "c": "d"}, priority=2).over(options_of(wanted))
    assert changed == {**options_of(wanted), "labels": {"c": "d"}, "priority": 2}
    assert labels_with({"a": "b"}, {"a": "c"}) == {"a": "c"}


class Scene:
    """A store in which one run waits, with the control plane's part and the pod's."""

    def __init__(self) -> None:
        self.servers = ReplicaSet(lambda: EPOCH)
        db: Any = async_database(self.servers, "replica")
        self.pods: Any = sync_database(self.servers, "pods")
        runs, clock, ids = Runs(db), ManualClock(), SeededIds()
        self.submitter = Submitter(runs, Submissions(db), ids, RunReads(db), Groups(db))
        self.decider = Decider(runs, Documents(db), Events(db), None, ids, clock)  # type: ignore[arg-type]
        self.verifier = Verifier(VerifyReads(db))
        self.queue = MongoQueue(self.pods)

    async def submit(self) -> str:
        return (await self.submitter.submit(Submission(kind="probe", spec={}, by="me"))).run_id

    def claim(self, **abilities: Any) -> str | None:
        seeker = Seeker("pod/1", DEFAULT_MODE, Abilities(kinds=frozenset({"probe"}), **abilities))
        found = self.queue.claim(seeker, token="t" * 43)
        return None if found is None else found.run_id

    def stored(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.pods.runs.find_one({"_id": run_id})
        return found


async def test_a_claim_sees_the_class_as_it_was_or_as_it_is() -> None:
    scene = Scene()
    run_id = await scene.submit()
    changed = await scene.decider.change(run_id, OptionChanges(requires={"region": "eu"}), by=BY)
    stored = scene.stored(run_id)
    assert (changed.class_key, stored["classKey"], stored["requires"]) == (
        "probe/cpu/eu",
        "probe/cpu/eu",
        {"region": "eu"},
    )
    assert scene.claim(gpu_gib=0.0, region="us") is None
    assert scene.claim(gpu_gib=0.0, region="eu") == run_id
    with pytest.raises(Conflict, match="SCHEDULED"):
        await scene.decider.change(run_id, OptionChanges(priority=1), by=BY)
    assert [each async for each in scene.verifier.audit(rebuilds=True) if not each.is_note] == []


async def test_a_change_that_a_claim_overtook_changes_nothing() -> None:
    scene = Scene()
    run_id = await scene.submit()
    found = await scene.decider.runs.find(run_id)
    assert found is not None
    decision = change_decision(found.run, OptionChanges(requires={"region": "eu"}), by=BY, now=EPOCH)
    assert isinstance(decision, Decision)
    assert scene.claim(gpu_gib=0.0, region=None) == run_id
    before = scene.stored(run_id)
    assert await scene.decider.runs.decide(found, decision) is None
    assert scene.stored(run_id) == before


@pytest.mark.parametrize(
    ("field", "value"), [("classKey", "probe/cpu/us"), ("requires", {"region": "us"}), ("priority", 7)]
)
async def test_a_run_that_differs_from_its_log_is_found(field: str, value: Any) -> None:
    scene = Scene()
    run_id = await scene.submit()
    await scene.decider.change(run_id, OptionChanges(requires={"region": "eu"}, priority=1), by=BY)
    scene.pods.runs.update_one({"_id": run_id}, {"$set": {field: value}})
    found = [each async for each in scene.verifier.audit(rebuilds=True) if not each.is_note]
    assert any(field in each.message for each in found)
