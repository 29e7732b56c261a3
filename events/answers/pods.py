"""Pods as the HTTP interface shows them: their equipment, work and usage."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.answer import Amount, Answer, Moment


class Gpu(Answer, frozen=True, kw_only=True):
    """A device of a pod; memory in MiB, and its compute capability, such as "9.0"."""

    name: str
    memory_mib: Amount
    compute_capability: str | UnsetType | None = UNSET
    uuid: str | UnsetType | None = UNSET


class Disk(Answer, frozen=True, kw_only=True):
    """The file system of a folder of a pod, in MiB; `kind` is ssd or disk, null where it is not known."""

    path: str
    total_mib: Amount
    free_mib: Amount
    kind: str | None = None


class PodModel(Answer, frozen=True, kw_only=True):
    """A model that lies on a pod; `engine` is set where one engine alone has it."""

    name: str
    bytes: int | None
    engine: str | None = None


class Cuda(Answer, frozen=True, kw_only=True):
    """Whether the pipelines of a pod compute on its GPUs, as its check `gpu` found.

    `code` is what keeps them from it, such as NO_DEVICE, NO_TORCH or CUDA_UNSUPPORTED_ARCH.
    """

    ok: bool
    code: str | None
    message: str


class Capabilities(Answer, frozen=True, kw_only=True):
    """The equipment of a pod; `device` is the device that its pipelines compute on, memory and disk in MiB.

    `isolation` is its isolation of a model's programs, `pipeline_user` the user of its pipelines. `cpu` is
    the model of its processor; `engines`, `models` and `cuda` are null until it has looked. `services` are
    the names of those that its operator lets people reset.
    """

    cpus: int
    memory_mib: Amount
    gpus: list[Gpu]
    driver: str | UnsetType | None = UNSET
    disk_mib: Amount | UnsetType | None = UNSET
    device: str | UnsetType | None = UNSET
    isolation: str | UnsetType | None = UNSET
    pipeline_user: str | UnsetType | None = UNSET
    cpu: str | UnsetType | None = UNSET
    disks: list[Disk] | UnsetType = UNSET
    engines: list[str] | UnsetType | None = UNSET
    models: list[PodModel] | UnsetType | None = UNSET
    cuda: Cuda | UnsetType | None = UNSET
    services: list[str] | UnsetType = UNSET


class Telemetry(Answer, frozen=True, kw_only=True):
    """The usage of a pod's resources: utilisation as fractions of one, memory in MiB, temperature in °C.

    `gpu_faults` are the faults of its GPUs' hardware since the worker's start, `gpu_foreign` the processes on
    its GPUs that are not its own.
    """

    cpu_util: Amount | UnsetType | None = UNSET
    memory_mib: Amount | UnsetType | None = UNSET
    gpu_util: Amount | UnsetType | None = UNSET
    gpu_memory_mib: Amount | UnsetType | None = UNSET
    gpu_temperature_c: Amount | UnsetType | None = UNSET
    gpu_faults: list[str] | UnsetType = UNSET
    gpu_foreign: list[str] | UnsetType = UNSET


class Sample(Telemetry, frozen=True, kw_only=True):
    """The usage of a pod's resources at a moment, without the values that could not be measured."""

    at: Moment


class Cordon(Answer, frozen=True, kw_only=True):
    """Why a pod claims nothing by the word of a person; until `until`, or until it is lifted."""

    reason: str
    by: str
    since: Moment
    until: Moment | None


class PodFailure(Answer, frozen=True, kw_only=True):
    """One end of an attempt, or one fault, that put a pod in quarantine."""

    code: str
    at: Moment
    run_id: str | None
    attempt: int | None


class Quarantine(Answer, frozen=True, kw_only=True):
    """Why a pod claims nothing by what it did; from `try_at` on it may, where its own checks pass."""

    reason: str
    since: Moment
    try_at: Moment
    evidence: list[PodFailure]


class UploadFailures(Answer, frozen=True, kw_only=True):
    """How many tries to upload a file failed with a code, since the pod's start."""

    code: str
    count: int


class Delivery(Answer, frozen=True, kw_only=True):
    """How many events wait in a pod's outbox, for how long the oldest, and the free bytes of its disk."""

    waiting: int
    oldest_s: float
    disk_free_bytes: int | None
    upload_failures: list[UploadFailures]


class ResetOrder(Answer, frozen=True, kw_only=True):
    """The order to reset a service, with `force` also while the pod has a run; nothing in it is executed."""

    id: str
    service: str
    force: bool


class PodOrders(Answer, frozen=True, kw_only=True):
    """The orders of the fleet for a pod: with `drain` it takes no other run, and leaves for good.

    With `restart` it takes no other run either, and leaves to be started again. With a `cordon` or a
    `quarantine` it claims nothing, and stays. `suspects` are the names of checks that other pods report as
    failing; `now`, in the answer to a report, is when the store took that, and `report_every_s` how often the
    pod shall report, which is more often while somebody looks at it. `resets` are orders to reset services of
    it, each to be carried out once.
    """

    drain: bool
    restart: bool = False
    cordon: Cordon | None = None
    quarantine: Quarantine | None = None
    suspects: list[str] = msgspec.field(default_factory=list)
    now: Moment | UnsetType = UNSET
    report_every_s: Amount | UnsetType = UNSET
    resets: list[ResetOrder] | UnsetType = UNSET


class PodStanding(Answer, frozen=True, kw_only=True):
    """What keeps a pod from claiming, by its name."""

    pod: str
    cordon: Cordon | None
    quarantine: Quarantine | None


class PodCheck(Answer, frozen=True, kw_only=True):
    """What a pod found in a look at itself.

    `name` is clock, disk, memory, gpu, sandbox, tools, storage, or `model:` with the host of its language
    model; `kinds` are those that it does not claim where this fails, null is all.
    """

    name: str
    ok: bool
    code: str | None
    message: str
    at: Moment
    kinds: list[str] | None


class Reset(Answer, frozen=True, kw_only=True):
    """The order to reset a service of a pod, and what became of it.

    `state` is ordered, done, failed, or unanswered where the pod said nothing in time. `code` says why it
    failed; `message` has the last lines that the service's command printed.
    """

    id: str
    service: str
    force: bool
    by: str
    at: Moment
    state: str
    code: str | None
    message: str
    ended_at: Moment | None


class Pod(Answer, frozen=True, kw_only=True):
    """A worker; `id` is the pod's name with the mark of its start, such as `pod-7/3f2a`.

    That of a pod with several slots has the number of its slot behind it, such as `pod-7/3f2a/3`.

    `state` is starting, idle, busy, suspended, draining or stopped as it reported, or gone where it has not
    reported for a minute. `labels` are what runs may ask for.
    `run_id` and `attempt` are what it works on, null where that is nothing.
    `clock_offset_s` says by how far its machine's clock is ahead of the store's, null if that is not known.
    `usd_per_hour` is its price, null where it was told none.
    """

    id: str
    pod: str
    mode: str
    region: str | None
    kinds: list[str]
    state: str
    run_id: str | None
    attempt: int | None
    version: str
    capabilities: Capabilities
    telemetry: Telemetry
    started_at: Moment
    reported_at: Moment
    orders: PodOrders
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    checks: list[PodCheck] = msgspec.field(default_factory=list)
    resets: list[Reset] = msgspec.field(default_factory=list)
    key_id: str | UnsetType | None = UNSET
    clock_offset_s: Amount | UnsetType | None = UNSET
    usd_per_hour: Amount | UnsetType | None = UNSET
    delivery: Delivery | UnsetType | None = UNSET  # of an earlier worker nothing is known
