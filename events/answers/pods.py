"""Pods as the HTTP interface shows them: their equipment, work and usage."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from events.answers.answer import Amount, Answer, Moment


class Gpu(Answer, frozen=True, kw_only=True):
    """A device of a pod; memory in MiB."""

    name: str
    memory_mib: Amount


class Capabilities(Answer, frozen=True, kw_only=True):
    """The equipment of a pod; `device` is the device that its pipelines compute on, memory in MiB.

    `isolation` is its isolation of a model's programs, `pipeline_user` the user of its pipelines.
    """

    cpus: int
    memory_mib: Amount
    gpus: list[Gpu]
    device: str | UnsetType | None = UNSET
    isolation: str | UnsetType | None = UNSET
    pipeline_user: str | UnsetType | None = UNSET


class Telemetry(Answer, frozen=True, kw_only=True):
    """The usage of a pod's resources: utilisation as fractions of one, memory in MiB, temperature in °C."""

    cpu_util: Amount | UnsetType | None = UNSET
    memory_mib: Amount | UnsetType | None = UNSET
    gpu_util: Amount | UnsetType | None = UNSET
    gpu_memory_mib: Amount | UnsetType | None = UNSET
    gpu_temperature_c: Amount | UnsetType | None = UNSET


class Sample(Telemetry, frozen=True, kw_only=True):
    """The usage of a pod's resources at a moment, without the values that could not be measured."""

    at: Moment


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


class PodOrders(Answer, frozen=True, kw_only=True):
    """The orders of the fleet for a pod: with `drain` it takes no other run."""

    drain: bool


class Pod(Answer, frozen=True, kw_only=True):
    """A worker; `id` is the pod's name with the mark of its start, such as `pod-7/3f2a`.

    `state` is starting, idle, busy, suspended, draining or stopped as it reported, or gone where it has not
    reported for a minute. `run_id` and `attempt` are what it works on, null where that is nothing.
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
    key_id: str | UnsetType | None = UNSET
    delivery: Delivery | UnsetType | None = UNSET  # of an earlier worker nothing is known
