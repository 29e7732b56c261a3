"""The request bodies of the API: strict, without unknown fields."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from control_plane.access.auth import ASKER
from control_plane.files.multipart import PARTS_MAX
from control_plane.runs.claiming import WAIT_MAX_S
from control_plane.runs.decisions import NOTE_CHARS_MAX, Review
from control_plane.runs.options import LABEL_CHARS_MAX, LABELS_MAX, QUEUE_LIMIT_S, OptionChanges
from control_plane.runs.pods.steering import REASON_CHARS_MAX
from control_plane.runs.schedules.schedule import Missed, Overlap
from control_plane.runs.schedules.service import NOTE_CHARS_MAX as SCHEDULE_NOTE_CHARS_MAX
from events.codec import SEQUENCE_MAX
from events.delivery.event_encoder import MESSAGE_MAX
from events.files.object_sizes import OBJECT_BYTES_MAX
from events.kinds.declaring.queues import DEFAULT_MODE, Mode
from events.lifecycle import Outcome
from events.queue import labels as pod_labels
from events.queue.fair import shares
from events.queue.requirements import POD_ID
from events.text.key_text import SECRET_CHARS
from events.text.secret_names import NAME_PATTERN, OF_RUN_MAX
from events.text.service_name import SERVICE_NAME

KEYS_MAX: Final = 100  # of an object; each one that is wrong costs the event loop 0.1 ms
CORDON_MAX_S: Final = 365 * 24 * 3600
QUEUE_LIMIT_MAX_S: Final = 30 * 24 * 3600
YEARS: Final = range(2000, 2200)  # far inside what the store's calendar can add a week to

Text = Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _storable(value: Any) -> Any:
    """Refuse values that MongoDB cannot store."""
    match value:
        case str():
            if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
                raise ValueError("the text holds a character that cannot be stored")
        case float() if not math.isfinite(value):
            raise ValueError("NaN and infinity are no JSON")
        case bool() | float() | None:
            return value
        case int():
            if not -(2**63) <= value < 2**63:
                raise ValueError("the number is beyond 64 bits")
        case dict():
            for name, each in value.items():
                _storable(name)
                _storable(each)
        case list():
            for each in value:
                _storable(each)
    return value


def _in_utc(moment: datetime) -> datetime:
    if moment.year not in YEARS:
        raise ValueError(f"the year has to be from {YEARS[0]} to {YEARS[-1]}")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _whole(value: Any) -> Any:
    """Return 3 for 3.0: in JSON they are the same number, and some languages write only 3.0."""
    return int(value) if type(value) is float and value.is_integer() else value


def _few(value: Any) -> Any:
    """Refuse an object of many keys before each of them is looked at."""
    if isinstance(value, dict) and len(value) > KEYS_MAX:
        raise ValueError(f"the object has {len(value):,} keys; at most {KEYS_MAX} are read")
    return value


Storable = AfterValidator(_storable)
FEW: Final = BeforeValidator(_few)
WHOLE: Final = BeforeValidator(_whole)
Json = Annotated[dict[str, Any], Storable]
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
Label = Annotated[str, StringConstraints(max_length=LABEL_CHARS_MAX), Storable]
AFTER_MAX: Final = 64  # runs for which a run waits
RunId = Annotated[str, StringConstraints(min_length=1, max_length=100), Storable]
After = Annotated[list[RunId], Field(max_length=AFTER_MAX)]
GROUP_ID: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
ScheduleId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
ProjectName = Annotated[str, StringConstraints(pattern=f"^{shares.NAME}$")]
SecretName = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
Moment = Annotated[datetime, Field(strict=False), AfterValidator(_in_utc)]


class Body(BaseModel):
    """Base class of the bodies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, fields: Any) -> Any:
        return _few(fields)


Priority = Annotated[int, Field(ge=-100, le=100), WHOLE]
MaxAttempts = Annotated[int, Field(ge=1, le=100), WHOLE]
QueueLimit = Annotated[int, Field(ge=1, le=QUEUE_LIMIT_MAX_S), WHOLE]
_ONLY_NAMES: Final[Any] = {"additionalProperties": False}


def usual_project() -> str:
    """Return the project of whoever asks: the first one that the key is bound to, else the default one."""
    asker = ASKER.get()
    return asker.projects[0] if asker is not None and asker.projects else shares.DEFAULT


