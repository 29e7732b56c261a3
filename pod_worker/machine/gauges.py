"""Measures the machine: GPUs, memory, processors, disks, and how much of each is in use."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import psutil

from pod_worker.machine.cards import CardWatch
from pod_worker.machine.foreign import FOREIGN_MAX, Computing, Family
from pod_worker.machine.gpu import Gpu, GpuDriver, GpuUse
from pod_worker.machine.hardware import MIB, Disk, cpu_model, disks_of
from pod_worker.machine.inventory import NOT_LOOKED, Inventory

FAULTS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Cuda:
    """Whether pipelines can compute on the GPUs; `code` says what keeps them from it."""

    ok: bool
    code: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this pod may use; `disk_mib` is the size of the file system that holds its data.

    `engines`, `models` and `cuda` are None until they were looked up, which never delays a report. `services`
    are the names of those that its operator lets people reset.
    """

    cpus: int
    memory_mib: float
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    disk_mib: float | None = None
    cpu: str | None = None
    disks: tuple[Disk, ...] = ()
    inventory: Inventory = NOT_LOOKED
    cuda: Cuda | None = None
    services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What is in use now: fractions of one, MiB, degrees Celsius.

    Several devices give the mean of their utilisation, the sum of their memory and the
    highest temperature. `gpu_faults` are the faults of the hardware since the worker's start, and
    `gpu_foreign` the processes on the devices that do not belong to this worker.
    """

    cpu_util: float | None
    memory_mib: float
    gpu_util: float | None = None
    gpu_memory_mib: float | None = None
    gpu_temperature_c: float | None = None
    gpu_faults: tuple[str, ...] = ()
    gpu_foreign: tuple[str, ...] = ()


@dataclass(slots=True)
class Gauges:
    """Samples the machine; the utilisation of the CPU is what happened since the last sample."""

    driver: GpuDriver
    data: Path | None = None
    inventory: Callable[[], Inventory] = Inventory
    cuda: Callable[[], Cuda | None] = lambda: None
    services: tuple[str, ...] = ()
    family: Family = field(default_factory=Family.here)
    watch: CardWatch = field(default_factory=CardWatch)
    _cpu_before: tuple[float, float] | None = field(default=None, init=False)

    def capabilities(self) -> Capabilities:
        """Return what there is to use."""
        return Capabilities(
            cpus=len(os.sched_getaffinity(0)),
            memory_mib=psutil.virtual_memory().total / MIB,
            gpus=tuple(self.driver.gpus()),
            driver=self.driver.version(),
            disk_mib=None if self.data is None else psutil.disk_usage(str(self.data)).total / MIB,
            cpu=_cpu_model(),
            disks=() if self.data is None else disks_of([self.data]),
            inventory=self.inventory(),
            cuda=self.cuda(),
            services=self.services,
        )

    def sample(self) -> Telemetry:
        """Return what is in use; `cpu_util` is None in the first sample."""
        memory = psutil.virtual_memory()
        use = self.driver.use()
        on_own = [[*self.family.find(one.processes)] for one in use]
        self._watch(on_own)
        return Telemetry(
            cpu_util=self._cpu_util(),
            memory_mib=(memory.total - memory.available) / MIB,
            gpu_util=_mean([one.util for one in use if one.util is not None]),
            gpu_memory_mib=_sum([one.memory_mib for one in use if one.memory_mib is not None]),
            gpu_faults=_faults(use),
            gpu_foreign=_foreign(on_own),
            gpu_temperature_c=max((t for one in use if (t := one.temperature_c) is not None), default=None),
        )

    def _watch(self, on_own: Sequence[Sequence[Computing]]) -> None:
        """Note who is on the cards of whom, for the attempts."""
        strays = [
            f"{process} on {card.name}"
            for card in self.driver.others()
            for process in self.family.find(card.processes)
            if process.is_ours
        ]
        intruders = _of_devices([[str(each) for each in one if each.slot is not None] for one in on_own])
        self.watch.see(strays[:FOREIGN_MAX], intruders[:FOREIGN_MAX])

    def _cpu_util(self) -> float | None:
        times = psutil.cpu_times()
        idle: float = times.idle + getattr(times, "iowait", 0.0)
        # guest time is already a part of user time
        total: float = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        before, self._cpu_before = self._cpu_before, (idle, total)
        if before is None or total <= before[1]:
            return None
        return min(1.0, max(0.0, 1 - (idle - before[0]) / (total - before[1])))


@cache
def _cpu_model() -> str | None:
    return cpu_model()


def _faults(use: Sequence[GpuUse]) -> tuple[str, ...]:
    return _of_devices([one.faults for one in use])[:FAULTS_MAX]


def _foreign(on_own: Sequence[Sequence[Computing]]) -> tuple[str, ...]:
    return _of_devices([[str(each) for each in one if not each.is_ours] for one in on_own])[:FOREIGN_MAX]


def _of_devices(told: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return what is told of every device, each with its number where there are several."""
    several = len(told) > 1
    return tuple(
        f"{each} (GPU {number})" if several else each for number, one in enumerate(told, 1) for each in one
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None
