"""What the kernel says of the machine: the model of its processor, and the disks of some folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pod_worker.machine.names import name_of

MIB: Final = 1024 * 1024
CPUINFO_BYTES_MAX: Final = 64 * 1024  # the first processor comes first, and names them all
DISKS_MAX: Final = 8
LINK_TURNS_MAX: Final = 4
# What names the model: of x86, of older ARM kernels, of POWER, of s390; the first that is there.
MODEL_FIELDS: Final = ("model name", "Model", "Hardware", "cpu model", "cpu", "vendor_id")
# An ARM processor names nothing but the numbers of its maker and of its part.
ARM_MAKERS: Final = {
    0x41: "ARM", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA",
    0x50: "Ampere", 0x51: "Qualcomm", 0x53: "Samsung", 0x61: "Apple", 0x6D: "Microsoft", 0xC0: "Ampere",
}  # fmt: skip
ARM_PARTS: Final = {
    0xD03: "Cortex-A53", 0xD05: "Cortex-A55", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72", 0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1", 0xD40: "Neoverse-V1", 0xD42: "Cortex-A78AE", 0xD49: "Neoverse-N2",
    0xD4F: "Neoverse-V2", 0xD84: "Neoverse-V3", 0xD8E: "Neoverse-N3",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of a folder; `kind` is ssd, disk, memory, network, or None where nobody tells it."""

    path: str
    total_mib: float
    free_mib: float
    kind: str | None = None


def cpu_model(proc: Path = Path("/proc")) -> str | None:
    """Return the model of the processor, None where the kernel does not tell it."""
    try:
        with (proc / "cpuinfo").open("rb") as opened:
            text = opened.read(CPUINFO_BYTES_MAX).decode(errors="replace")
    except OSError:
        return None
    told: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if value.strip():
            told.setdefault(name.strip(), value.strip())
    named = next((told[field] for field in MODEL_FIELDS if field in told), None)
    return name_of(named or _arm_model(told)) or None


def disks_of(folders: Iterable[Path], system: Path = Path("/sys")) -> tuple[Disk, ...]:
    """Return the file systems of folders, each once; one that cannot be asked is left out."""
    found: dict[int, Disk] = {}
    for folder in folders:
        with suppress(OSError):
            device, size = folder.stat().st_dev, os.statvfs(folder)
            total, free = (size.f_frsize * blocks / MIB for blocks in (size.f_blocks, size.f_bavail))
            found.setdefault(device, Disk(name_of(str(folder)), total, free, _kind(device, system)))
    return tuple(found.values())[:DISKS_MAX]


def _arm_model(told: dict[str, str]) -> str:
    with suppress(KeyError, ValueError):
        maker, part = int(told["CPU implementer"], 0), int(told["CPU part"], 0)
        model = ARM_PARTS.get(part) if maker == 0x41 else None
        return f"{ARM_MAKERS.get(maker, hex(maker))} {model or f'part {part:#x}'}"
    return ""


@cache
def _kind(device: int, system: Path) -> str | None:
    """Return what a disk is by its queue; that of a partition is its whole disk's."""
    block = system / "dev/block" / f"{os.major(device)}:{os.minor(device)}"
    for folder in (block, block / ".."):
        with suppress(OSError):
            return "disk" if (folder / "queue/rotational").read_text().strip() == "1" else "ssd"
    return None