class OptionsBody(Body):
    """How a run waits, which pods may take it, the names of its secrets, and its project.

    `queue_limit_s` bounds each wait for a pod.
    """

    priority: Priority = 0
    requires: Json = Field(default_factory=dict)
    max_attempts: MaxAttempts = 3
    queue_limit_s: QueueLimit = QUEUE_LIMIT_S
    labels: Annotated[
        dict[LabelName, Label], Field(max_length=LABELS_MAX, json_schema_extra=_ONLY_NAMES), FEW
    ] = Field(default_factory=dict)
    secrets: Annotated[list[SecretName], Field(max_length=OF_RUN_MAX)] = Field(default_factory=list)
    project: ProjectName = Field(default_factory=usual_project)


class StartOptionsBody(OptionsBody):
    """The options of one run, with the time before which it may not start."""

    not_before: Moment | None = None


class ChangesBody(Body):
    """Options that shall be others; what is left out stays, and so do the secrets.

    Labels are set one by one, and null removes one. A null `not_before` means now.
    """

    priority: Priority = 0
    requires: Json = Field(default_factory=dict)
    max_attempts: MaxAttempts = 3
    queue_limit_s: QueueLimit = QUEUE_LIMIT_S
    labels: Annotated[
        dict[LabelName, Label | None], Field(max_length=LABELS_MAX, json_schema_extra=_ONLY_NAMES), FEW
    ] = Field(default_factory=dict)
    not_before: Moment | None = None

    def changes(self) -> OptionChanges:
        """Return those that were given."""
        names = {*ChangesBody.model_fields}
        return OptionChanges(**self.model_dump(include=names, exclude_unset=True))


class RunBody(OptionsBody):
    """The work to run, and its options."""

    kind: ShortText
    spec: Json = Field(default_factory=dict)


class NewRun(RunBody, StartOptionsBody):
    """A run to queue; it waits until the runs in `after`, and the groups (`group:NAME`), have completed."""

    after: After = Field(default_factory=list)


class ScheduleBody(Body):
    """When a schedule fires, and the run that it submits; or the `group` of which it begins a round.

    A group has one round at a time: a slot that comes while it goes on is left out, whatever `overlap` says.
    """

    cron: Annotated[ShortText, Storable]
    time_zone: Annotated[ShortText, Storable] = "UTC"
    missed: Missed = "one"
    overlap: Overlap = "allow"
    paused: bool = False
    run: RunBody | None = None
    group: Annotated[str, StringConstraints(pattern=GROUP_ID)] | None = None

    @model_validator(mode="after")
    def _has_one_part(self) -> ScheduleBody:
        if (self.run is None) == (self.group is None):
            raise ValueError("a schedule has a `run` or a `group`: give one of them")
        return self


class NewSchedule(ScheduleBody):
    """A schedule with its name.

    Without one it is the schedule of what its run is about, such as a model and a set of suites, and takes
    the place of the one that there is.
    """

    id: ScheduleId | None = None


class Pause(Body):
    """Whether a schedule is paused, and why."""

    paused: bool
    note: Annotated[str, StringConstraints(max_length=SCHEDULE_NOTE_CHARS_MAX), Storable] = ""


class NewCordon(Body):
    """Why a pod shall claim nothing; until a moment, for some seconds, or until it is lifted."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=REASON_CHARS_MAX), Storable]
    until: Moment | None = None
    for_s: Annotated[float, Field(ge=1, le=CORDON_MAX_S, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _has_one_end(self) -> NewCordon:
        if self.until is not None and self.for_s is not None:
            raise ValueError("`until` and `for_s` are two ends: give one")
        return self


class NewReset(Body):
    """The service of a pod that shall be reset; with `force` also while the pod has a run."""

    service: Annotated[str, StringConstraints(min_length=1, max_length=200), Storable]
    force: bool = False


class Again(ChangesBody):
    """A retry, with other options if given; it begins at `from_stage`, from the checkpoints before it.

    `spec` is a merge patch (RFC 7396) of the specification: what it names differs, null leaves a field out.
    """

    from_stage: Annotated[ShortText, Storable] | None = None
    spec: Json = Field(default_factory=dict)


class NoteBody(Body):
    """A person's note to the run's pipeline."""

    text: Annotated[str, StringConstraints(max_length=2 * NOTE_CHARS_MAX), Storable]


class ReviewBody(Body):
    """A person's verdict, which closes the run's record.

    With `incomplete` it is also accepted if a part of the record has not arrived. With `revise` it replaces
    the present verdict by the other one, and `notes` say why. `seen` is the run's `lastEventSeq` as it was
    shown: if more events were applied since, the verdict is refused.
    """

    verdict: Literal["pass", "fail"]
    incomplete: bool = False
    revise: bool = False
    seen: Annotated[int, Field(ge=0)] | None = None
    notes: Annotated[str, StringConstraints(max_length=20_000), Storable] = ""

    def by(self, reviewer: str) -> Review:
        """Return it as a verdict of this person."""
        return Review(self.verdict, self.notes, reviewer, self.incomplete, self.seen, self.revise)


ARTIFACTS_MAX: Final = 100  # of one request


Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
UploadName = Annotated[str, StringConstraints(pattern="^[0-9A-HJKMNP-TV-Z]{26}$")]


class FileBody(Body):
    """A file of a run; `size` in bytes."""

    name: Annotated[ShortText, Storable]
    size: Annotated[int, Field(ge=0, le=OBJECT_BYTES_MAX), WHOLE]
    content_type: ShortText = "application/octet-stream"


class ArtifactBody(FileBody):
    """A file that a worker uploads; `sha256` in hexadecimal."""

    sha256: Sha256


class SoughtArtifact(FileBody):
    """A file that a worker uploads, whole or in `parts` of one size.

    A file in parts that is hashed while it is sent has a ULID in `upload` instead of a `sha256`. A second
    request with the same fields continues the same upload.
    """

    sha256: Sha256 | None = None
    upload: UploadName | None = None
    parts: Annotated[int, Field(ge=2, le=PARTS_MAX), WHOLE] | None = None


class CompletedArtifact(ArtifactBody):
    """A file that a worker has put into storage; `upload` as it was when the URLs were signed."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    upload: UploadName | None = None


