"""What people decide about a run: each decision whole, and how it is made while others are faster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any, Final

import pytest

from control_plane.model.groups.pruning import Stop
from control_plane.model.run import AttemptToken, Run, Seal, Settled
from control_plane.runs.decisions import (
    NOTE_CHARS_MAX,
    NOTES_MAX,
    TRIES_MAX,
    Decider,
    Review,
    note_decision,
    noted,
    pause_decision,
    resume_decision,
    review_decision,
    revise_decision,
    start_decision,
)
from control_plane.store.log.documents import Documents
from control_plane.store.log.events import Events
from control_plane.store.queue.runs import Runs, decode
from events.lifecycle import AT_REST, HELD, LIVE, Cause, Failures, Illegal, Status
from events.queue.journal import Decision, Expression, ServerTime, creation, update
from events.record_digest import NOTHING, Roots
from events.runtime.errors import Conflict, NotFound, PodfleetError, Rejected, Transient
from events.testing import EPOCH, RUN_ID, ManualClock, SeededIds
from events.text.attempt_id import AttemptId
from testing.simulation.store.driver import async_database, sync_database
from testing.simulation.store.replica_set import Call, ReliableNetwork, ReplicaSet

BY: Final = "user:me"
WAITING: Final = (Status.QUEUED, Status.DELAYED, Status.AWAITING_HUMAN)
ROOTS: Final = Roots("stored", "said")
SETTLED: Final = {"outcome": "completed", "last": 0, "root": None}
PASS: Final = Review("pass", "well done", "ada")
FAIL: Final = Review("fail", "too good to be true", "bob")


def make_run(status: Status = Status.RUNNING, **fields: Any) -> Run:
    """Return a run as decisions see it, which nobody has paused or written notes for."""
    held = Run(
        id=RUN_ID, kind="probe", status=status, revision=3, attempt=1, last_event_seq=2, failures=Failures(),
        max_attempts=3, review=True, class_key="probe/cpu/any", claimed_by="pod/1", lease=None, settled=None,
        log_open=True, log_incomplete=False, current_stage=None, started_at=None, validation=None, journal=(),
        hypothesis_id=None, paused=False, notes_count=0,
    )  # fmt: skip
    return replace(held, **fields)


def make_settled(last: int = 2, root: str | None = None) -> Run:
    """Return a run that waits for a verdict, all of whose events have come."""
    settled = Settled("completed", last, root)
    return make_run(Status.AWAITING_HUMAN, log_open=False, settled=settled)


@contextmanager
def refused(kind: type[PodfleetError], code: str, message: str) -> Iterator[None]:
    """Expect exactly this refusal."""
    with pytest.raises(kind) as refusal:
        yield
    error = refusal.value
    assert (type(error), error.code, error.message) == (kind, code, message)


def added(number: int, text: str, by: str = BY) -> Expression:
    """Return the run's notes and one more."""
    note = {"number": number, "at": "$$NOW", "by": {"$literal": by}, "text": {"$literal": text}}
    return Expression({"$concatArrays": [{"$ifNull": ["$notes", []]}, [note]]})


@pytest.mark.parametrize("status", list(Status))
def test_a_live_run_is_paused_where_it_stands_and_no_other(status: Status) -> None:
    found = pause_decision(make_run(status), by=BY)
    if status in LIVE:
        assert found == Decision(Cause.PAUSE, None, BY, sets={"paused": True}, silent={})
    else:
        assert found == Illegal(status, Cause.PAUSE)


@pytest.mark.parametrize("status", list(Status))
def test_a_run_that_is_paused_stays_so_wherever_it_went_meanwhile(status: Status) -> None:
    assert pause_decision(make_run(status, paused=True), by=BY) is None


@pytest.mark.parametrize("status", list(Status))
def test_a_paused_run_is_resumed_wherever_work_may_go_on(status: Status) -> None:
    found = resume_decision(make_run(status, paused=True), by=BY)
    if status in AT_REST:
        assert found == Illegal(status, Cause.RESUME)
    else:
        assert found == Decision(Cause.RESUME, None, BY, sets={"paused": False}, silent={})


