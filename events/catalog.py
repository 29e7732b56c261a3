"""Every type of event, with what it says, pure.

The class of a fact is its meaning; `TYPES` maps the public name to the class. Data may
carry more fields than are named here: they are stored and shown, and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from events.kinds import FACTS
from events.kinds.declaring.fact import Fact, Fraction, Name, Sha256
from events.kinds.results import STATUS_CHARS_MAX, SetName, Values, problem_with_key, problem_with_values

Level = Literal["debug", "info", "warn", "warning", "error"]
Verdict = Literal["pass", "fail"]
Conclusion = Literal["supported", "contradicted", "inconclusive"]
NotMeasuredCode = Literal[
    "NOT_MEASURED: switch has no effect", "NOT_MEASURED: arms differ", "NOT_MEASURED: baseline"
]
Replicated = Literal["asked for", "on another pod", "on the same pod"]
# Of clocks and waits; what is longer than thirty years is told as that.
SECONDS_MAX: Final = 1e9
Seconds = Annotated[float, msgspec.Meta(ge=-SECONDS_MAX, le=SECONDS_MAX)]
Duration = Annotated[float, msgspec.Meta(ge=0, le=SECONDS_MAX)]
NoteOutcome = Literal["waiting", "taken", "refused", "too_late", "not_understood", "passed_on"]


class RunEnqueued(Fact, frozen=True):
    """The run was submitted. Written by the control plane only."""

    kind: Name


class RunStarted(Fact, frozen=True):
    """The pipeline's process has started."""

    pod: str | None = None


class RunHeartbeat(Fact, frozen=True):
    """The pod is alive: utilisation as fractions of one, memory in MiB, temperature in °C."""

    cpu_util: float | None = None
    memory_mib: float | None = None
    gpu_util: float | None = None
    gpu_memory_mib: float | None = None
    gpu_temperature_c: float | None = None


class StageStarted(Fact, frozen=True):
    """A stage has started; `index` of `total` counts from 1."""

    stage: Name
    index: int | None = None
    total: int | None = None


class StageProgress(Fact, frozen=True):
    """The progress of a stage, and its current activity."""

    stage: Name
    progress: Fraction
    activity: str | None = None


class StageMetric(Fact, frozen=True):
    """One measurement of a stage."""

    stage: Name
    name: Name
    value: float
    step: int | None = None


class StageCompleted(Fact, frozen=True):
    """A stage has ended."""

    stage: Name
    duration_s: float | None = None


class RunLog(Fact, frozen=True):
    """One log line for people."""

    message: str
    level: Level = "info"
    stage: str | None = None


class NoteAnswered(Fact, frozen=True):
    """What becomes of a person's note `number`, or of what it is `about`, in the words of `says`.

    A later answer about the same takes its place. `node` tries it, of one that is taken.
    """

    number: Annotated[int, msgspec.Meta(ge=1)]
    outcome: NoteOutcome
    says: str
    about: str = ""
    node: str | None = None


class LaneReady(Fact, frozen=True):
    """The run is prepared, and waits for the start of its race, or for the other nodes of its job.

    The pod's own clock is `offset_s` ahead of the store's, which it knows up to `bound_s`; it hears of the
    start within `hears_s`. Other pods reach it at `address`, on a port that was free: HOST:PORT.
    """

    offset_s: Seconds
    bound_s: Duration
    hears_s: Duration
    address: Annotated[str, msgspec.Meta(pattern=r"\A([A-Za-z0-9._:-]{1,253}:[0-9]{1,5})?\Z")] = ""


class LaneStarted(Fact, frozen=True):
    """The run has started, `late_s` after the `agreed` moment by the store's clock as the pod knows it.

    It knew that clock up to `bound_s`, its own was `offset_s` ahead. `ready_late_s` is how long after the
    agreed moment it was ready, 0 where it was in time.
    """

    agreed: Annotated[datetime, msgspec.Meta(tz=True)]
    late_s: Seconds
    ready_late_s: Duration
    offset_s: Seconds
    bound_s: Duration

    def __post_init__(self) -> None:
        """Refuse what msgspec cannot: a moment that has no year in UTC, which no store can hold."""
        try:
            self.agreed.astimezone(UTC)
        except OverflowError:
            raise ValueError("agreed is beyond the years that a date has") from None


class RunCompleted(Fact, frozen=True):
    """The pipeline completed."""

    summary: str | None = None


class RunFailed(Fact, frozen=True):
    """The run failed; `retryable` says whether a later attempt may succeed."""

    code: Name
    message: str
    stage: str | None = None
    traceback: str | None = None
    retryable: bool = False


class RunCanceled(Fact, frozen=True):
    """The run stopped because it was canceled."""

    reason: str | None = None


class RunPreempted(Fact, frozen=True):
    """The pod is leaving; the run returns to the queue and no failure is counted."""

    reason: str | None = None


class ResultRecorded(Fact, frozen=True):
    """A row of a result set of the run's kind; the same key again replaces the row.

    `detail` names an artifact of the run with what is too long for a row.
    """

    set: SetName
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    values: Values
    status: Annotated[str, msgspec.Meta(max_length=STATUS_CHARS_MAX)] | None = None
    detail: Name | None = None

    def __post_init__(self) -> None:
        """Refuse what msgspec cannot: a length in bytes, a number that is not finite."""
        _raise_for(problem_with_key(self.key) or problem_with_values(self.values))