class ArtifactBodies(Body):
    """Files that a worker uploads."""

    files: Annotated[list[ArtifactBody], Field(min_length=1, max_length=ARTIFACTS_MAX)]


PodId = Annotated[str, StringConstraints(pattern=f"^{POD_ID}$"), Storable]
ClaimToken = Annotated[str, StringConstraints(pattern=f"^[0-9A-Za-z]{{{SECRET_CHARS}}}$")]
Names = Annotated[list[ShortText], Field(max_length=100), Storable]
ServiceName = Annotated[str, StringConstraints(pattern=f"^{SERVICE_NAME}$")]
ResetId = Annotated[str, StringConstraints(pattern="^[0-9A-HJKMNP-TV-Z]{26}$")]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Words = Annotated[str, StringConstraints(max_length=MESSAGE_MAX)]  # what a pod said of an end
SaidLabels = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=f"^{pod_labels.NAME}$")],
        Annotated[str, StringConstraints(pattern=f"^{pod_labels.VALUE}$")],
    ],
    Field(max_length=pod_labels.SAID_MAX, json_schema_extra={"additionalProperties": False}),
    FEW,
]


class SoughtClaim(Body):
    """A claim whose answer was lost, identified by its token."""

    token: ClaimToken
    mode: Mode = DEFAULT_MODE


class NewClaim(SoughtClaim):
    """A pod that seeks a run: its abilities, and for how many seconds it waits.

    `token` is 256 random bits in base 62. The pod makes it and stores it on disk before the request, so that
    a claim whose answer is lost can be found again; a token that claimed no run may be used again. `gpu_gib`
    is the memory of the pod's largest GPU, `labels` are what the pod says of itself.
    """

    pod: PodId
    kinds: Names
    gpu_gib: Amount = 0.0
    region: Annotated[ShortText, Storable] | None = None
    labels: SaidLabels = Field(default_factory=dict)
    wait_s: Annotated[float, Field(ge=0, le=WAIT_MAX_S)] = 0.0


class Release(Body):
    """Why a run is released; `last` is the last sequence of the attempt's events."""

    last: Annotated[int, Field(ge=0, le=SEQUENCE_MAX), WHOLE] = 0
    code: Words | None = None
    message: Words | None = None


class Settlement(Release):
    """How an attempt ended."""

    outcome: Outcome
    stage: Words | None = None
    retryable: bool = False
    root: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] | None = None