@pytest.mark.parametrize("status", sorted(set(Status) - AT_REST))
def test_what_nobody_paused_cannot_be_resumed(status: Status) -> None:
    with refused(Conflict, "not_paused", f"the run is {status} and not paused"):
        resume_decision(make_run(status), by=BY)


@pytest.mark.parametrize("status", sorted(AT_REST))
def test_a_run_at_rest_is_not_resumed_whether_it_was_paused_or_not(status: Status) -> None:
    assert resume_decision(make_run(status), by=BY) == Illegal(status, Cause.RESUME)


@pytest.mark.parametrize("status", sorted(Status))
def test_a_lane_is_told_its_start_once_and_never_where_work_has_ended(status: Status) -> None:
    later = EPOCH + timedelta(seconds=5)
    told = Decision(Cause.START, None, BY, sets={"startAt": later})
    wanted = Illegal(status, Cause.START) if status in AT_REST else told
    assert start_decision(make_run(status), later, by=BY) == wanted
    assert start_decision(make_run(status, start_at=EPOCH), later, by=BY) is None, "the first moment stands"


def test_people_may_say_this_much() -> None:
    assert (NOTES_MAX, NOTE_CHARS_MAX) == (20, 1_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "x"),
        (" \n x  y\t ", "x  y"),
        ("x" * NOTE_CHARS_MAX, "x" * NOTE_CHARS_MAX),
        ("  " + "x" * NOTE_CHARS_MAX + "\n", "x" * NOTE_CHARS_MAX),
    ],
    ids=["one character", "space around it", "the most", "the most and space around it"],
)
def test_a_note_is_kept_without_the_space_around_it(text: str, said: str) -> None:
    assert noted(text) == said


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), (" \n\t", 0), ("x" * (NOTE_CHARS_MAX + 1), 1_001)], ids=str
)
def test_a_note_that_is_empty_or_too_long_is_refused(text: str, count: int) -> None:
    with refused(Rejected, "bad_note", f"a note is text of 1 to 1000 characters, not {count}"):
        noted(text)


@pytest.mark.parametrize("status", list(Status))
def test_a_note_is_added_behind_the_others_also_when_the_run_has_ended(status: Status) -> None:
    found = note_decision(make_run(status, notes_count=2), "$look", by="$me")
    notes = added(3, "$look", by="$me")
    assert found == Decision(Cause.NOTE, None, "$me", sets={"notes": notes}, silent={})


@pytest.mark.parametrize("count", [0, NOTES_MAX - 1])
def test_a_run_takes_so_many_notes(count: int) -> None:
    found = note_decision(make_run(notes_count=count), "look", by=BY)
    assert found == Decision(Cause.NOTE, None, BY, sets={"notes": added(count + 1, "look")}, silent={})


@pytest.mark.parametrize("count", [NOTES_MAX, NOTES_MAX + 1])
def test_a_run_takes_no_more_notes_than_that(count: int) -> None:
    with refused(Conflict, "too_many_notes", "the run has 20 notes, which is the limit"):
        note_decision(make_run(notes_count=count), "look", by=BY)


@pytest.mark.parametrize(
    ("review", "to"), [(PASS, Status.HUMAN_VALIDATED), (FAIL, Status.HUMAN_REJECTED)], ids=["pass", "fail"]
)
def test_a_verdict_ends_the_run_and_stays_in_the_decision_with_its_reasons(
    review: Review, to: Status
) -> None:
    assert review_decision(make_settled(), review, [], ROOTS) == Decision(
        cause=Cause.REVIEW,
        to=to,
        by=f"reviewer:{review.reviewer}",
        sets={
            "finishedAt": ServerTime(),
            "humanVerdict": {
                "verdict": review.verdict,
                "notes": review.notes,
                "reviewer": review.reviewer,
            },
            "sealed": {"attempt": 1, "last": 2, "whole": True, "root": "stored"},
        },
        silent={"logOpen": False},
    )


