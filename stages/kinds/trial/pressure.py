"""What else used the machine beside a measurement: cores of others, stalls, clocks, heat, GPU processes.

Law: what cannot be read here is None, and disturbs nothing; every file and answer is bounded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.runtime.clock import Clock
from stages.engines.processes import living

FILE_BYTES_MAX: Final = 1 << 20
SMI_S: Final = 5.0
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# of a line of /proc/stat: user, nice, system, irq, softirq and steal are work, idle and iowait are none
WORKING: Final = (1, 2, 3, 6, 7, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What was used until a moment, in seconds of processors; `stalled_s` is time that somebody waited."""

    at_s: float
    all_s: float
    own_s: float
    stalled_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """What disturbed a measurement, and how the machine was at its end."""

    cores: int
    others_cores: float | None
    stalled: float | None
    clock_mhz: float | None
    temperature_c: float | None
    gpu_processes: int | None

    def is_above(self, share: float) -> bool:
        """Return whether others used more than this share of the cores, or a GPU."""
        return bool(self.gpu_processes) or (self.others_cores or 0.0) > share * self.cores

    @property
    def values(self) -> Mapping[str, float | None]:
        """Return its numbers by the names of their columns."""
        names = ("others_cores", "stalled", "clock_mhz", "temperature_c", "gpu_processes")
        return {name: getattr(self, name) for name in names}


def between(start: Used, end: Used, machine: Mapping[str, float | None], cores: int) -> Pressure:
    """Return the pressure of the time between two readings, pure."""
    elapsed_s = max(1e-9, end.at_s - start.at_s)
    others_s = (end.all_s - start.all_s) - (end.own_s - start.own_s)
    stalled: float | None = None
    if start.stalled_s is not None and end.stalled_s is not None:
        stalled = min(1.0, max(0.0, (end.stalled_s - start.stalled_s) / elapsed_s))
    processes = machine.get("gpu_processes")
    return Pressure(
        cores=cores,
        others_cores=max(0.0, others_s / elapsed_s) if end.all_s else None,
        stalled=stalled,
        clock_mhz=machine.get("clock_mhz"),
        temperature_c=machine.get("temperature_c"),
        gpu_processes=None if processes is None else int(processes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Reads this machine; what `session` and this process use is the measurement's own."""

    session: int
    clock: Clock
    root: Path = Path("/")
    living: Callable[[int], list[int]] = living

    @property
    def cores(self) -> Collection[int]:
        """The cores that this process may use."""
        return os.sched_getaffinity(0)

    def used(self) -> Used:
        """Return what was used until now."""
        own = sum(self._process_s(pid) for pid in {*self.living(self.session), os.getpid()})
        return Used(
            at_s=self.clock.monotonic_s(), all_s=self._all_s(), own_s=own, stalled_s=self._stalled_s()
        )

    def until_now(self, start: Used) -> Pressure:
        """Return the pressure since a reading."""
        own = {*self.living(self.session), os.getpid()}
        machine: dict[str, float | None] = {
            "clock_mhz": self._clock_mhz(),
            "temperature_c": self._temperature_c(),
        }
        return between(start, self.used(), {**machine, **_gpus(own)}, len(self.cores))

    def _text(self, name: str) -> str:
        with suppress(OSError), (self.root / name).open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode(errors="replace")
        return ""

    def _all_s(self) -> float:
        wanted = {f"cpu{core}" for core in self.cores}
        rows = (line.split() for line in self._text("proc/stat").splitlines() if line.startswith("cpu"))
        return sum(_ticks(row, place) for row in rows if row[0] in wanted for place in WORKING) / TICKS_PER_S

    def _process_s(self, pid: int) -> float:
        fields = self._text(f"proc/{pid}/stat").rpartition(")")[2].split()
        # with the children that it has waited for
        return sum(_ticks(fields, place) for place in (11, 12, 13, 14)) / TICKS_PER_S

    def _stalled_s(self) -> float | None:
        for line in self._text("proc/pressure/cpu").splitlines():
            if line.startswith("some ") and (total := line.rpartition("total=")[2]).isdigit():
                return int(total) / 1e6
        return None

    def _clock_mhz(self) -> float | None:
        found = [
            float(text) / 1_000
            for core in self.cores
            if (
                text := self._text(f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").strip()
            ).isdigit()
        ]
        if not found:
            lines = self._text("proc/cpuinfo").splitlines()
            found = [*_numbers(line.rpartition(":")[2] for line in lines if line.startswith("cpu MHz"))]
        return sum(found) / len(found) if found else None

    def _temperature_c(self) -> float | None:
        zones = (self.root / "sys/class/thermal").glob("thermal_zone*/temp")
        found = [*_numbers(self._text(str(zone.relative_to(self.root))) for zone in zones)]
        return max(found) / 1_000 if found else None


def _ticks(fields: list[str], place: int) -> int:
    return int(fields[place]) if place < len(fields) and fields[place].isdigit() else 0


def _numbers(texts: Iterator[str]) -> Iterator[float]:
    for text in texts:
        with suppress(ValueError):
            yield float(text)


def _gpus(own: Collection[int]) -> dict[str, float | None]:
    """Return what NVIDIA's program says of this pod's GPUs; nothing where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    said = [line.split(",") for line in _asked(program, "--query-gpu=clocks.sm,temperature.gpu")]
    clocks = [*_numbers(row[0] for row in said)]
    temperatures = [*_numbers(row[1] for row in said if len(row) > 1)]
    pids = [int(line) for line in _asked(program, "--query-compute-apps=pid") if line.isdigit()]
    found: dict[str, float | None] = {"gpu_processes": len([pid for pid in pids if pid not in own])}
    if clocks:
        found["clock_mhz"] = sum(clocks) / len(clocks)
    if temperatures:
        found["temperature_c"] = max(temperatures)
    return found


def _asked(program: str, query: str) -> list[str]:
    with suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SMI_S,
            check=False,
        )
        return [line.strip() for line in answer.stdout[:FILE_BYTES_MAX].splitlines() if line.strip()]
    return []
