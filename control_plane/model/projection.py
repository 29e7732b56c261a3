"""What an event changes: `(view, event) -> Update | Skip | SetAside`, pure.

The view is one attempt's. Everything an update writes is a plain assignment, so that
folding a stretch twice, or from an earlier point, ends in the same documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from control_plane.model.run import CurrentStage
from events import catalog as c
from events.codec import moment
from events.envelope import Event
from events.files.checkpoints import checkpoint_of, is_emptied, manifest_artifact
from events.files.paths import BadPath, RunPath
from events.kinds import KINDS, PROJECTIONS
from events.kinds.declaring.fact import Fact
from events.kinds.declaring.stages import OVERHEAD
from events.kinds.kind import Kind, Position, Projected
from events.kinds.results import COLUMNS_MAX, Value, set_named, sort_values
from events.lifecycle import Cause
from events.queue.settlement import End

MESSAGE_MAX: Final = 4_000
PROJECTION_FAILED: Final = "projection_failed"
TOO_MANY_NUMBERS: Final = "too_many_numbers"
RESULTS: Final = "results"  # the collection of rows
LANES: Final = "lanes"  # what attempts say of the start of their race
ARTIFACTS: Final = "runs/"  # of object storage: everything that attempts have put there


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt, as far as its log was folded; `end_seq` is the position of its end event.

    `summary` holds its headline numbers, None where it said none. `kind` declares its result sets. `marks`
    are the moments at which its own work began and ended, its last checkpoint was kept, and it set earlier
    ones aside: what its time was spent on follows from them.
    """

    run_id: str
    attempt: int
    current_stage: CurrentStage | None = None
    started_at: datetime | None = None
    validation: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    end_seq: int | None = None
    summary: Mapping[str, Value] | None = None
    kind: str = ""
    marks: Mapping[str, datetime] | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Fields of a secondary document, guarded there by `seq`, the position they come from."""

    collection: str
    id: str
    seq: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """The event's effect: the view after it, documents beside the run, a phase, an end."""

    view: AttemptView
    writes: tuple[Write, ...] = ()
    phase: Cause | None = None
    end: End | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """The event changes nothing, as it should."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """The event contradicts what came before it: kept, reported, without effect."""

    code: str
    reason: str


Effect = Update | Skip | SetAside
SHOWN: Final = Skip("it is shown from the log")
SHOWN_ONLY: Final = frozenset(
    {c.StageMetric, c.RunLog, c.RunHeartbeat}
)  # the most frequent, told apart at once


# Those of whose facts something may follow: what `project` has a case for.
_OF_EVERY_KIND: Final[tuple[type[Fact], ...]] = (
    c.RunStarted, c.StageStarted, c.StageProgress, c.StageCompleted, c.RunCompleted, c.RunFailed,
    c.RunCanceled, c.RunPreempted, c.ArtifactRegistered, c.ValidationAutoStarted, c.ValidationAutoCompleted,
    c.RunSummarized, c.LaneReady, c.LaneStarted,
)  # fmt: skip
# Rows are not among them: a run may have 100,000, which are compared with the log one by one.
EFFECTIVE: Final = frozenset(c.type_of(fact) for fact in (*_OF_EVERY_KIND, *PROJECTIONS))


def project(view: AttemptView, event: Event) -> Effect:
    """Decide what the sequenced `event` changes in its attempt."""
    assert event.sequence is not None
    if view.end_seq is not None and event.sequence > view.end_seq:
        return SetAside("after_end", f"attempt {event.attempt} ended with event {view.end_seq}")
    if type(event.fact) in SHOWN_ONLY:
        return SHOWN
    match event.fact:
        case c.ResultRecorded() as fact:
            return Update(view, (result_write(view.kind, event, fact),))
        case c.RunSummarized() as fact:
            return _summary(view, fact)
        case c.LaneReady() | c.LaneStarted() as fact:
            return Update(view, (_lane_write(event, fact),))
        case c.RunStarted():
            return Update(replace(view, started_at=_moment(event)), phase=Cause.STARTED)
        case c.StageStarted() | c.StageProgress() | c.StageCompleted() as fact:
            return _stage(view, event, fact)
        case c.RunCompleted() | c.RunFailed() | c.RunCanceled() | c.RunPreempted() as fact:
            return _end(view, event, fact)
        case c.ArtifactRegistered() as fact:
            return _artifact(view, event, fact)
        case c.ValidationAutoStarted():
            return Update(view, phase=Cause.AUTO_STARTED)
        case c.ValidationAutoCompleted() as fact:
            return _validation(view, event, fact)
        case fact:
            return _of_kind(view, event, fact)


def stage_id(run_id: str, attempt: int, stage: str) -> str:
    """Return the id of a stage's document."""
    return f"{run_id}/a{attempt}/{stage}"