@pytest.mark.parametrize(
    ("fields", "says", "mark"),
    [
        (
            {"settled": Settled("completed", 7)},
            "events 3 to 7 of attempt 1 are still on their way",
            {"logIncomplete": {"from": 3, "to": 7}},
        ),
        ({}, "nothing says which event of attempt 1 is its last", {}),
        ({"log_open": False}, "nothing says which event of attempt 1 is its last", {}),
        (
            {"settled": Settled("completed", 0), "log_open": False},
            "attempt 1 settled with 0 as its last event, and went on",
            {},
        ),
        (
            {"settled": Settled("completed", 7), "log_open": False, "log_incomplete": True},
            "events 3 to 7 of attempt 1 never arrived",
            {},  # it is marked already
        ),
    ],
    ids=["on its way", "no settle", "no settle, closed", "settled too early", "given up"],
)
def test_a_verdict_on_a_part_of_the_record_has_to_say_so(
    fields: dict[str, Any], says: str, mark: dict[str, Any]
) -> None:
    run = make_run(Status.AWAITING_HUMAN, **fields)
    with pytest.raises(Conflict, match=says) as refusal:
        review_decision(run, PASS, [], ROOTS)
    assert refusal.value.code == "record_incomplete"
    decision = review_decision(run, replace(PASS, incomplete=True), [], ROOTS)
    assert isinstance(decision, Decision)
    assert decision.to is Status.HUMAN_VALIDATED
    assert decision.sets["sealed"] == {"attempt": 1, "last": 2, "whole": False, "root": "stored"}
    assert decision.silent == {"logOpen": False, **mark}


def test_a_verdict_on_files_that_are_not_what_was_registered_has_to_say_so() -> None:
    run = make_settled()
    with pytest.raises(Conflict, match=r"'a' is another; 'b' is gone\. A verdict closes") as refusal:
        review_decision(run, PASS, ["'a' is another", "'b' is gone"], ROOTS)
    assert refusal.value.code == "record_incomplete"
    decision = review_decision(run, replace(PASS, incomplete=True), ["'a' is another"], ROOTS)
    assert isinstance(decision, Decision)
    assert decision.sets["sealed"]["whole"] is False
    assert decision.silent == {"logOpen": False}


@pytest.mark.parametrize("root", [None, "said", "another"])
def test_a_verdict_on_other_lines_than_the_attempt_settled_with_has_to_say_so(root: str | None) -> None:
    run = make_settled(2, root)
    decision = review_decision(run, replace(PASS, incomplete=True), [], ROOTS)
    assert isinstance(decision, Decision)
    assert decision.sets["sealed"]["whole"] is (root != "another")
    if root != "another":
        assert review_decision(run, PASS, [], ROOTS) == decision
        return
    with pytest.raises(Conflict, match="events 1 to 2 of attempt 1 are not those that it settled with") as no:
        review_decision(run, PASS, [], ROOTS)
    assert no.value.code == "record_incomplete"


@pytest.mark.parametrize(
    ("fields", "attempt", "sequence", "is_closed"),
    [
        ({}, 1, 9, False),
        ({"settled": Settled("completed", 7)}, 1, 7, False),
        ({"settled": Settled("completed", 7)}, 1, 8, True),
        ({"settled": Settled("completed", 0)}, 1, 1, True),
        ({"settled": Settled("completed", 0)}, 1, None, False),
        ({"settled": Settled("completed", 7), "attempt": 2}, 1, 8, False),  # its settle is forgotten
        ({"tokens": (AttemptToken(1, "h", None, None, 7),), "attempt": 2}, 1, 7, False),
        ({"tokens": (AttemptToken(1, "h", None, None, 7),), "attempt": 2}, 1, 8, True),
        ({"tokens": (AttemptToken(1, "h", None, None, 0),), "attempt": 2}, 1, 1, True),
        ({"tokens": (AttemptToken(1, "h", None, None, 7),), "attempt": 2}, 2, 8, False),
        ({"sealed": Seal(1, 7, whole=True)}, 1, 1, True),
        ({"sealed": Seal(2, 7, whole=True), "attempt": 2}, 1, 8, True),
    ],
)
def test_a_record_is_closed_behind_its_settle_and_by_a_verdict(
    fields: dict[str, Any], attempt: int, sequence: int, *, is_closed: bool
) -> None:
    assert (make_run(**fields).closes(attempt, sequence) is not None) == is_closed


