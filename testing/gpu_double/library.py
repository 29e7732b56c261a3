"""A stand-in for the module `pynvml`: cards that say what they are told to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1024 * 1024
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Library:
    """So many cards, whose questions fail with the given NVML error; a card is known by its index."""

    failing: dict[str, int] = field(default_factory=dict)
    xids: list[tuple[int, int]] = field(default_factory=list)  # device and number, as they come
    uncorrected: int = 3  # since the driver was loaded
    count: int = 2
    processes: dict[int, list[int]] = field(default_factory=dict)  # pids, by card
    listened_to: list[int] = field(default_factory=list)

    def nvmlEventSetCreate(self) -> str:
        answer: str = self._answer("events", "set")
        return answer

    def nvmlDeviceRegisterEvents(self, device: int, kinds: int, events: str) -> None:
        assert (kinds, events) == (pynvml.nvmlEventTypeXidCriticalError, "set")
        self.listened_to.append(device)

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> Any:
        assert timeout_ms == 0
        if not self.xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        device, number = self.xids.pop(0)
        return SimpleNamespace(device=device, eventData=number)

    def nvmlDeviceGetIndex(self, device: int) -> int:
        return device

    def nvmlDeviceGetTotalEccErrors(self, device: int, kind: int, span: int) -> int:
        assert (kind, span) == (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        count: int = self._answer("ecc", self.uncorrected if device else 0)
        return count

    def _answer(self, question: str, answer: Any) -> Any:
        if question in self.failing:
            raise pynvml.NVMLError(self.failing[question])
        return answer

    def nvmlInit(self) -> None:
        self._answer("init", None)

    def nvmlSystemGetDriverVersion(self) -> str:
        version: str = self._answer("version", "550.54.15")
        return version

    def nvmlDeviceGetCount(self) -> int:
        count: int = self._answer("count", self.count)
        return count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return self._answer(f"handle {index}", index)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        """Slices of cards are found by this alone."""
        if not uuid.startswith("MIG-"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return 0

    def nvmlDeviceGetUUID(self, device: int) -> str:
        uuid: str = self._answer("uuid", f"GPU-{LETTERS[device]}")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, device: int) -> Any:
        pids = self._answer("processes", self.processes.get(device, []))
        return [SimpleNamespace(pid=pid, usedGpuMemory=512 * MIB) for pid in pids]

    def nvmlDeviceGetName(self, device: int) -> str:
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetCudaComputeCapability(self, device: int) -> Any:
        return self._answer("capability", (9, 0))

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:
        return self._answer("memory", SimpleNamespace(total=81559 * MIB, used=(device + 1) * 512 * MIB))

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:
        return self._answer("rates", SimpleNamespace(gpu=(25 + 50 * device) % 100))

    def nvmlDeviceGetTemperature(self, device: int, sensor: int) -> Any:
        return self._answer("temperature", 40 + device)