def attempt_id(run_id: str, attempt: int) -> str:
    """Return the id of an attempt's document."""
    return f"{run_id}/a{attempt}"


def lane_id(run_id: str, attempt: int) -> str:
    """Return the id of what an attempt has said of the start of its race."""
    return f"{attempt_id(run_id, attempt)}/lane"


def artifact_id(run_id: str, attempt: int, name: str) -> str:
    """Return the id of an artifact's document: one for each name in an attempt."""
    return f"{run_id}/a{attempt}/{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def result_id(run_id: str, attempt: int, set_name: str, key: str) -> str:
    """Return the id of a row's document: one for each key of a set in an attempt."""
    return f"{run_id}/a{attempt}/{set_name}/{hashlib.sha256(key.encode()).hexdigest()[:24]}"


def artifact_prefix(run_id: str, attempt: int) -> str:
    """Return the part of object storage that belongs to an attempt."""
    return f"{ARTIFACTS}{run_id}/a{attempt}/"


def result_write(kind: str, event: Event, fact: c.ResultRecorded) -> Write:
    """Return the row that an event of a run of `kind` makes; it is whole, so that the last event decides."""
    assert event.sequence is not None
    declared = set_named(KINDS[kind].results, fact.set) if kind in KINDS else None
    fields = {
        "runId": event.run_id,
        "attempt": event.attempt,
        "set": fact.set,
        "key": fact.key,
        "values": dict(fact.values),
        "status": fact.status,
        "detail": fact.detail,
        **({} if declared is None else sort_values(declared, fact.values)),
    }
    return Write(RESULTS, result_id(event.run_id, event.attempt, fact.set, fact.key), event.sequence, fields)


def _lane_write(event: Event, fact: c.LaneReady | c.LaneStarted) -> Write:
    assert event.sequence is not None
    fields: dict[str, Any] = {
        "runId": event.run_id,
        "attempt": event.attempt,
        "offsetS": fact.offset_s,
        "boundS": fact.bound_s,
    }
    match fact:
        case c.LaneReady():
            fields |= {"readyAt": _moment(event), "hearsS": fact.hears_s}
            fields |= {"address": fact.address} if fact.address else {}
        case c.LaneStarted():
            fields |= {
                "startedAt": _moment(event),
                "agreedAt": _in_milliseconds(fact.agreed),
                "lateS": fact.late_s,
                "readyLateS": fact.ready_late_s,
            }
    return Write(LANES, lane_id(event.run_id, event.attempt), event.sequence, fields)


def _in_milliseconds(moment: datetime) -> datetime:
    """Return a moment as the store keeps it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _summary(view: AttemptView, fact: c.RunSummarized) -> Update | SetAside:
    summary = {**(view.summary or {}), **fact.values}
    if len(summary) > COLUMNS_MAX:
        return SetAside(TOO_MANY_NUMBERS, f"an attempt has {COLUMNS_MAX} headline numbers at most")
    return Update(replace(view, summary=summary))


def _stage(
    view: AttemptView,
    event: Event,
    fact: c.StageStarted | c.StageProgress | c.StageCompleted,
) -> Update:
    fields: dict[str, Any]
    match fact:
        case c.StageStarted():
            now = CurrentStage(fact.stage, 0.0)
            fields = {
                "index": fact.index,
                "total": fact.total,
                "status": "RUNNING",
                "progress": 0.0,
                "startedAt": _moment(event),
                "order": event.sequence,
            }
        case c.StageProgress():
            now = CurrentStage(fact.stage, fact.progress, fact.activity)
            fields = {
                "status": "RUNNING",
                "progress": fact.progress,
                "activity": fact.activity,
            }
        case c.StageCompleted():
            now = CurrentStage(fact.stage, 1.0)
            fields = {
                "status": "COMPLETED",
                "progress": 1.0,
                "activity": None,
                "completedAt": _moment(event),
                "durationS": fact.duration_s,
            }
    marked = replace(view, current_stage=now, marks=_worked(view, event, fact))
    return Update(marked, (_stage_write(event, fact.stage, fields),))


def _worked(
    view: AttemptView, event: Event, fact: c.StageStarted | c.StageProgress | c.StageCompleted
) -> Mapping[str, datetime] | None:
    """Return the marks after the word of a stage: those of the attempt's own work, from first to last."""
    at, marks = _moment(event), dict(view.marks or {})
    if at is None or fact.stage in OVERHEAD:
        return view.marks
    match fact:
        case c.StageStarted():
            marks.setdefault("workedFrom", at)
            marks.pop("workedUntil", None)
        case c.StageCompleted():
            marks["workedUntil"] = at
    return marks or None