def test_a_verdict_rests_on_what_the_person_was_shown() -> None:
    run = make_settled()
    assert not isinstance(review_decision(run, replace(PASS, seen=2), [], ROOTS), Illegal)
    for review in (replace(PASS, seen=1), replace(PASS, seen=1, incomplete=True)):
        with refused(
            Conflict,
            "record_changed",
            "you were shown events 1 to 1 of attempt 1, by now there are 2: look again",
        ):
            review_decision(run, review, [], ROOTS)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.AWAITING_HUMAN}))
def test_only_a_run_that_waits_for_a_person_is_reviewed(status: Status) -> None:
    assert review_decision(make_run(status), PASS, [], ROOTS) == Illegal(status, Cause.REVIEW)


@pytest.mark.parametrize(("before", "review"), [("HUMAN_VALIDATED", FAIL), ("HUMAN_REJECTED", PASS)])
def test_a_verdict_is_revised_by_the_other_one_alone_and_the_seal_stays(before: str, review: Review) -> None:
    said = {"verdict": review.verdict, "notes": review.notes, "reviewer": review.reviewer}
    to = next(iter({"HUMAN_VALIDATED", "HUMAN_REJECTED"} - {before}))
    decision = Decision(Cause.REVISE, Status(to), f"reviewer:{review.reviewer}", sets={"humanVerdict": said})
    assert revise_decision(make_run(Status(before)), review) == decision
    with refused(
        Conflict,
        "same_verdict",
        f"the verdict is {review.verdict} already: only the other one revises it",
    ):
        revise_decision(make_run(Status(to)), review)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.HUMAN_VALIDATED, Status.HUMAN_REJECTED}))
def test_only_a_verdict_that_was_given_is_revised(status: Status) -> None:
    assert revise_decision(make_run(status), PASS) == Illegal(status, Cause.REVISE)


async def test_a_verdict_is_revised_for_a_reason() -> None:
    with refused(Rejected, "reason_missing", "a revised verdict needs a reason in `notes`"):
        await Scene(Status.HUMAN_REJECTED).decider.review(RUN_ID, replace(PASS, notes=" \n", revises=True))


async def test_a_revised_verdict_stands_beside_the_first_at_once() -> None:
    scene = Scene(Status.AWAITING_HUMAN, settled=SETTLED)
    await scene.decider.review(RUN_ID, PASS)
    await scene.decider.review(RUN_ID, replace(FAIL, revises=True))
    stored = await scene.db.validations.find({}).sort("_id").to_list()
    assert [(each["_id"], each["verdict"]) for each in stored] == [
        (f"{RUN_ID}/a1/human", "pass"),
        (f"{RUN_ID}/a1/human/000003", "fail"),
    ]


def test_a_verdict_and_who_decides_stay_as_they_were_made() -> None:
    for made, name in ((replace(PASS), "verdict"), (Scene().decider, "runs")):
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, "another")
        with pytest.raises(AttributeError):
            object.__setattr__(made, "opinion", "none of it")


class Rival(ReliableNetwork):
    """Somebody who changes the run just before each of the first `times` decisions about it arrives."""

    def __init__(self, times: int, change: Callable[[], object]) -> None:
        self.left = times
        self.change = change

    def before(self, call: Call) -> None:
        if call.operation == "find_one_and_update" and self.left:
            self.left -= 1
            self.change()


