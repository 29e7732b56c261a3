"""Measures the machine: GPUs, memory, processors, and how much of each is in use.

It reads the NVIDIA driver through NVML and never opens a CUDA context, which would take memory of the
device that the pipeline needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import psutil
import pynvml

MIB: Final = 1024 * 1024
FAULTS_MAX: Final = 16
EVENTS_MAX: Final = 100  # so many are taken in one look
XID_EVENT: Final = pynvml.nvmlEventTypeXidCriticalError
# The errors of the hardware among the Xids; those of a program (13, 31, 43, 45) say nothing of the card:
# 48 double-bit ECC, 62 microcontroller, 64 row remapping failed, 74 NVLink, 79 fallen off the bus,
# 95 uncontained ECC, 119 and 120 GSP, 140 unrecovered ECC.
HARDWARE_XIDS: Final = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140})
LOST: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, as its driver names it."""

    name: str
    memory_mib: float


@dataclass(frozen=True, slots=True)
class GpuUse:
    """How busy one device is; None where the driver cannot tell (a MIG slice, a lost device)."""

    util: float | None
    memory_mib: float | None
    temperature_c: float | None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this pod may use; `disk_mib` is the size of the file system that holds its data."""

    cpus: int
    memory_mib: float
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    disk_mib: float | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What is in use now: fractions of one, MiB, degrees Celsius.

    Several devices give the mean of their utilisation, the sum of their memory and the
    highest temperature. `gpu_faults` are the faults of the hardware since the worker's start.
    """

    cpu_util: float | None
    memory_mib: float
    gpu_util: float | None = None
    gpu_memory_mib: float | None = None
    gpu_temperature_c: float | None = None
    gpu_faults: tuple[str, ...] = ()


class GpuDriver(Protocol):
    """Where readings of the devices come from."""

    def gpus(self) -> Sequence[Gpu]: ...

    def version(self) -> str | None: ...

    def use(self) -> Sequence[GpuUse]: ...


class NoDriver:
    """A machine without an NVIDIA driver."""

    def gpus(self) -> Sequence[Gpu]:
        return ()

    def version(self) -> str | None:
        return None

    def use(self) -> Sequence[GpuUse]:
        return ()


class NvmlDriver:
    """The NVIDIA management library; `library` is the module `pynvml` or a stand-in."""

    def __init__(self, library: Any = pynvml) -> None:
        self._nvml = library
        self._count = self._ask(self._nvml.nvmlDeviceGetCount) or 0
        self._uncorrected = [self._ecc_errors(each) for each in self._handles()]
        self._told: dict[int, dict[str, None]] = {}  # faults by device, in the order of their first sight
        self._events = self._listen()

    def gpus(self) -> Sequence[Gpu]:
        return tuple(
            Gpu(name=self._nvml.nvmlDeviceGetName(device), memory_mib=memory.total / MIB)
            for device in self._devices()
            if (memory := self._ask(self._nvml.nvmlDeviceGetMemoryInfo, device)) is not None
        )

    def version(self) -> str | None:
        """Return the release of the driver."""
        found = self._ask(self._nvml.nvmlSystemGetDriverVersion)
        return None if found is None else str(found)

    def use(self) -> Sequence[GpuUse]:
        self._hear()
        return tuple(self._use(index, device) for index, device in enumerate(self._handles()))

    def _devices(self) -> list[Any]:
        return [handle for handle in self._handles() if handle is not None]

    def _handles(self) -> list[Any]:
        """Return the devices that there were at the start; None for one that no longer answers."""
        return [self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index) for index in range(self._count)]

    def _listen(self) -> Any:
        """Return the set of events that tells of Xid errors, None where there is none."""
        events = self._ask(self._nvml.nvmlEventSetCreate)
        if events is not None:
            for device in self._devices():
                self._ask(self._nvml.nvmlDeviceRegisterEvents, device, XID_EVENT, events)
        return events

    def _hear(self) -> None:
        """Note the Xid errors since the last look."""
        for _ in range(EVENTS_MAX if self._events is not None else 0):
            told = self._ask(self._nvml.nvmlEventSetWait_v2, self._events, 0)
            if told is None:  # no more, or nobody can tell
                return
            number = int(told.eventData)
            if number in HARDWARE_XIDS:
                index = self._ask(self._nvml.nvmlDeviceGetIndex, told.device)
                self._told.setdefault(index or 0, {})[f"Xid {number}"] = None

    def _faults(self, index: int, device: Any) -> tuple[str, ...]:
        """Return the faults of a device since the start; it is lost where it no longer answers."""
        told = self._told.setdefault(index, {})
        try:
            if device is None:
                self._nvml.nvmlDeviceGetHandleByIndex(index)
            else:
                self._nvml.nvmlDeviceGetMemoryInfo(device)
        except pynvml.NVMLError as error:
            if getattr(error, "value", None) in LOST:
                told["lost"] = None
        before, now = self._uncorrected[index], None if device is None else self._ecc_errors(device)
        if before is not None and now is not None and now > before:
            told["uncorrected ECC error"] = None
        return tuple(told)

    def _ecc_errors(self, device: Any) -> int | None:
        kind, span = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        count = self._ask(self._nvml.nvmlDeviceGetTotalEccErrors, device, kind, span)
        return None if count is None else int(count)

    def _use(self, index: int, device: Any) -> GpuUse:
        faults = self._faults(index, device)
        if device is None:
            return GpuUse(None, None, None, faults)
        rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates, device)
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo, device)
        celsius = self._ask(self._nvml.nvmlDeviceGetTemperature, device, pynvml.NVML_TEMPERATURE_GPU)
        return GpuUse(
            util=None if rates is None else rates.gpu / 100,
            memory_mib=None if memory is None else memory.used / MIB,
            temperature_c=None if celsius is None else float(celsius),
            faults=faults,
        )

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Return the driver's answer, or None where this device cannot or can no longer say."""
        try:
            return question(*arguments)
        except pynvml.NVMLError:
            return None


