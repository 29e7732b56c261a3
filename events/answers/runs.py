"""Runs as the HTTP interface shows them: as a row of a list, and complete with all their parts."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.access.keeping import ImportedFrom, Taken
from events.answers.answer import Amount, Answer, Count, Listing, Moment
from events.answers.artifacts import Artifact
from events.answers.attempts import Attempt, CurrentStage, Failure, Stage


class Lease(Answer, frozen=True, kw_only=True):
    """Until when its pod owns a run, null once it has settled; `ttl_s` is the whole length in seconds.

    `heard` is the revision of the run that the pod has read.
    """

    until: Moment | None
    renewals: int
    heard: int | UnsetType | None = UNSET
    ttl_s: Amount | UnsetType | None = UNSET


class Settled(Answer, frozen=True, kw_only=True):
    """The report of the pod at the end of its attempt: how it ended, and the position of its last event.

    `message` of a run that completed is the summary that its pipeline gave; `root` is that of the record.
    """

    outcome: str
    code: str | UnsetType | None = UNSET
    message: str | UnsetType | None = UNSET
    last: int
    root: str | UnsetType | None = UNSET
    at: Moment | UnsetType | None = UNSET


class Pruned(Answer, frozen=True, kw_only=True):
    """Where a study ended its member: the last value of `metric`, and the bound that other members gave."""

    metric: str
    step: int
    value: Amount
    bound: Amount
    members: Count


class VainWait(Answer, frozen=True, kw_only=True):
    """A run for which another one waited, and how it ended; null where there is none any more.

    `problem` says why its files could not be an input.
    """

    run: str
    status: str | None
    problem: str | UnsetType | None = UNSET


class CancelRequest(Answer, frozen=True, kw_only=True):
    """Who asked to cancel a run, and when; a member of a study that was ended early is `pruned`.

    One that waited for another run in vain says for which, `after`.
    """

    by: str
    at: Moment | None
    pruned: Pruned | UnsetType | None = UNSET
    after: VainWait | UnsetType | None = UNSET


class HumanVerdict(Answer, frozen=True, kw_only=True):
    """A person's verdict on a run; `verdict` is pass or fail."""

    verdict: str
    notes: str | None
    reviewer: str | None


class Seal(Answer, frozen=True, kw_only=True):
    """Where a person's verdict closed the record of a run: the last event of `attempt` that it counts.

    `whole` is false where a part of the record was missing.
    """

    attempt: int
    last: int
    whole: bool
    root: str | UnsetType | None = UNSET


class LogGap(Answer, frozen=True, kw_only=True):
    """Positions of a log that never arrived, both ends included."""

    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


class LostEvents(Answer, frozen=True, kw_only=True):
    """Positions of an attempt's log that are lost, both ends included, and who marked them as that."""

    attempt: int
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")
    at: Moment
    by: str


class Charged(Answer, frozen=True, kw_only=True):
    """How many attempts failed: by the run itself, by pods, by a pod that left, by something outside.

    Only `app` and `preempted` end a run.
    """

    app: int
    infra: int
    preempted: int
    outside: int = 0


class PastFault(Answer, frozen=True, kw_only=True):
    """A failure that was not the run's own (`fault` is pod or outside), on which pod, at which `place` of it.

    That pod had had it for `held_s` seconds, and leaves the run to others until `until`.
    """

    pod: str
    code: str | None
    fault: str
    place: str | None
    until: Moment | None
    held_s: float = 0.0


class RunRow(Answer, frozen=True, kw_only=True):
    """A run as lists show it.

    `class_key` says which pods may take it, `queue_limit_s` bounds each stretch of waiting, in seconds.
    `last_event_seq` is the position up to which its log was applied; `log_open` says that more is to come.
    `validation` is the verdict of its pipeline, in the words of its kind. `summary` are its headline numbers,
    those of the newest attempt that said any. A member of a group has its `slot`. `columns` are the values of
    the columns that were asked for, by name; one that is a list or an object is JSON, cut short. A run with
    `after` began behind these runs; while one of them has not completed, it `waits_for_runs`.
    `taken` says what rules of retention took, `imported_from` of an imported run which fleet ran it.
    """

    id: str
    kind: str
    title: str | None
    status: str
    revision: Count
    attempt: Count
    max_attempts: int
    priority: int
    class_key: str
    labels: dict[str, str]
    hypothesis_id: str | None
    parent_run_id: str | None
    created_at: Moment
    queued_at: Moment
    not_before: Moment | None
    started_at: Moment | None
    finished_at: Moment | None
    claimed_by: str | None
    claimed_at: Moment | None
    submitted_by: str | UnsetType | None = UNSET
    last_heartbeat: Moment | None
    lease: Lease | None
    settled: Settled | None
    cancel_requested: CancelRequest | None
    failures: Charged
    error: Failure | None
    current_stage: CurrentStage | None
    validation: dict[str, Any] | None
    last_event_seq: Count
    log_open: bool
    log_incomplete: LogGap | None
    faults: list[PastFault] = msgspec.field(default_factory=list)  # runs from before they were kept have none
    group_id: str | UnsetType = UNSET
    slot: Count | UnsetType = UNSET
    review: str | UnsetType | None = UNSET
    queue_limit_s: int | UnsetType | None = UNSET
    queue_deadline: Moment | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    human_verdict: HumanVerdict | UnsetType | None = UNSET
    sealed: Seal | UnsetType | None = UNSET
    lost_events: list[LostEvents] | UnsetType = UNSET
    summary: dict[str, Amount | str | bool | None] | UnsetType | None = UNSET
    summary_attempt: int | UnsetType | None = UNSET
    columns: dict[str, Amount | str | bool | None] | UnsetType = UNSET
    after: list[str] | UnsetType = UNSET
    waits_for_runs: bool | UnsetType = UNSET
    taken: dict[str, Taken] | UnsetType = UNSET
    imported_from: ImportedFrom | UnsetType = UNSET


