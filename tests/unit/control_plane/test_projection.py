"""What events change, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model import projection
from control_plane.model.projection import (
    ARTIFACTS,
    MESSAGE_MAX,
    SHOWN_ONLY,
    AttemptView,
    Fold,
    SetAside,
    Skip,
    Update,
    Write,
    artifact_id,
    artifact_prefix,
    attempt_id,
    fold,
    project,
    stage_id,
)
from control_plane.model.run import CurrentStage
from events import catalog as c
from events.envelope import Event
from events.files.checkpoints import emptied
from events.kinds.benchmark import ItemsAsked
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import (
    ClaimJudged,
    ClaimRegistered,
    DataWarned,
    NodeCodeGenerated,
    NodeCompleted,
    NodeCreated,
    NodeExecuting,
    NodeRestored,
    NodeSelectedBest,
    PaperGenerated,
    PaperStarted,
)
from events.kinds.ideation import IdeationFailed, IdeationGenerated, IdeationStarted
from events.kinds.kind import Projected
from events.lifecycle import Cause
from events.queue.settlement import End
from tests.unit.control_plane import histories
from tests.unit.control_plane.histories import SHA256, log_of, moment_at

VIEW = AttemptView("r", 2)
HALF: Final = CurrentStage("train", 0.5, "half way")
DONE: Final = CurrentStage("train", 1.0)
# An attempt of which everything but the end is known: what an event does not change has to stay.
FULL: Final = AttemptView(
    "r", 2, HALF, moment_at(1), {"verdict": "pass", "summary": None}, {"code": "EARLIER"}, None
)
SHOWN: Final = Skip("it is shown from the log")
MARK: Final = {"runId": "r", "attempt": 2}
FAILED: Final = c.RunFailed(
    code="TIMEOUT", message="$too {slow}", stage="train", traceback="line 1", retryable=True
)

ENDS: Final = [
    (c.RunCompleted(summary="done"), End("completed", None, None, None, retryable=False)),
    (FAILED, End("failed", "TIMEOUT", "$too {slow}", "train", retryable=True)),
    (c.RunFailed(code="X", message=""), End("failed", "X", "", None, retryable=False)),
    (c.RunCanceled(reason="not needed"), End("canceled", None, "not needed", None, retryable=False)),
    (c.RunCanceled(), End("canceled", None, None, None, retryable=False)),
    (c.RunPreempted(reason="spot"), End("preempted", None, "spot", None, retryable=False)),
    (c.RunPreempted(), End("preempted", None, None, None, retryable=False)),
]
FOLDED: Final[list[Fact]] = [
    c.RunStarted(),
    c.LaneReady(offset_s=0.0, bound_s=0.001, hears_s=0.5),
    c.LaneStarted(
        agreed=datetime(2026, 1, 1, tzinfo=UTC), late_s=0.002, ready_late_s=0.0, offset_s=0.0, bound_s=0.001
    ),
    c.StageStarted(stage="train"),
    c.StageProgress(stage="train", progress=0.5),
    c.StageCompleted(stage="train"),
    *(fact for fact, _ in ENDS),
    histories.artifact(attempt=2),
    c.ValidationAutoStarted(),
    c.ValidationAutoCompleted(verdict="pass"),
    IdeationGenerated(ideas=[]),
    ClaimJudged(
        data="iris", name="iris", part="test", measurement="m", conclusion="supported", says="the first"
    ),
    IdeationFailed(code="X", message="", unfinished=[{}]),
    c.ResultRecorded(set="rows", key="k", values={"value": 1}),
    c.RunSummarized(values={"value": 1}),
]
ONLY_SHOWN: Final[list[Fact]] = [
    c.RunEnqueued(kind="probe"),
    c.RunHeartbeat(gpu_util=0.5),
    c.StageMetric(stage="train", name="loss", value=1.0),
    c.RunLog(message="hello"),
    c.StatusChanged(cause="claim", to="SCHEDULED"),
    c.RunUsage(seconds=1.0),
    c.EventRefused(refused_type="ai.run.log", code="too_large", message=""),
    c.NoteAnswered(number=1, outcome="taken", says="it is tried"),
    DataWarned(says="a column looks like an owner"),
    NodeCreated(stage="train", node="1", plan=""),
    NodeCodeGenerated(stage="train", node="1"),
    NodeExecuting(stage="train", node="1"),
    NodeCompleted(stage="train", node="1", buggy=False, seconds=1.0),
    NodeRestored(stage="train", node="1", from_attempt=1, plan="", buggy=False, seconds=1.0),
    NodeSelectedBest(stage="train", node="1"),
    ItemsAsked(suite="gsm8k", keys=["gsm8k/1"]),
    IdeationStarted(),
    IdeationFailed(code="X", message=""),
    ClaimRegistered(
        metric="accuracy",
        direction="increase",
        unit="a split",
        units=10,
        rows=150,
        test_rows=45,
        estimator="a mean",
        test="a test",
        level=0.0175,
        stopping="when all are there",
    ),
    PaperStarted(),
    PaperGenerated(name="paper.pdf"),
    c.ValidationHumanCompleted(verdict="pass"),
    c.ArtifactDetected(name="probe.bin"),
    c.ArtifactFailed(name="probe.bin", code="X", message=""),
    c.Unknown(),
]


def event_of(fact: Fact, sequence: int | None = 1) -> Event:
    return histories.said(fact, sequence, attempt=2)


def untimed(fact: Fact, sequence: int = 1) -> Event:
    event = event_of(fact, sequence)
    return Event(**{name: getattr(event, name) for name in event.__struct_fields__} | {"time": None})


def written(*events: Event) -> Write:
    folded = fold(VIEW, list(events), 0)
    (write,) = folded.writes.values()
    return write


def of_stage(name: str, sequence: int, fields: Mapping[str, Any]) -> Write:
    return Write("stages", f"r/a2/{name}", sequence, {**MARK, "name": name, **fields})


def name_of(value: object) -> str:
    return type(value).__name__


def test_ideas_are_kept_as_they_were_said_one_document_an_attempt() -> None:
    ideas = [{"Name": "one", "of nobody": {"$gt": 1}}]
    write = written(event_of(IdeationGenerated(ideas=ideas, unfinished=[{"Name": "two"}])))
    assert (write.collection, write.id, write.seq) == ("ideas", "r/a2/ideas", 1)
    assert write.fields["ideas"] == ideas
    assert write.fields["unfinished"] == [{"Name": "two"}]
    assert (write.fields["runId"], write.fields["attempt"]) == ("r", 2)


def test_what_was_generated_last_in_an_attempt_counts() -> None:
    first = event_of(IdeationGenerated(ideas=[{"Name": "one"}]))
    second = event_of(IdeationGenerated(ideas=[{"Name": "one"}, {"Name": "two"}]), 2)
    write = written(first, second)
    assert (write.seq, len(write.fields["ideas"]), write.fields["unfinished"]) == (2, 2, [])


def test_a_failed_ideation_is_shown_from_the_log() -> None:
    effect = project(VIEW, event_of(IdeationFailed(code="NO_IDEA", message="none was finalised")))
    assert isinstance(effect, Skip)


def test_a_verdict_on_rows_is_one_document_an_attempt_and_part_whose_last_word_counts() -> None:
    said = {"data": "iris", "name": "iris", "conclusion": "supported", "says": "the first"}
    first, again, reserve = (
        ClaimJudged(part=part, measurement=measurement, **said)
        for part, measurement in (("test", "m1"), ("test", "m2"), ("reserve", "m3"))
    )
    events = [event_of(each, number) for number, each in enumerate((first, again, reserve), 1)]
    writes = fold(VIEW, events, 0).writes
    kept = {identity: write.fields["measurement"] for (_, identity), write in writes.items()}
    assert kept == {"r/a2/test": "m2", "r/a2/reserve": "m3"}


def test_what_a_failed_ideation_has_begun_is_kept_beside_no_ideas() -> None:
    begun = [{"number": 1, "why": "the model gave no answer", "idea": None}]
    write = written(event_of(IdeationFailed(code="NO_IDEA", message="none", unfinished=begun)))
    assert (write.collection, write.fields["ideas"], write.fields["unfinished"]) == ("ideas", [], begun)


def test_folding_again_ends_in_the_same_documents() -> None:
    events = [event_of(IdeationGenerated(ideas=[{"Name": str(n)}]), n) for n in range(1, 4)]
    again = fold(VIEW, events, 0)
    assert again.writes == fold(VIEW, events, 0).writes
    assert isinstance(project(again.view, events[0]), Update)


def test_a_start_tells_its_moment_and_is_a_phase() -> None:
    update = project(replace(FULL, started_at=None), event_of(c.RunStarted(pod="pod/1"), 3))
    assert update == Update(replace(FULL, started_at=moment_at(3)), (), Cause.STARTED, None)


def test_an_automatic_validation_that_starts_is_a_phase_and_no_more() -> None:
    assert project(FULL, event_of(c.ValidationAutoStarted())) == Update(FULL, (), Cause.AUTO_STARTED, None)


@pytest.mark.parametrize(
    ("fact", "now", "fields"),
    [
        (
            c.StageStarted(stage="test", index=2, total=3),
            CurrentStage("test", 0.0, None),
            {
                "index": 2, "total": 3, "status": "RUNNING", "progress": 0.0, "startedAt": moment_at(7),
                "order": 7,
            },
        ),
        (
            c.StageStarted(stage="test"),
            CurrentStage("test", 0.0, None),
            {
                "index": None, "total": None, "status": "RUNNING", "progress": 0.0,
                "startedAt": moment_at(7), "order": 7,
            },
        ),
        (
            c.StageProgress(stage="test", progress=0.75, activity="fits"),
            CurrentStage("test", 0.75, "fits"),
            {"status": "RUNNING", "progress": 0.75, "activity": "fits"},
        ),
        (
            c.StageProgress(stage="test", progress=0.0),
            CurrentStage("test", 0.0, None),
            {"status": "RUNNING", "progress": 0.0, "activity": None},
        ),
        (
            c.StageCompleted(stage="test", duration_s=1.5),
            CurrentStage("test", 1.0, None),
            {
                "status": "COMPLETED", "progress": 1.0, "activity": None, "completedAt": moment_at(7),
                "durationS": 1.5,
            },
        ),
        (
            c.StageCompleted(stage="test"),
            CurrentStage("test", 1.0, None),
            {
                "status": "COMPLETED", "progress": 1.0, "activity": None, "completedAt": moment_at(7),
                "durationS": None,
            },
        ),
    ],
)  # fmt: skip
def test_what_is_said_of_a_stage_is_written_to_its_document_and_is_what_the_attempt_does_now(
    fact: Fact, now: CurrentStage, fields: Mapping[str, Any]
) -> None:
    name = {c.StageStarted: "workedFrom", c.StageCompleted: "workedUntil"}.get(type(fact))
    marks = None if name is None else {name: moment_at(7)}
    expected = Update(
        replace(FULL, current_stage=now, marks=marks), (of_stage("test", 7, fields),), None, None
    )
    assert project(FULL, event_of(fact, 7)) == expected


def test_the_marks_of_an_attempt_are_those_of_its_own_work_and_of_its_last_checkpoint() -> None:
    def kept(manifest: str, *, sets_aside: bool = False) -> c.ArtifactRegistered:
        name = f"checkpoints/{manifest}/manifest.json"
        digest = hashlib.sha256(emptied(manifest, "r", 2)).hexdigest() if sets_aside else SHA256
        return c.ArtifactRegistered(name=name, key=f"runs/r/a2/0123/{name}", size=3, sha256=digest)

    told: list[tuple[Fact, dict[str, int] | None]] = [
        (c.StageStarted(stage="environment"), None),
        (c.StageCompleted(stage="environment"), None),
        (kept("train", sets_aside=True), {"setAsideAt": 3}),
        (c.StageStarted(stage="train"), {"setAsideAt": 3, "workedFrom": 4}),
        (histories.artifact(attempt=2), {"setAsideAt": 3, "workedFrom": 4}),
        (kept("train"), {"setAsideAt": 3, "workedFrom": 4, "savedUntil": 6}),
        (
            c.StageCompleted(stage="train"),
            {"setAsideAt": 3, "workedFrom": 4, "savedUntil": 6, "workedUntil": 7},
        ),
        (c.StageStarted(stage="test"), {"setAsideAt": 3, "workedFrom": 4, "savedUntil": 6}),
        (kept("test"), {"setAsideAt": 3, "workedFrom": 4, "savedUntil": 9}),
    ]
    view, log = VIEW, log_of([fact for fact, _ in told], attempt=2)
    for event, (_, marks) in zip(log, told, strict=True):
        view = fold(view, [event], (event.sequence or 0) - 1).view
        shown = None if marks is None else {name: moment_at(second) for name, second in marks.items()}
        assert view.marks == shown
    assert fold(view, log, 0).view.marks == view.marks, "the same stretch again changes nothing"


def test_a_stage_has_one_document_from_its_start_to_its_end() -> None:
    folded = fold(
        VIEW,
        log_of(
            [
                c.StageStarted(stage="train", index=1, total=2),
                c.StageProgress(stage="train", progress=0.5, activity="half way"),
                c.StageCompleted(stage="train", duration_s=2.0),
            ],
            attempt=2,
        ),
        0,
    )
    fields = {
        "index": 1, "total": 2, "status": "COMPLETED", "progress": 1.0, "startedAt": moment_at(1), "order": 1,
        "activity": None, "completedAt": moment_at(3), "durationS": 2.0,
    }  # fmt: skip
    writes = {("stages", "r/a2/train"): of_stage("train", 3, fields)}
    marks = {"workedFrom": moment_at(1), "workedUntil": moment_at(3)}
    view = replace(VIEW, current_stage=DONE, marks=marks)
    assert folded == Fold(view, 3, writes, [], None, [])


def test_each_stage_has_a_document_of_its_own() -> None:
    folded = fold(VIEW, log_of([c.StageStarted(stage=name) for name in "aba"], attempt=2), 0)
    assert {write.id: (write.seq, write.fields["order"]) for write in folded.writes.values()} == {
        "r/a2/a": (3, 3),
        "r/a2/b": (2, 2),
    }


@pytest.mark.parametrize(("fact", "end"), ENDS, ids=name_of)
@pytest.mark.parametrize("stage", [None, DONE], ids=["no stage", "a completed stage"])
def test_an_end_with_no_stage_open_is_the_attempts_end_and_writes_nothing(
    fact: Fact, end: End, stage: CurrentStage | None
) -> None:
    view = replace(FULL, current_stage=stage)
    update = project(view, event_of(fact, 9))
    assert isinstance(update, Update)
    assert update == Update(replace(view, end_seq=9, error=update.view.error), (), None, end)


def test_a_run_that_completed_has_no_stage_to_close() -> None:
    expected = Update(replace(FULL, end_seq=9), (), None, End("completed"))
    assert project(FULL, event_of(c.RunCompleted(), 9)) == expected


@pytest.mark.parametrize(("fact", "end"), ENDS[1:], ids=name_of)
def test_a_stage_that_is_open_as_the_attempt_breaks_off_ends_with_it(fact: Fact, end: End) -> None:
    update = project(FULL, event_of(fact, 9))
    assert isinstance(update, Update)
    closed = of_stage("train", 9, {"status": end.outcome.upper(), "completedAt": moment_at(9)})
    assert update == Update(replace(FULL, end_seq=9, error=update.view.error), (closed,), None, end)


@pytest.mark.parametrize("progress", [0.0, 0.999])
def test_a_stage_is_open_until_it_is_whole(progress: float) -> None:
    view = replace(VIEW, current_stage=CurrentStage("train", progress))
    update = project(view, event_of(c.RunPreempted(), 9))
    assert isinstance(update, Update)
    closed = {"status": "PREEMPTED", "completedAt": moment_at(9)}
    assert update.writes == (of_stage("train", 9, closed),)


def test_a_failure_is_the_attempts_error_with_its_traceback() -> None:
    update = project(replace(FULL, error=None), event_of(FAILED))
    assert isinstance(update, Update)
    assert update.view.error == {
        "code": "TIMEOUT",
        "message": "$too {slow}",
        "stage": "train",
        "retryable": True,
        "traceback": "line 1",
    }


@pytest.mark.parametrize("fact", [c.RunCompleted(), c.RunCanceled(), c.RunPreempted()], ids=name_of)
def test_no_other_end_is_an_error(fact: Fact) -> None:
    for before in (FULL, replace(FULL, error=None)):
        update = project(before, event_of(fact))
        assert isinstance(update, Update)
        assert update.view.error == before.error


@pytest.mark.parametrize("length", [0, 1, 3_999, 4_000, 4_001, 9_000])
def test_of_a_failures_message_the_first_four_thousand_characters_are_kept(length: int) -> None:
    message = "".join(str(number % 10) for number in range(length))
    update = project(VIEW, event_of(c.RunFailed(code="X", message=message)))
    assert isinstance(update, Update)
    assert update.view.error is not None
    assert update.end is not None
    assert update.view.error["message"] == update.end.message == message[:4_000]
    assert MESSAGE_MAX == 4_000


def test_a_registered_file_is_one_document_with_all_that_was_said_of_it() -> None:
    fact = histories.artifact("probe.bin", attempt=2, size=0, content_type="text/csv", stage="train")
    identity = "r/a2/" + hashlib.sha256(b"probe.bin").hexdigest()[:16]
    fields = {
        **MARK, "name": "probe.bin", "key": "runs/r/a2/0123/probe.bin", "size": 0, "sha256": SHA256,
        "contentType": "text/csv", "stage": "train", "registeredAt": moment_at(5),
    }  # fmt: skip
    expected = Update(FULL, (Write("artifacts", identity, 5, fields),), None, None)
    assert project(FULL, event_of(fact, 5)) == expected


def test_a_file_that_is_registered_again_under_its_name_replaces_what_was_known_of_it() -> None:
    first = histories.artifact("a", attempt=2, stage="train")
    second = histories.artifact("a", attempt=2, size=7, sha256="1" * 64)
    write = written(event_of(first, 1), event_of(second, 2))
    assert (write.seq, write.fields) == (
        2,
        written(event_of(second, 1)).fields | {"registeredAt": moment_at(2)},
    )
    assert write.fields["stage"] is None


@pytest.mark.parametrize(
    "key",
    [
        "runs/r/a1/probe.bin",
        "runs/r/a20/probe.bin",
        "runs/r/a2",
        "runs/r2/a2/probe.bin",
        "runs/other/a2/probe.bin",
        "probe.bin",
    ],
)
def test_a_file_that_lies_where_another_attempt_writes_is_set_aside(key: str) -> None:
    fact = histories.artifact("probe.bin", key=key)
    expected = SetAside("foreign_key", "the key of 'probe.bin' is not below runs/r/a2/")
    assert project(FULL, event_of(fact)) == expected


OWN = "runs/r/a2/x"
LEADING_AWAY = (
    "runs/r/a2/../../victim/a1/x", "runs/r/a2/..", "runs/r/a2/./x", "runs/r/a2//x", "runs/r/a2/",
    "/runs/r/a2/x", "runs/r/a2/x\\..\\y", "runs/r/a2/x\n", "runs/r/a2/x\x1b[2J", "runs/r/a2/" + "x" * 256,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("probe.bin", key) for key in LEADING_AWAY),
        *(
            (name, OWN)
            for name in ("../x", "..", "checkpoints/../manifest.json", "a//b", "/etc/passwd", "a\rb")
        ),
    ],
)
def test_a_file_whose_name_or_key_is_no_path_is_set_aside_in_words(name: str, key: str) -> None:
    aside = project(FULL, event_of(histories.artifact(name, key=key)))
    assert isinstance(aside, SetAside)
    assert aside.code == "bad_path"
    assert "is no" in aside.reason


@pytest.mark.parametrize(
    "name", ["checkpoints/plots/state.json", "checkpoints/plots/3/nodes.png", "plots/nodes/Stage_1-1.svg"]
)
def test_a_name_that_pipelines_use_is_taken(name: str) -> None:
    key = f"runs/r/a2/0123456789abcdef/{name}"
    assert isinstance(project(FULL, event_of(histories.artifact(name, key=key))), Update)


def test_an_automatic_verdict_stands_beside_the_run_and_in_short_in_the_attempt() -> None:
    fact = c.ValidationAutoCompleted(verdict="fail", summary="no gain", scores={"gain": -0.5})
    fields = {
        **MARK, "by": "auto", "verdict": "fail", "summary": "no gain", "scores": {"gain": -0.5},
        "conclusion": None, "code": None, "replication": None, "at": moment_at(5),
    }  # fmt: skip
    after = replace(FULL, validation={"verdict": "fail", "summary": "no gain"})
    expected = Update(after, (Write("validations", "r/a2/auto", 5, fields),), None, None)
    assert project(FULL, event_of(fact, 5)) == expected


def test_a_verdict_says_where_it_was_replicated_or_that_it_asks_for_that() -> None:
    fact = c.ValidationAutoCompleted(verdict="fail", summary="too good", replication="asked for")
    effect = project(FULL, event_of(fact, 5))
    assert isinstance(effect, Update)
    (write,) = effect.writes
    assert effect.view.validation is not None
    assert write.fields["replication"] == effect.view.validation["replication"] == "asked for"


@pytest.mark.parametrize(
    ("verdict", "conclusion", "kept"),
    [
        ("pass", "supported", "supported"),
        ("fail", "contradicted", "contradicted"),
        ("fail", "inconclusive", "inconclusive"),
        ("fail", "supported", None),
        ("pass", "inconclusive", None),
    ],
)
def test_a_conclusion_is_kept_where_it_fits_the_verdict(
    verdict: c.Verdict, conclusion: c.Conclusion, kept: str | None
) -> None:
    effect = project(FULL, event_of(c.ValidationAutoCompleted(verdict=verdict, conclusion=conclusion), 5))
    assert isinstance(effect, Update)
    (write,) = effect.writes
    assert effect.view.validation is not None
    assert write.fields["conclusion"] == effect.view.validation.get("conclusion") == kept


def test_why_nothing_was_measured_stands_beside_the_verdict_by_its_code() -> None:
    code: c.NotMeasuredCode = "NOT_MEASURED: arms differ"
    fact = c.ValidationAutoCompleted(verdict="fail", conclusion="inconclusive", code=code)
    effect = project(FULL, event_of(fact, 5))
    assert isinstance(effect, Update)
    (write,) = effect.writes
    assert effect.view.validation is not None
    assert write.fields["code"] == effect.view.validation["code"] == code


def test_a_later_verdict_of_an_attempt_leaves_no_replication_of_an_earlier_one() -> None:
    first = c.ValidationAutoCompleted(verdict="fail", replication="on another pod")
    folded = fold(FULL, [event_of(first, 5), event_of(c.ValidationAutoCompleted(verdict="pass"), 6)], 4)
    (write,) = folded.writes.values()
    assert (write.fields["verdict"], write.fields["replication"]) == ("pass", None)
    assert folded.view.validation == {"verdict": "pass", "summary": None}


@pytest.mark.parametrize(
    ("fact", "ideas", "unfinished"),
    [
        (IdeationGenerated(ideas=[{"Name": "one"}], unfinished=[{"n": 2}]), [{"Name": "one"}], [{"n": 2}]),
        (IdeationGenerated(ideas=[{"Name": "one"}]), [{"Name": "one"}], []),
        (IdeationGenerated(ideas=[]), [], []),
        (IdeationFailed(code="X", message="", unfinished=[{"n": 1}]), [], [{"n": 1}]),
        (IdeationFailed(code="X", message="", unfinished=[{"n": 1}, {"n": 2}]), [], [{"n": 1}, {"n": 2}]),
    ],
)
def test_what_ideation_says_is_one_document_and_leaves_the_attempt_as_it_is(
    fact: Fact, ideas: list[Any], unfinished: list[Any]
) -> None:
    fields = {**MARK, "ideas": ideas, "unfinished": unfinished, "generatedAt": moment_at(5)}
    expected = Update(FULL, (Write("ideas", "r/a2/ideas", 5, fields),), None, None)
    assert project(FULL, event_of(fact, 5)) == expected


def test_a_row_is_one_document_that_says_by_what_it_is_sorted() -> None:
    values: dict[str, Any] = {"value": 1.5, "number": True, "group": "g" * 100, "other": "x"}
    fact = c.ResultRecorded(set="rows", key="k", values=values, status="done", detail="k.json")
    view = replace(VIEW, kind="probe")
    effect = project(view, event_of(fact, 5))
    fields = {
        **MARK, "set": "rows", "key": "k", "values": values, "status": "done", "detail": "k.json",
        # of the kind's columns, in their order: one that is of another type sorts as none
        "c0": None, "c1": 1.5, "c2": None, "c3": None, "c4": "g" * 64, "c5": None,
    }  # fmt: skip
    identity = projection.result_id("r", 2, "rows", "k")
    assert effect == Update(view, (Write("results", identity, 5, fields),), None, None)


@pytest.mark.parametrize(("kind", "name"), [("probe", "others"), ("gone", "rows")])
def test_a_row_that_no_kind_declares_is_kept_and_sorted_by_its_key_alone(kind: str, name: str) -> None:
    fact = c.ResultRecorded(set=name, key="k", values={"value": 1})
    effect = project(replace(VIEW, kind=kind), event_of(fact, 5))
    assert isinstance(effect, Update)
    (write,) = effect.writes
    assert sorted(write.fields) == ["attempt", "detail", "key", "runId", "set", "status", "values"]


def test_a_row_that_is_said_again_is_the_later_one_whole() -> None:
    first = c.ResultRecorded(set="s", key="k", values={"a": 1, "b": 2}, status="new", detail="d")
    again = c.ResultRecorded(set="s", key="k", values={"b": 3})
    (write,) = fold(VIEW, log_of([first, again], attempt=2), 0).writes.values()
    assert (write.seq, write.fields["values"]) == (2, {"b": 3})
    assert (write.fields["status"], write.fields["detail"]) == (None, None)


def test_headline_numbers_are_merged_by_name_and_have_a_bound() -> None:
    first = {f"a{n}": n for n in range(60)}
    facts = [
        c.RunSummarized(values=each) for each in (first, {"a0": 7, "b": "x"}, {f"c{n}": 1 for n in range(4)})
    ]
    events = log_of(facts, attempt=2)
    folded = fold(VIEW, events, 0)
    assert folded.view.summary == {**first, "a0": 7, "b": "x"}
    assert folded.set_aside == [
        (events[2], SetAside("too_many_numbers", "an attempt has 64 headline numbers at most"))
    ]


@pytest.mark.parametrize("fact", ONLY_SHOWN, ids=name_of)
def test_what_is_only_shown_changes_nothing(fact: Fact) -> None:
    assert project(FULL, event_of(fact)) == SHOWN
    assert fold(FULL, [event_of(fact)], 0) == Fold(FULL, 1, {}, [], None, [])


def test_what_comes_most_often_is_told_apart_at_once_and_is_only_shown() -> None:
    assert {c.StageMetric, c.RunLog, c.RunHeartbeat} == SHOWN_ONLY
    assert {type(fact) for fact in ONLY_SHOWN} >= SHOWN_ONLY


@pytest.mark.parametrize("fact", FOLDED, ids=name_of)
def test_what_is_not_only_shown_changes_something(fact: Fact) -> None:
    assert isinstance(project(VIEW, event_of(fact)), Update)


def test_every_type_of_the_catalogue_is_folded_or_shown() -> None:
    assert {type(fact) for fact in (*FOLDED, *ONLY_SHOWN)} == {*c.TYPES.values(), c.Unknown}


@pytest.mark.parametrize("fact", [*FOLDED, *ONLY_SHOWN], ids=name_of)
def test_behind_its_end_nothing_changes_an_attempt(fact: Fact) -> None:
    ended = replace(FULL, end_seq=4)
    behind = event_of(fact, 5)
    aside = SetAside("after_end", "attempt 2 ended with event 4")
    assert project(ended, behind) == aside
    assert project(ended, event_of(fact, 500)) == aside
    assert fold(ended, [behind], 4) == Fold(ended, 5, {}, [], None, [(behind, aside)])


@pytest.mark.parametrize("sequence", [1, 3, 4])
@pytest.mark.parametrize("fact", [*FOLDED, *ONLY_SHOWN], ids=name_of)
def test_up_to_its_end_an_attempt_is_folded_again_though_the_end_is_known(fact: Fact, sequence: int) -> None:
    found = project(replace(FULL, end_seq=4), event_of(fact, sequence))
    open_view = project(FULL, event_of(fact, sequence))
    if isinstance(open_view, Update) and open_view.end is None:
        open_view = replace(open_view, view=replace(open_view.view, end_seq=4))
    assert found == open_view


def test_an_event_without_a_position_is_none_of_an_attempts_log() -> None:
    with pytest.raises(AssertionError):
        project(VIEW, event_of(c.RunStarted(), None))


def test_without_a_time_of_its_own_an_event_leaves_the_moment_open() -> None:
    assert project(VIEW, untimed(c.RunStarted())) == Update(VIEW, (), Cause.STARTED, None)
    assert written(untimed(IdeationGenerated(ideas=[]))).fields["generatedAt"] is None


def test_a_moment_is_the_same_from_whatever_offset_it_is_told() -> None:
    there = moment_at(1).astimezone(timezone(timedelta(hours=2)))
    update = project(VIEW, histories.said(c.RunStarted(), 1, attempt=2, time=there))
    assert isinstance(update, Update)
    assert update.view.started_at == moment_at(1)
    assert update.view.started_at.utcoffset() == timedelta(0)


def test_documents_are_named_by_run_and_attempt() -> None:
    assert attempt_id("r", 12) == "r/a12"
    assert stage_id("r", 12, "train") == "r/a12/train"
    assert written(event_of(IdeationGenerated(ideas=[]), 1)).id == "r/a2/ideas"
    assert artifact_id("r", 12, "x") == "r/a12/2d711642b726b044"
    assert artifact_id("r", 12, "größe/🌍") == "r/a12/e893fa8db80df734"
    assert artifact_prefix("r", 12) == "runs/r/a12/"
    assert ARTIFACTS == "runs/"


def test_what_is_not_told_is_empty() -> None:
    assert AttemptView("r", 2) == AttemptView("r", 2, None, None, None, None, None)
    assert Update(VIEW) == Update(VIEW, (), None, None)
    first, second = Fold(VIEW, 0), Fold(VIEW, 0)
    assert first == Fold(VIEW, 0, {}, [], None, [])
    assert first.writes is not second.writes
    assert first.phases is not second.phases
    assert first.set_aside is not second.set_aside
    assert not hasattr(first, "__dict__")


@pytest.mark.parametrize(
    "value", [VIEW, Write("stages", "x", 1, {}), Update(VIEW), Skip("x"), SetAside("x", "y")], ids=name_of
)
def test_what_was_decided_is_not_changed_any_more(value: object) -> None:
    name = next(iter(value.__slots__))  # type: ignore[attr-defined] # each is a slotted dataclass
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)
    assert not hasattr(value, "__dict__")


def test_a_whole_life_folds_to_the_attempts_view_and_every_document_beside_it() -> None:
    folded = fold(VIEW, log_of(histories.whole_life(2), attempt=2), 0)
    stage = {
        "index": 1, "total": 1, "status": "COMPLETED", "progress": 1.0, "startedAt": moment_at(2), "order": 2,
        "activity": None, "completedAt": moment_at(6), "durationS": 1.5,
    }  # fmt: skip
    file = {
        **MARK, "name": "probe.bin", "key": "runs/r/a2/0123/probe.bin", "size": 3, "sha256": SHA256,
        "contentType": "application/octet-stream", "stage": None, "registeredAt": moment_at(5),
    }  # fmt: skip
    identity = artifact_id("r", 2, "probe.bin")
    assert folded == Fold(
        view=AttemptView(
            "r",
            2,
            CurrentStage("probe", 1.0, None),
            moment_at(1),
            None,
            None,
            7,
            marks={"workedFrom": moment_at(2), "workedUntil": moment_at(6)},
        ),
        seq=7,
        writes={
            ("stages", "r/a2/probe"): of_stage("probe", 6, stage),
            ("artifacts", identity): Write("artifacts", identity, 5, file),
        },
        phases=[Cause.STARTED],
        end=End("completed"),
        set_aside=[],
    )


def test_phases_are_kept_in_the_order_in_which_they_were_said() -> None:
    facts = [c.ValidationAutoStarted(), c.RunLog(message=""), c.RunStarted(), c.ValidationAutoStarted()]
    folded = fold(VIEW, log_of(facts, attempt=2), 0)
    assert folded.phases == [Cause.AUTO_STARTED, Cause.STARTED, Cause.AUTO_STARTED]


def test_the_first_end_is_the_end_and_what_follows_is_set_aside() -> None:
    events = log_of(
        [c.RunStarted(), c.RunPreempted(), c.RunCompleted(), c.RunStarted(), c.RunLog(message="")], attempt=2
    )
    aside = SetAside("after_end", "attempt 2 ended with event 2")
    assert fold(VIEW, events, 0) == Fold(
        AttemptView("r", 2, None, moment_at(1), None, None, 2),
        5,
        {},
        [Cause.STARTED],
        End("preempted"),
        [(event, aside) for event in events[2:]],
    )


def test_what_is_set_aside_stops_nothing() -> None:
    events = log_of(
        [histories.artifact(attempt=1), c.StageStarted(stage="train"), histories.artifact(attempt=3)],
        attempt=2,
    )
    folded = fold(VIEW, events, 0)
    aside = SetAside("foreign_key", "the key of 'probe.bin' is not below runs/r/a2/")
    assert folded.set_aside == [(events[0], aside), (events[2], aside)]
    assert (folded.view.current_stage, folded.seq) == (CurrentStage("train", 0.0), 3)


def test_an_empty_stretch_leaves_everything_where_it_was() -> None:
    assert fold(FULL, [], 17) == Fold(FULL, 17, {}, [], None, [])


@pytest.mark.parametrize("positions", [[1], [2], [3], [5], [4, 4], [4, 6], [4, 5, 4]])
def test_a_stretch_that_does_not_follow_its_cursor_step_by_step_is_not_folded(positions: list[int]) -> None:
    with pytest.raises(AssertionError, match=r"^a stretch has no gap"):
        fold(VIEW, [event_of(c.RunLog(message=""), position) for position in positions], 3)


SPOKEN: Final[list[Fact]] = [
    *(c.StageStarted(stage=stage, index=index) for stage in "ab" for index in (1, 2)),
    *(c.StageProgress(stage=stage, progress=progress) for stage in "ab" for progress in (0.5, 1.0)),
    *(c.StageCompleted(stage=stage, duration_s=1.0) for stage in "ab"),
    c.RunStarted(),
    c.RunLog(message="x"),
    c.ValidationAutoStarted(),
    *(c.ValidationAutoCompleted(verdict=verdict) for verdict in ("pass", "fail")),
    IdeationGenerated(ideas=[{"n": 1}]),
    IdeationFailed(code="X", message="", unfinished=[{}]),
    *(histories.artifact("a", attempt=2, size=size) for size in (1, 2)),
    histories.artifact("b", attempt=1),
    *(c.ResultRecorded(set="s", key=key, values={"v": value}) for key in "ab" for value in (1, 2)),
    c.ResultRecorded(set="s", key="a", values={"w": None}, status="done"),
    *(c.RunSummarized(values={name: value}) for name in "vw" for value in (1, 2)),
    *(c.RunSummarized(values={f"{name}{n}": n for n in range(40)}) for name in "xyz"),
    c.RunCompleted(),
    FAILED,
    c.RunPreempted(),
]
HISTORIES: Final = st.lists(st.sampled_from(SPOKEN), max_size=12).map(lambda facts: log_of(facts, attempt=2))


@dataclass
class Stored:
    """The documents of an attempt as the store keeps them: each takes only what is newer than itself."""

    documents: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    set_aside: dict[int, SetAside] = field(default_factory=dict)
    record: AttemptView = VIEW
    record_seq: int = 0

    def write(self, folded: Fold) -> None:
        for write in folded.writes.values():
            known = self.documents.setdefault((write.collection, write.id), {"seq": 0})
            if known["seq"] < write.seq:
                known |= {**write.fields, "seq": write.seq}
        self.set_aside |= {event.sequence or 0: aside for event, aside in folded.set_aside}
        if self.record_seq < folded.seq:
            self.record, self.record_seq = folded.view, folded.seq


def stored(folds: Iterable[Fold]) -> Stored:
    result = Stored()
    for folded in folds:
        result.write(folded)
    return result


@given(events=HISTORIES, cut=st.integers(0, 12))
def test_a_log_folds_to_the_same_in_one_piece_in_two_and_one_event_at_a_time(
    events: list[Event], cut: int
) -> None:
    whole = fold(VIEW, events, 0)
    for cuts in ([0, cut, len(events)], range(len(events) + 1)):
        view, seq = VIEW, 0
        pieces: list[Fold] = []
        for start, stop in pairwise(cuts):
            pieces.append(fold(view, events[start:stop], seq))
            view, seq = pieces[-1].view, pieces[-1].seq
        assert (view, seq) == (whole.view, whole.seq)
        assert [phase for piece in pieces for phase in piece.phases] == whole.phases
        assert [piece.end for piece in pieces if piece.end] == ([whole.end] if whole.end else [])
        assert stored(pieces) == stored([whole])


@given(
    events=HISTORIES,
    tries=st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=8),
)
def test_however_often_an_application_dies_before_its_cursor_moves_the_documents_are_the_same(
    events: list[Event], tries: list[tuple[int, bool]]
) -> None:
    """A try writes beside the run and may die; the next goes on from the run's own view and cursor."""
    kept, view, cursor = Stored(), VIEW, 0
    for length, survives in [*tries, (len(events), True)]:
        # What only the attempt's record has may be ahead of the run.
        view = replace(view, error=kept.record.error, end_seq=kept.record.end_seq)
        folded = fold(view, events[cursor : cursor + length], cursor)
        kept.write(folded)
        if survives:
            view, cursor = folded.view, folded.seq
    whole = fold(VIEW, events, 0)
    assert kept == stored([whole])
    assert (view, cursor) == (whole.view, whole.seq)