def open_driver(library: Any = pynvml) -> GpuDriver:
    """Return the NVIDIA driver of this machine, or `NoDriver` where none answers."""
    try:
        library.nvmlInit()
    except pynvml.NVMLError:  # no library, no driver, no permission: a CPU pod
        return NoDriver()
    return NvmlDriver(library)


@dataclass(slots=True)
class Gauges:
    """Samples the machine; the utilisation of the CPU is what happened since the last sample."""

    driver: GpuDriver
    data: Path | None = None
    _cpu_before: tuple[float, float] | None = field(default=None, init=False)

    def capabilities(self) -> Capabilities:
        """Return what there is to use."""
        return Capabilities(
            cpus=len(os.sched_getaffinity(0)),
            memory_mib=psutil.virtual_memory().total / MIB,
            gpus=tuple(self.driver.gpus()),
            driver=self.driver.version(),
            disk_mib=None if self.data is None else psutil.disk_usage(str(self.data)).total / MIB,
        )

    def sample(self) -> Telemetry:
        """Return what is in use; `cpu_util` is None in the first sample."""
        memory = psutil.virtual_memory()
        use = self.driver.use()
        return Telemetry(
            cpu_util=self._cpu_util(),
            memory_mib=(memory.total - memory.available) / MIB,
            gpu_util=_mean([one.util for one in use if one.util is not None]),
            gpu_memory_mib=_sum([one.memory_mib for one in use if one.memory_mib is not None]),
            gpu_faults=_faults(use),
            gpu_temperature_c=max((t for one in use if (t := one.temperature_c) is not None), default=None),
        )

    def _cpu_util(self) -> float | None:
        times = psutil.cpu_times()
        idle: float = times.idle + getattr(times, "iowait", 0.0)
        # guest time is already a part of user time
        total: float = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        before, self._cpu_before = self._cpu_before, (idle, total)
        if before is None or total <= before[1]:
            return None
        return min(1.0, max(0.0, 1 - (idle - before[0]) / (total - before[1])))


def _faults(use: Sequence[GpuUse]) -> tuple[str, ...]:
    """Return the faults of every device, each with its number where there are several."""
    several = len(use) > 1
    named = (
        f"{fault} (GPU {number})" if several else fault
        for number, one in enumerate(use, 1)
        for fault in one.faults
    )
    return tuple(named)[:FAULTS_MAX]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None