def _stage_write(event: Event, stage: str, fields: Mapping[str, Any]) -> Write:
    assert event.sequence is not None
    named = {"runId": event.run_id, "attempt": event.attempt, "name": stage, **fields}
    return Write("stages", stage_id(event.run_id, event.attempt, stage), event.sequence, named)


def _end(
    view: AttemptView,
    event: Event,
    fact: c.RunCompleted | c.RunFailed | c.RunCanceled | c.RunPreempted,
) -> Update:
    ended = replace(view, end_seq=event.sequence)
    match fact:
        case c.RunCompleted():
            return Update(ended, end=End("completed"))
        case c.RunFailed():
            end = End(
                "failed",
                fact.code,
                fact.message[:MESSAGE_MAX],
                fact.stage,
                fact.retryable,
            )
            error = {
                "code": fact.code,
                "message": fact.message[:MESSAGE_MAX],
                "stage": fact.stage,
                "retryable": fact.retryable,
                "traceback": fact.traceback,
            }
            ended = replace(ended, error=error)
        case c.RunCanceled():
            end = End("canceled", message=fact.reason)
        case c.RunPreempted():
            end = End("preempted", message=fact.reason)
    open_stage = view.current_stage
    if open_stage is None or open_stage.progress >= 1.0:
        return Update(ended, end=end)
    write = _stage_write(
        event,
        open_stage.name,
        {"status": end.outcome.upper(), "completedAt": _moment(event)},
    )
    return Update(ended, (write,), end=end)


def _artifact(view: AttemptView, event: Event, fact: c.ArtifactRegistered) -> Update | SetAside:
    assert event.sequence is not None
    prefix = artifact_prefix(event.run_id, event.attempt)
    if (problem := artifact_problem(fact.name, fact.key, prefix)) is not None:
        return problem
    fields = {
        "runId": event.run_id,
        "attempt": event.attempt,
        "name": fact.name,
        "key": fact.key,
        "size": fact.size,
        "sha256": fact.sha256,
        "contentType": fact.content_type,
        "stage": fact.stage,
        "registeredAt": _moment(event),
    }
    identity = artifact_id(event.run_id, event.attempt, fact.name)
    marked = replace(view, marks=_saved(view, event, fact))
    return Update(marked, (Write("artifacts", identity, event.sequence, fields),))


def _saved(view: AttemptView, event: Event, fact: c.ArtifactRegistered) -> Mapping[str, datetime] | None:
    """Return the marks after a file: a checkpoint is kept when its manifest is registered."""
    at, name = _moment(event), checkpoint_of(fact.name)
    if at is None or name is None or fact.name != manifest_artifact(name):
        return view.marks
    sets_aside = is_emptied(fact.sha256, name, event.run_id, event.attempt)
    return {**(view.marks or {}), "setAsideAt" if sets_aside else "savedUntil": at}


def artifact_problem(name: str, key: str, prefix: str) -> SetAside | None:
    """Return why a file does not belong to the attempt with key prefix `prefix`; None if it does."""
    try:
        RunPath(name)
        path = RunPath(key)
    except BadPath as error:
        return SetAside(error.code, f"the artifact {error.message}")
    if not path.is_below(prefix):
        return SetAside("foreign_key", f"the key of {name!r} is not below {prefix}")
    return None