class RunSummarized(Fact, frozen=True):
    """Headline numbers of the run; a name that an attempt says again gets the later value."""

    values: Values

    def __post_init__(self) -> None:
        """Refuse what msgspec cannot: a length in bytes, a number that is not finite."""
        _raise_for(problem_with_values(self.values))


def _raise_for(problem: str | None) -> None:
    if problem is not None:
        raise ValueError(problem)


class StatusChanged(Fact, frozen=True):
    """A decision, as recorded in the journal. Written by the control plane only."""

    cause: str
    to: str


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price that was applied, in US dollars: per million tokens, or per hour of the pod."""

    input_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None
    pod_usd_per_hour: float | None = None


class RunUsage(Fact, frozen=True):
    """The cost of one call of a model, or of an interval of a pod's time.

    `seconds` is the duration of the call or interval, `gpu_s` the interval times the number of
    GPUs; `cost_usd` is None where no price is known.
    """

    purpose: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    gpu_s: float | None = None
    cost_usd: float | None = None
    price: Price | None = None


class EventRefused(Fact, frozen=True):
    """Replaces a line that ingest refused permanently; `digest` is the digest of its content."""

    refused_type: str
    code: str
    message: str
    digest: str | None = None


class ValidationAutoStarted(Fact, frozen=True):
    """The validation of the claim in its registered units has started."""


class ValidationAutoCompleted(Fact, frozen=True):
    """The verdict of the measurement; `replication` if the result needs a second measurement.

    It passes only if the claim is supported; `conclusion` distinguishes the others, and `code` says why
    nothing was measured, if nothing was.
    """

    verdict: Verdict
    conclusion: Conclusion | None = None
    summary: str | None = None
    code: NotMeasuredCode | None = None
    scores: dict[str, Any] = {}
    replication: Replicated | None = None


class ValidationHumanCompleted(Fact, frozen=True):
    """The verdict of a person. Written by the control plane only."""

    verdict: Verdict
    reviewer: str | None = None
    notes: str | None = None


class ArtifactDetected(Fact, frozen=True):
    """The pipeline created a file to be uploaded."""

    name: Name
    stage: str | None = None


class ArtifactRegistered(Fact, frozen=True):
    """The file was uploaded to object storage under `key`; `size` in bytes."""

    name: Name
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    size: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Sha256
    content_type: str = "application/octet-stream"
    stage: str | None = None


class ArtifactFailed(Fact, frozen=True):
    """The upload of a file failed, with the reason."""

    name: Name
    code: Name
    message: str


class Unknown(Fact, frozen=True):
    """An `ai.` event of a type unknown to this version: stored and shown, without effect."""


TYPES: Final[Mapping[str, type[Fact]]] = {
    "ai.run.enqueued": RunEnqueued,
    "ai.run.started": RunStarted,
    "ai.run.heartbeat": RunHeartbeat,
    "ai.run.stage_started": StageStarted,
    "ai.run.stage_progress": StageProgress,
    "ai.run.stage_metric": StageMetric,
    "ai.run.stage_completed": StageCompleted,
    "ai.run.log": RunLog,
    "ai.run.note_answered": NoteAnswered,
    "ai.lane.ready": LaneReady,
    "ai.lane.started": LaneStarted,
    "ai.run.completed": RunCompleted,
    "ai.run.failed": RunFailed,
    "ai.run.canceled": RunCanceled,
    "ai.run.preempted": RunPreempted,
    "ai.run.status_changed": StatusChanged,
    "ai.run.summarized": RunSummarized,
    "ai.result.recorded": ResultRecorded,
    "ai.run.usage": RunUsage,
    "ai.run.event_refused": EventRefused,
    "ai.validation.auto_started": ValidationAutoStarted,
    "ai.validation.auto_completed": ValidationAutoCompleted,
    "ai.validation.human_completed": ValidationHumanCompleted,
    "ai.artifact.detected": ArtifactDetected,
    "ai.artifact.registered": ArtifactRegistered,
    "ai.artifact.failed": ArtifactFailed,
    **FACTS,
}
_NAMES: Final[Mapping[type[Fact], str]] = {fact: name for name, fact in TYPES.items()}


def type_of(fact: type[Fact]) -> str:
    """Return the public name, such as `ai.run.started`."""
    return _NAMES[fact]


# Only the control plane writes these; ingest refuses them from anybody else.
RESERVED: Final = frozenset(type_of(fact) for fact in (RunEnqueued, StatusChanged, ValidationHumanCompleted))

# Order does not matter for these, so they may come without a sequence.
COMMUTATIVE: Final = frozenset(type_of(fact) for fact in (RunHeartbeat, RunLog, RunUsage, StageMetric))

# These end an attempt.
ENDS: Final = frozenset(type_of(fact) for fact in (RunCompleted, RunFailed, RunCanceled, RunPreempted))


def data_of(fact: Fact) -> dict[str, Any]:
    """Return the fields of `fact` as they travel in an event's `data`."""
    data: dict[str, Any] = msgspec.to_builtins(fact)
    return data