class Stored(Body):
    """Base class of bodies that are stored unchanged, with the field names of MongoDB's documents."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class GpuLine(Stored):
    """A device of a pod."""

    name: Annotated[ShortText, Storable]
    memory_mib: Amount
    compute_capability: Annotated[ShortText, Storable] | None = None
    uuid: Annotated[ShortText, Storable] | None = None


class DiskLine(Stored):
    """The file system of a folder of a pod."""

    path: Annotated[ShortText, Storable]
    total_mib: Amount
    free_mib: Amount
    kind: Annotated[ShortText, Storable] | None = None


class ModelLine(Stored):
    """A model that lies on a pod."""

    name: Annotated[ShortText, Storable]
    bytes: Annotated[int, Field(ge=0, lt=2**53), WHOLE] | None = None
    engine: Annotated[ShortText, Storable] | None = None


class CudaLine(Stored):
    """Whether the pipelines of a pod compute on its GPUs, and what keeps them from it."""

    ok: bool
    code: Annotated[ShortText, Storable] | None = None
    message: Annotated[str, StringConstraints(max_length=300), Storable] = ""


class CapabilitiesLine(Stored):
    """The equipment of a pod; `device` is the device that its pipelines compute on.

    `isolation` is its isolation of a model's programs, `pipeline_user` the user of its pipelines.
    """

    device: Annotated[ShortText, Storable] | None = None
    isolation: Annotated[ShortText, Storable] | None = None
    pipeline_user: Annotated[str, StringConstraints(max_length=1_000), Storable] | None = None
    cpus: Annotated[int, Field(ge=0, le=100_000), WHOLE]
    memory_mib: Amount
    gpus: Annotated[list[GpuLine], Field(max_length=64)] = []
    driver: Annotated[ShortText, Storable] | None = None
    disk_mib: Amount | None = None
    cpu: Annotated[ShortText, Storable] | None = None
    disks: Annotated[list[DiskLine], Field(max_length=16)] = []
    engines: Names | None = None
    models: Annotated[list[ModelLine], Field(max_length=100)] | None = None
    cuda: CudaLine | None = None
    services: Annotated[list[ServiceName], Field(max_length=16)] = []


class TelemetryLine(Stored):
    """The usage of a pod's resources: fractions of one, MiB, degrees Celsius."""

    cpu_util: Amount | None = None
    memory_mib: Amount
    gpu_util: Amount | None = None
    gpu_memory_mib: Amount | None = None
    gpu_temperature_c: Annotated[float, Field(ge=-300, le=10_000, allow_inf_nan=False)] | None = None
    gpu_faults: Annotated[list[ShortText], Field(max_length=16), Storable] = []
    gpu_foreign: Annotated[list[ShortText], Field(max_length=16), Storable] = []


# What a pod tests of itself; of a model's provider the host is named.
CheckName = Annotated[
    str,
    StringConstraints(
        pattern=r"^(clock|disk|memory|gpu|cards|sandbox|tools|storage|model:[A-Za-z0-9.:\[\]_-]{1,200})$"
    ),
]
UPLOAD_TEST_BYTES_MAX: Final = 64
CHECKS_MAX: Final = 16


class CheckLine(Stored):
    """What a pod found in a look at itself; `kinds` are those that need it, null is all."""

    name: CheckName
    ok: bool
    code: Annotated[ShortText, Storable] | None = None
    message: Annotated[str, StringConstraints(max_length=300), Storable] = ""
    at: Moment
    kinds: Names | None = None


class UploadTest(Body):
    """A small object that a pod uploads to test the storage; `size` in bytes, `sha256` in hexadecimal."""

    pod: PodId
    size: Annotated[int, Field(ge=1, le=UPLOAD_TEST_BYTES_MAX), WHOLE]
    sha256: Sha256


class UploadFailuresLine(Stored):
    """How many tries to upload a file failed with a code, since the pod's start."""

    code: Annotated[ShortText, Storable]
    count: Annotated[int, Field(ge=0, lt=2**53), WHOLE]


class DeliveryLine(Stored):
    """What waits in a pod's outbox and for how long, the free bytes of its disk, and its failed uploads."""

    waiting: Annotated[int, Field(ge=0, lt=2**53), WHOLE]
    oldest_s: Amount
    disk_free_bytes: Annotated[int, Field(ge=0, lt=2**53), WHOLE] | None = None
    upload_failures: Annotated[list[UploadFailuresLine], Field(max_length=64)] = []


class ResetLine(Stored):
    """What became of an order to reset a service."""

    id: ResetId
    ok: bool
    code: Annotated[ShortText, Storable] | None = None
    message: Annotated[str, StringConstraints(max_length=1_000), Storable] = ""
    at: Moment


class PodLine(Stored):
    """A pod's entry in the roster; `id` is the pod's name with a mark of its start, such as `pod-7/3f2a`."""

    id: PodId
    pod: Annotated[ShortText, Storable]
    mode: Mode
    region: Annotated[ShortText, Storable] | None = None
    kinds: Names
    state: Literal["starting", "idle", "busy", "suspended", "draining", "stopped"]
    run_id: Annotated[ShortText, Storable] | None = None
    attempt: Annotated[int, Field(ge=1, lt=2**31), WHOLE] | None = None
    version: Annotated[ShortText, Storable]
    capabilities: CapabilitiesLine
    labels: SaidLabels = Field(default_factory=dict)
    telemetry: TelemetryLine
    checks: Annotated[list[CheckLine], Field(max_length=CHECKS_MAX)] = []
    resets: Annotated[list[ResetLine], Field(max_length=16)] = []
    clock_offset_s: Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)] | None = None
    delivery: DeliveryLine | None = None
    usd_per_hour: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    started_at: Moment
