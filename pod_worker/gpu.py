"""Measures the machine: GPUs, memory, processors, and how much of each is in use.

It reads the NVIDIA driver through NVML and never opens a CUDA context, which would take memory of the
device that the pipeline needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import psutil
import pynvml

MIB: Final = 1024 * 1024


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


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this pod may use."""

    cpus: int
    memory_mib: float
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What is in use now: fractions of one, MiB, degrees Celsius.

    Several devices give the mean of their utilisation, the sum of their memory and the
    highest temperature.
    """

    cpu_util: float | None
    memory_mib: float
    gpu_util: float | None = None
    gpu_memory_mib: float | None = None
    gpu_temperature_c: float | None = None


class GpuDriver(Protocol):
    """Where readings of the devices come from."""

    def gpus(self) -> Sequence[Gpu]: ...

    def use(self) -> Sequence[GpuUse]: ...


class NoDriver:
    """A machine without an NVIDIA driver."""

    def gpus(self) -> Sequence[Gpu]:
        return ()

    def use(self) -> Sequence[GpuUse]:
        return ()


class NvmlDriver:
    """The NVIDIA management library; `library` is the module `pynvml` or a stand-in."""

    def __init__(self, library: Any = pynvml) -> None:
        self._nvml = library

    def gpus(self) -> Sequence[Gpu]:
        return tuple(
            Gpu(name=self._nvml.nvmlDeviceGetName(device), memory_mib=memory.total / MIB)
            for device in self._devices()
            if (memory := self._ask(self._nvml.nvmlDeviceGetMemoryInfo, device)) is not None
        )

    def use(self) -> Sequence[GpuUse]:
        return tuple(self._use(device) for device in self._devices())

    def _devices(self) -> list[Any]:
        count = self._ask(self._nvml.nvmlDeviceGetCount) or 0
        handles = (self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count))
        return [handle for handle in handles if handle is not None]

    def _use(self, device: Any) -> GpuUse:
        rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates, device)
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo, device)
        celsius = self._ask(self._nvml.nvmlDeviceGetTemperature, device, pynvml.NVML_TEMPERATURE_GPU)
        return GpuUse(
            util=None if rates is None else rates.gpu / 100,
            memory_mib=None if memory is None else memory.used / MIB,
            temperature_c=None if celsius is None else float(celsius),
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
    _cpu_before: tuple[float, float] | None = field(default=None, init=False)

    def capabilities(self) -> Capabilities:
        """Return what there is to use."""
        return Capabilities(
            cpus=len(os.sched_getaffinity(0)),
            memory_mib=psutil.virtual_memory().total / MIB,
            gpus=tuple(self.driver.gpus()),
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


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None
