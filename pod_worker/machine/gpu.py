"""Reads the NVIDIA driver through NVML: the devices, how busy they are, and the faults of their hardware.

It never opens a CUDA context, which would take memory of the device that the pipeline needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pynvml

from events.models.visible_devices import visible_devices
from pod_worker.machine.hardware import MIB

EVENTS_MAX: Final = 100  # so many are taken in one look
PROCESSES_MAX: Final = 64  # of one device
XID_EVENT: Final = pynvml.nvmlEventTypeXidCriticalError
# The errors of the hardware among the Xids; those of a program (13, 31, 43, 45) say nothing of the card:
# 48 double-bit ECC, 62 microcontroller, 64 row remapping failed, 74 NVLink, 79 fallen off the bus,
# 95 uncontained ECC, 119 and 120 GSP, 140 unrecovered ECC.
HARDWARE_XIDS: Final = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140})
LOST: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, as its driver names it; `compute_capability` is such as "9.0"."""

    name: str
    memory_mib: float
    compute_capability: str | None = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """How busy one device is; None where the driver cannot tell (a MIG slice, a lost device).

    `processes` are the pids of those that compute on it.
    """

    util: float | None
    memory_mib: float | None
    temperature_c: float | None
    faults: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherCard:
    """A card that is another's: its UUID or number, and the pids of those that compute on it."""

    name: str
    processes: tuple[int, ...]


class GpuDriver(Protocol):
    """Where readings of the devices come from."""

    def gpus(self) -> Sequence[Gpu]: ...

    def version(self) -> str | None: ...

    def use(self) -> Sequence[GpuUse]: ...

    def others(self) -> Sequence[OtherCard]:
        """Return the cards of the machine that are not this worker's, on which processes compute."""
        ...


class NoDriver:
    """A machine without an NVIDIA driver."""

    def gpus(self) -> Sequence[Gpu]:
        return ()

    def version(self) -> str | None:
        return None

    def use(self) -> Sequence[GpuUse]:
        return ()

    def others(self) -> Sequence[OtherCard]:
        return ()


class NvmlDriver:
    """The NVIDIA management library; `library` is the module `pynvml` or a stand-in.

    Only the devices count that `named`, a value of CUDA_VISIBLE_DEVICES, names.
    """

    def __init__(self, library: Any = pynvml, named: str | None = None) -> None:
        self._nvml = library
        count = self._ask(self._nvml.nvmlDeviceGetCount) or 0
        cards = [self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        self._names = visible_devices(named, [self._uuid(each) for each in cards])
        # of a card whose slices are named nobody can say by processes whose it is
        has_slices = any(isinstance(each, str) for each in self._names)
        self._others = [] if has_slices else [each for each in range(count) if each not in self._names]
        self._uncorrected = [self._ecc_errors(each) for each in self._handles()]
        self._told: dict[int, dict[str, None]] = {}  # faults by device, in the order of their first sight
        self._events = self._listen()

    def gpus(self) -> Sequence[Gpu]:
        return tuple(
            Gpu(
                self._nvml.nvmlDeviceGetName(device),
                memory.total / MIB,
                self._compute_capability(device),
                self._uuid(device),
            )
            for device in self._devices()
            if (memory := self._ask(self._nvml.nvmlDeviceGetMemoryInfo, device)) is not None
        )

    def _compute_capability(self, device: Any) -> str | None:
        found = self._ask(self._nvml.nvmlDeviceGetCudaComputeCapability, device)
        return None if found is None else ".".join(map(str, found))

    def _uuid(self, device: Any) -> str | None:
        found = None if device is None else self._ask(self._nvml.nvmlDeviceGetUUID, device)
        return None if found is None else str(found)

    def version(self) -> str | None:
        """Return the release of the driver."""
        found = self._ask(self._nvml.nvmlSystemGetDriverVersion)
        return None if found is None else str(found)

    def use(self) -> Sequence[GpuUse]:
        self._hear()
        return tuple(self._use(index, device) for index, device in enumerate(self._handles()))

    def others(self) -> Sequence[OtherCard]:
        found = []
        for index in self._others:
            device = self._ask(self._handle, index)
            if device is not None and (processes := self._processes(device)):
                found.append(OtherCard(self._uuid(device) or f"GPU {index}", processes))
        return found

    def _devices(self) -> list[Any]:
        return [handle for handle in self._handles() if handle is not None]

    def _handles(self) -> list[Any]:
        """Return the devices that there were at the start; None for one that no longer answers."""
        return [self._ask(self._handle, name) for name in self._names]

    def _handle(self, name: int | str) -> Any:
        if isinstance(name, int):
            return self._nvml.nvmlDeviceGetHandleByIndex(name)
        return self._nvml.nvmlDeviceGetHandleByUUID(name)

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
                place = self._names.index(index) if index in self._names else 0
                self._told.setdefault(place, {})[f"Xid {number}"] = None

    def _faults(self, index: int, device: Any) -> tuple[str, ...]:
        """Return the faults of a device since the start; it is lost where it no longer answers."""
        told = self._told.setdefault(index, {})
        try:
            if device is None:
                self._handle(self._names[index])
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
            processes=self._processes(device),
        )

    def _processes(self, device: Any) -> tuple[int, ...]:
        found = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, device) or ()
        return tuple(int(each.pid) for each in found[:PROCESSES_MAX])

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Return the driver's answer, or None where this device cannot or can no longer say."""
        try:
            return question(*arguments)
        except pynvml.NVMLError:
            return None


def open_driver(library: Any = pynvml, named: str | None = None) -> GpuDriver:
    """Return the NVIDIA driver of this machine, or `NoDriver` where none answers.

    `named` is the value of CUDA_VISIBLE_DEVICES: what it leaves out belongs to others.
    """
    try:
        library.nvmlInit()
    except pynvml.NVMLError:  # no library, no driver, no permission: a CPU pod
        return NoDriver()
    return NvmlDriver(library, named)


def device_names(driver: GpuDriver) -> list[str]:
    """Return the UUIDs of the devices, by which each program means the same one.

    Where a driver tells none, no names are returned: it has nothing by which its devices could be divided.
    """
    found = [gpu.uuid for gpu in driver.gpus()]
    return [each for each in found if each is not None] if all(found) else []