class Files:
    """What is wrong with the files of a run, as a test says."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.error: Transient | None = None
        self.asked = 0

    async def unfit(self, run_id: str) -> list[str]:
        assert run_id == RUN_ID
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.problems


class Scene:
    """A store with one run, and the decider of one replica."""

    def __init__(self, status: Status = Status.RUNNING, collection: str = "runs", **fields: Any) -> None:
        self.servers = ReplicaSet(lambda: EPOCH)
        self.collection: Any = sync_database(self.servers, "others")[collection]
        self.db: Any = async_database(self.servers, "replica")
        clock, ids = ManualClock(), SeededIds()
        self.files = Files()
        self.decider = Decider(Runs(self.db), Documents(self.db), Events(self.db), self.files, ids, clock)
        submitted = {
            "kind": "probe", "status": "QUEUED", "classKey": "c", "priority": 0, "queuedAt": EPOCH,
            "notBefore": None, "queueDeadline": None, "maxAttempts": 3, "review": "human",
            "hypothesisId": None,
        }  # fmt: skip
        self.collection.update_one({"_id": RUN_ID}, creation(submitted, by="me"), upsert=True)
        self.collection.update_one(
            {"_id": RUN_ID}, {"$set": {"status": status.value, "attempt": 1, **fields}}
        )
        self.before = self.stored

    @property
    def stored(self) -> dict[str, Any]:
        found: dict[str, Any] = self.collection.find_one({"_id": RUN_ID})
        return found

    def bump(self) -> None:
        """Change the run as another decision would."""
        self.collection.update_one({"_id": RUN_ID}, {"$inc": {"revision": 1}})

    def rivaled(self, times: int, change: Callable[[], object] | None = None) -> Decider:
        """Return the decider, with somebody who is faster so often."""
        self.servers.network = Rival(times, change or self.bump)
        return self.decider

    def must_have_decided(self, cause: Cause, to: Status, by: str, **sets: Any) -> None:
        """Hold the whole stored run against the one decision that was made about it."""
        entry = {
            "n": 2, "cause": cause.value, "by": by, "at": EPOCH, "from": self.before["status"],
            "to": to.value, "attempt": 1, "seq": 0, "set": sets,
        }  # fmt: skip
        journal = [*self.before["journal"], entry]
        expected = {**self.before, **sets, "status": to.value, "revision": 2, "journal": journal}
        assert self.stored == expected


@pytest.mark.parametrize("collection", ["runs", "ideation_requests"])
async def test_a_held_run_is_ordered_to_stop(collection: str) -> None:
    scene = Scene(Status.RUNNING, collection)
    run = await scene.decider.cancel(RUN_ID, by=BY)
    scene.must_have_decided(Cause.CANCEL, Status.CANCELING, BY, cancelRequested={"by": BY, "at": EPOCH})
    assert run == decode(scene.stored)


STOP: Final = Stop(metric="loss", step=3, value=0.75, bound=0.5, members=5)


@pytest.mark.parametrize("status", Status)
async def test_a_member_is_pruned_only_while_this_attempt_works_on_it(status: Status) -> None:
    scene = Scene(status)
    await scene.decider.prune(AttemptId(RUN_ID, 2), STOP, by=BY)
    assert scene.stored == scene.before
    run = await scene.decider.prune(AttemptId(RUN_ID, 1), STOP, by=BY)
    if status not in LIVE:
        assert scene.stored == scene.before
        return
    asked = {"by": BY, "at": EPOCH, "pruned": STOP.stored()}
    scene.must_have_decided(Cause.CANCEL, Status.CANCELING, BY, cancelRequested=asked)
    assert run == decode(scene.stored)
    pruned = scene.stored
    await scene.decider.prune(AttemptId(RUN_ID, 1), STOP, by="group:other")  # another replica saw it, too
    await scene.decider.cancel(RUN_ID, by="user:ada")
    assert scene.stored == pruned


@pytest.mark.parametrize("status", WAITING)
async def test_a_run_that_nobody_works_on_is_canceled_at_once(status: Status) -> None:
    scene = Scene(status)
    run = await scene.decider.cancel(RUN_ID, by=BY)
    scene.must_have_decided(
        Cause.CANCEL,
        Status.CANCELED,
        BY,
        cancelRequested={"by": BY, "at": EPOCH},
        finishedAt=EPOCH,
        paused=False,
    )
    assert run == decode(scene.stored)


@pytest.mark.parametrize("status", [Status.CANCELING, Status.CANCELED])
async def test_a_second_cancel_changes_nothing(status: Status) -> None:
    scene = Scene(status)
    assert await scene.decider.cancel(RUN_ID, by=BY) == decode(scene.before)
    assert scene.stored == scene.before


async def test_a_cancel_that_another_cancel_overtook_is_done() -> None:
    scene = Scene()

    def cancel() -> None:
        decision = Decision(Cause.CANCEL, Status.CANCELING, "user:other")
        scene.collection.update_one({"_id": RUN_ID}, update(decision))

    run = await scene.rivaled(1, cancel).cancel(RUN_ID, by=BY)
    assert (run.status, run.revision, run.journal[-1].by) == (Status.CANCELING, 2, "user:other")


async def test_a_run_is_paused_and_resumed_where_it_stands() -> None:
    scene = Scene()
    assert await scene.decider.pause(RUN_ID, by=BY) == decode(scene.stored)
    scene.must_have_decided(Cause.PAUSE, Status.RUNNING, BY, paused=True)
    assert await scene.decider.pause(RUN_ID, by="user:other") == decode(scene.stored)
    scene.must_have_decided(Cause.PAUSE, Status.RUNNING, BY, paused=True)

    scene = Scene(paused=True)
    assert await scene.decider.resume(RUN_ID, by=BY) == decode(scene.stored)
    scene.must_have_decided(Cause.RESUME, Status.RUNNING, BY, paused=False)


async def test_notes_are_stored_as_they_were_said() -> None:
    first = {"number": 1, "at": EPOCH - timedelta(hours=1), "by": "user:other", "text": "first"}
    scene = Scene(notes=[first])
    run = await scene.decider.note(RUN_ID, '  $look {"$at": "this"}\n', by="$me")
    second = {"number": 2, "at": EPOCH, "by": "$me", "text": '$look {"$at": "this"}'}
    scene.must_have_decided(Cause.NOTE, Status.RUNNING, "$me", notes=[first, second])
    assert run == decode(scene.stored)


async def test_a_run_from_before_there_were_notes_takes_its_first() -> None:
    scene = Scene()
    scene.collection.update_one({"_id": RUN_ID}, {"$unset": {"notes": ""}})
    await scene.decider.note(RUN_ID, "look", by=BY)
    assert scene.stored["notes"] == [{"number": 1, "at": EPOCH, "by": BY, "text": "look"}]


async def test_a_note_that_another_overtook_gets_the_next_number() -> None:
    scene = Scene()

    def write() -> None:
        other = Decision(Cause.NOTE, None, "user:other", sets={"notes": added(1, "first", "user:other")})
        scene.collection.update_one({"_id": RUN_ID}, update(other))

    run = await scene.rivaled(1, write).note(RUN_ID, "second", by=BY)
    assert run.notes_count == 2
    assert [(each["number"], each["text"]) for each in scene.stored["notes"]] == [(1, "first"), (2, "second")]


async def test_a_bad_note_is_refused_before_anybody_looks_for_the_run() -> None:
    with refused(Rejected, "bad_note", "a note is text of 1 to 1000 characters, not 0"):
        await Scene().decider.note("nobody", " ", by=BY)


async def test_a_verdict_is_stored_and_stands_beside_the_run_at_once() -> None:
    scene = Scene(Status.AWAITING_HUMAN, settled=SETTLED)
    run = await scene.decider.review(RUN_ID, PASS)
    said = {"verdict": "pass", "notes": "well done", "reviewer": "ada"}
    scene.must_have_decided(
        Cause.REVIEW,
        Status.HUMAN_VALIDATED,
        "reviewer:ada",
        finishedAt=EPOCH,
        humanVerdict=said,
        sealed={"attempt": 1, "last": 0, "whole": True, "root": NOTHING},
        paused=False,
    )
    assert run == decode(scene.stored)
    assert await scene.db.validations.find({}).to_list() == [
        {
            "_id": f"{RUN_ID}/a1/human", "runId": RUN_ID, "attempt": 1, "by": "human", "verdict": "pass",
            "summary": "well done", "reviewer": "ada", "scores": {}, "at": EPOCH, "seq": 2,
        }
    ]  # fmt: skip


async def test_a_storage_that_is_away_keeps_nobody_from_an_incomplete_verdict() -> None:
    scene = Scene(Status.AWAITING_HUMAN, settled=SETTLED)
    scene.files.error = Transient("storage_unreachable", "object storage does not answer")
    with refused(Transient, "storage_unreachable", "object storage does not answer"):
        await scene.decider.review(RUN_ID, PASS)
    seal = (await scene.decider.review(RUN_ID, replace(PASS, incomplete=True))).sealed
    assert seal is not None
    assert not seal.whole


async def test_the_files_of_a_run_are_looked_at_where_it_waits_for_a_verdict() -> None:
    scene = Scene(Status.AWAITING_HUMAN, settled=SETTLED)
    scene.files.problems = ["'a' is another"]
    with pytest.raises(Conflict, match="'a' is another"):
        await scene.decider.review(RUN_ID, PASS)
    assert (await scene.decider.review(RUN_ID, replace(PASS, incomplete=True))).sealed == Seal(
        1, 0, whole=False, root=NOTHING
    )
    assert scene.files.asked == 2
    with pytest.raises(Conflict, match="HUMAN_VALIDATED"):
        await scene.decider.review(RUN_ID, PASS)
    assert scene.files.asked == 2


async def test_a_file_that_completes_the_record_while_a_verdict_is_given_is_looked_at_too() -> None:
    late = {"settled": {**SETTLED, "last": 1}, "logIncomplete": {"from": 1, "to": 1}}
    scene = Scene(Status.AWAITING_HUMAN, **late)

    def arrive() -> None:
        scene.files.problems = ["'a' is another"]
        scene.collection.update_one({"_id": RUN_ID}, {"$set": {"lastEventSeq": 1, "logIncomplete": None}})

    run = await scene.rivaled(1, arrive).review(RUN_ID, replace(PASS, incomplete=True))
    assert run.sealed is not None
    assert (run.sealed.last, run.sealed.whole) == (1, False)


Act = Callable[[Decider, str], Awaitable[Run]]
ACTS: Final[dict[Cause, Act]] = {
    Cause.CANCEL: lambda decider, run_id: decider.cancel(run_id, by=BY),
    Cause.PAUSE: lambda decider, run_id: decider.pause(run_id, by=BY),
    Cause.RESUME: lambda decider, run_id: decider.resume(run_id, by=BY),
    Cause.NOTE: lambda decider, run_id: decider.note(run_id, "look", by=BY),
    Cause.REVIEW: lambda decider, run_id: decider.review(run_id, FAIL),
    Cause.REVISE: lambda decider, run_id: decider.review(run_id, replace(FAIL, revises=True)),
}


@pytest.mark.parametrize("cause", ACTS)
async def test_nobody_decides_about_a_run_that_does_not_exist(cause: Cause) -> None:
    with refused(NotFound, "unknown_run", "there is no run nobody"):
        await ACTS[cause](Scene().decider, "nobody")


@pytest.mark.parametrize("cause", sorted(ACTS.keys() - {Cause.NOTE}))
async def test_what_no_row_of_the_table_allows_is_a_conflict_and_changes_nothing(cause: Cause) -> None:
    scene = Scene(Status.FAILED)
    with refused(Conflict, "illegal_transition", f"a run that is FAILED cannot change by '{cause}'"):
        await ACTS[cause](scene.decider, RUN_ID)
    assert scene.stored == scene.before
    assert await scene.db.validations.find({}).to_list() == []


@pytest.mark.parametrize("times", [1, TRIES_MAX - 1])
async def test_a_decision_is_tried_again_while_others_are_faster(times: int) -> None:
    run = await (scene := Scene()).rivaled(times).pause(RUN_ID, by=BY)
    assert (run.paused, run.revision) == (True, times + 2)
    assert run == decode(scene.stored)


async def test_a_run_that_changes_too_fast_is_left_alone() -> None:
    scene = Scene()
    with refused(Transient, "contended", f"run {RUN_ID} is changing concurrently; try again"):
        await scene.rivaled(TRIES_MAX).pause(RUN_ID, by=BY)
    assert scene.stored == {**scene.before, "revision": TRIES_MAX + 1}
    assert TRIES_MAX == 50


async def test_whoever_is_overtaken_decides_about_the_run_as_it_is_then() -> None:
    scene = Scene()

    def end() -> None:
        decision = Decision(Cause.END_COMPLETED, Status.COMPLETED, "pod/1#a1")
        scene.collection.update_one({"_id": RUN_ID}, update(decision))

    with refused(Conflict, "illegal_transition", "a run that is COMPLETED cannot change by 'pause'"):
        await scene.rivaled(1, end).pause(RUN_ID, by=BY)
    assert (scene.stored["paused"], scene.stored["revision"]) == (False, 2)


@pytest.mark.parametrize("status", sorted(HELD - {Status.CANCELING}))
async def test_a_cancel_reaches_whoever_holds_the_run(status: Status) -> None:
    run = await Scene(status).decider.cancel(RUN_ID, by=BY)
    assert (run.status, run.journal[-1].came_from) == (Status.CANCELING, status.value)