class RunPage(Listing[RunRow], frozen=True, kw_only=True):
    """A page of runs, the newest first, or in the order of one column: of the newest `looked_at` that fit.

    `is_partial` says that older runs were not looked at; `next` is the `after` of the next page.
    """

    looked_at: Count | UnsetType = UNSET
    is_partial: bool | UnsetType = UNSET


class JournalEntry(Answer, frozen=True, kw_only=True):
    """A decision about a run that its log does not hold yet; `sets` are its fields, or text."""

    n: int
    cause: str
    by: str
    at: Moment
    came_from: str | None = msgspec.field(name="from")
    to: str
    attempt: int
    seq: int
    sets: dict[str, Any] | str = msgspec.field(name="set")


class NoteAnswer(Answer, frozen=True, kw_only=True):
    """What became of a note, or of what it is `about`; `node` tries it, of one that is taken."""

    outcome: str
    about: str
    says: str
    node: str | None


class Note(Answer, frozen=True, kw_only=True):
    """A person's note to the pipeline of a run, with what became of it."""

    number: int
    at: Moment | UnsetType | None = UNSET
    by: str
    text: str
    answers: list[NoteAnswer] = msgspec.field(default_factory=list)  # an earlier control plane has none


class ModelUsage(Answer, frozen=True, kw_only=True):
    """The usage of one model; cost in US dollars, of the calls whose price is known."""

    model: str | None
    prompt_tokens: Amount
    completion_tokens: Amount
    cost_usd: Amount
    gpu_seconds: Amount
    calls: Amount
    unpriced_calls: Amount


class Usage(Answer, frozen=True, kw_only=True):
    """The usage in total, and by model; `is_partial` if not all of it was read."""

    prompt_tokens: Amount
    completion_tokens: Amount
    cost_usd: Amount
    gpu_seconds: Amount
    calls: Amount
    unpriced_calls: Amount
    models: list[ModelUsage]
    is_partial: bool


class Part(Answer, frozen=True, kw_only=True):
    """A list that only runs of a kind have: `name` is its field in the run, `columns` are those to show.

    `problem` says that it could not be made.
    """

    name: str
    title: str
    columns: list[str]
    problem: str | UnsetType = UNSET


class Run(RunRow, frozen=True, kw_only=True):
    """A run with everything that belongs to it.

    `validations` is in the words of its kind, as are the parts that `sections` names. `truncated` names the
    lists that are not whole; what was cut from a list is told in its place, as text. `measures` says what it
    measures, of a kind that claims something. `secrets` are the names of those that it is given.
    """

    paused: bool
    secrets: list[str] | UnsetType = UNSET
    sealed: Seal | None
    journal: list[JournalEntry | str] | UnsetType = UNSET
    notes: list[Note | str]
    from_stage: str | None
    spec: dict[str, Any] | None
    measures: str | UnsetType | None = UNSET
    requires: dict[str, Any] | None
    traceparent: str | None
    attempts: list[Attempt]
    stages: list[Stage]
    validations: list[dict[str, Any]]
    artifacts: list[Artifact]
    sections: list[Part] = msgspec.field(default_factory=list)  # an earlier control plane has none
    rows: dict[str, list[Any]]  # the parts of every kind by name, in JSON fields of their own: `parts.py`
    usage: Usage
    truncated: list[str]
    successors: list[str] = msgspec.field(default_factory=list)  # runs that wait, or waited, for it


class ComparedField(Answer, frozen=True, kw_only=True):
    """One field, with its value in each run; null where a run has none."""

    field: str
    differs: bool
    values: list[Any]


class Comparison(Answer, frozen=True, kw_only=True):
    """Runs side by side."""

    runs: list[str]
    fields: list[ComparedField]


class CheckedRun(Answer, frozen=True, kw_only=True):
    """The run that a submission would queue, with all defaults; nothing was stored.

    `measures` says what it would measure, of a kind that claims something.
    """

    kind: str
    title: str
    measures: str | UnsetType | None = UNSET
    class_key: str
    priority: int
    labels: dict[str, str]
    spec: dict[str, Any]
    requires: dict[str, Any]


class Reason(Answer, frozen=True, kw_only=True):
    """One reason for the state of a run: a code, a sentence, and the values that it is based on."""

    code: str
    message: str
    evidence: dict[str, Any]


class Explanation(Answer, frozen=True, kw_only=True):
    """The reasons for the state of a run, the most important first."""

    status: str
    reasons: list[Reason]


class Nodes(Answer, frozen=True, kw_only=True):
    """A page of the nodes of a run's search tree, in the order of their creation, in the words of its kind.

    `truncated` names the texts that are not whole.
    """

    items: list[dict[str, Any]]
    next: str | None
    truncated: list[str]


class BulkResult(Answer, frozen=True, kw_only=True):
    """The result for one run: done, already, refused or unknown; `run_id` of a retry is the new run."""

    id: str
    outcome: str
    message: str | None
    run_id: str | None = msgspec.field(name="run_id")


class BulkResults(Answer, frozen=True, kw_only=True):
    """The results for many runs; `next` is the `after` of the next request, null at the end."""

    name: str
    asked_at: str
    results: list[BulkResult]
    counts: dict[str, int]
    next: str | None