def kept(monkeypatch: pytest.MonkeyPatch, *written: Projected, error: Exception | None = None) -> Any:
    """Return what becomes of a fact whose kind writes this, or fails."""
    kind, _ = projection.PROJECTIONS[IdeationGenerated]

    def projected(*_: Any) -> Any:
        if error is not None:
            raise error
        return written

    monkeypatch.setattr(projection, "PROJECTIONS", {IdeationGenerated: (kind, projected)})
    (event,) = log_of([IdeationGenerated(ideas=[])])
    return project(VIEW, event)


def test_a_kind_writes_fields_of_documents_of_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, _ = projection.PROJECTIONS[IdeationGenerated]
    own, *_ = kind.documents
    assert isinstance(kept(monkeypatch, Projected(own.name, "k", {own.fields[0]: 1})), Update)
    for foreign, words in (
        (Projected("runs", "k", {"status": "COMPLETED"}), "'runs' is no collection of its own"),
        (Projected("artifacts", "k", {}), "'artifacts' is no collection of its own"),
        (Projected(own.name, "k", {"runId": "another"}), "has no field 'runId'"),
        (Projected(own.name, "k", {own.fields[0]: 1, "$set": 1}), "has no field '$set'"),
    ):
        aside = kept(monkeypatch, foreign)
        assert isinstance(aside, SetAside)
        assert (aside.code, words in aside.reason) == (projection.PROJECTION_FAILED, True)


def test_of_what_a_kind_says_as_it_fails_the_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    aside = kept(monkeypatch, error=RuntimeError("x" * 10_000))
    assert isinstance(aside, SetAside)
    assert len(aside.reason) == MESSAGE_MAX