def _validation(view: AttemptView, event: Event, fact: c.ValidationAutoCompleted) -> Update:
    assert event.sequence is not None
    passes = fact.conclusion == "supported"  # else a badge would say another thing than the verdict
    concluded = fact.conclusion if passes == (fact.verdict == "pass") else None
    fields = {
        "runId": event.run_id,
        "attempt": event.attempt,
        "by": "auto",
        "verdict": fact.verdict,
        "conclusion": concluded,
        "summary": fact.summary,
        "code": fact.code,
        "scores": fact.scores,
        "replication": fact.replication,  # also where there is none: an attempt's last verdict is all it says
        "at": _moment(event),
    }
    identity = f"{attempt_id(event.run_id, event.attempt)}/auto"
    verdict = {"verdict": fact.verdict, "summary": fact.summary}
    if concluded is not None:
        verdict["conclusion"] = concluded
    if fact.code is not None:
        verdict["code"] = fact.code
    if fact.replication is not None:
        verdict["replication"] = fact.replication
    return Update(
        replace(view, validation=verdict),
        (Write("validations", identity, event.sequence, fields),),
    )


def _of_kind(view: AttemptView, event: Event, fact: Fact) -> Effect:
    """Project a fact into the documents of its kind; a projection that fails changes nothing."""
    owned = PROJECTIONS.get(type(fact))
    if owned is None:
        return SHOWN
    kind, projection = owned
    assert event.sequence is not None
    position = Position(event.run_id, event.attempt, event.sequence, _moment(event))
    try:
        written = [_owned(kind, each) for each in projection(fact, position)]
    except Exception as error:  # noqa: BLE001 - a kind may come from any package
        reason = f"the projection of kind {kind.name}: {type(error).__name__}: {error}"
        return SetAside(PROJECTION_FAILED, reason[:MESSAGE_MAX])
    writes = tuple(
        Write(
            each.collection,
            f"{attempt_id(event.run_id, event.attempt)}/{each.key}",
            event.sequence,
            {"runId": event.run_id, "attempt": event.attempt, **each.fields},
        )
        for each in written
    )
    return Update(view, writes) if writes else SHOWN


def _owned(kind: Kind, written: Projected) -> Projected:
    """Return what a kind writes. Raises `ValueError` where it is no field of a document of its own."""
    fields = next((each.fields for each in kind.documents if each.name == written.collection), None)
    if fields is None:
        raise ValueError(f"{written.collection!r} is no collection of its own")
    if unknown := sorted(set(written.fields) - set(fields)):
        raise ValueError(f"{written.collection} has no field {unknown[0]!r}")
    return written


def _moment(event: Event) -> datetime | None:
    return None if event.time is None else moment(event.time)


@dataclass(slots=True)
class Fold:
    """The result of folding a stretch: the last view, each document once, and set-aside events."""

    view: AttemptView
    seq: int
    writes: dict[tuple[str, str], Write] = field(default_factory=dict)
    phases: list[Cause] = field(default_factory=list)
    end: End | None = None
    set_aside: list[tuple[Event, SetAside]] = field(default_factory=list)


def fold(view: AttemptView, events: list[Event], seq: int) -> Fold:
    """Fold a contiguous stretch that begins after position `seq`."""
    result = Fold(view, seq)
    for event in events:
        assert event.sequence == result.seq + 1, "a stretch has no gap"
        result.seq = event.sequence
        _take(result, event)
    return result


def fold_to(view: AttemptView, events: Iterable[Event], last: int) -> Fold:
    """Fold a contiguous stretch up to position `last`, of which only what may have an effect is given."""
    result = Fold(view, last)
    for event in events:
        _take(result, event)
    return result


def _take(result: Fold, event: Event) -> None:
    match project(result.view, event):
        case Update() as update:
            _merge(result, update)
        case SetAside() as aside:
            result.set_aside.append((event, aside))
        case Skip():
            pass


def _merge(result: Fold, update: Update) -> None:
    result.view = update.view
    for write in update.writes:
        earlier = result.writes.get((write.collection, write.id))
        fields = {**earlier.fields, **write.fields} if earlier else write.fields
        result.writes[write.collection, write.id] = replace(write, fields=fields)
    if update.phase is not None:
        result.phases.append(update.phase)
    result.end = update.end or result.end
