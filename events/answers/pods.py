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


class PodOrders(Answer, frozen=True, kw_only=True):
    """The orders of the fleet for a pod: with `drain` it takes no other run.

    The answer to a report also tells `now`, the moment at which the store took it.
    """

    drain: bool
    now: Moment | UnsetType = UNSET


class Pod(Answer, frozen=True, kw_only=True):
    """A worker; `id` is the pod's name with the mark of its start, such as `pod-7/3f2a`.

    `state` is starting, idle, busy, suspended, draining or stopped as it reported, or gone where it has not
    reported for a minute. `run_id` and `attempt` are what it works on, null where that is nothing.
    `clock_offset_s` says by how far its machine's clock is ahead of the store's, null if that is not known.
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
    clock_offset_s: Amount | UnsetType | None = UNSET
