"""A control group of the kernel around one program, where this machine allows one.

Law: it helps and is never relied on. Rented containers mostly forbid it, and the watch alone enforces every
limit, only later. Standard library only; the folders are those of version 1 or 2.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
NAME: Final = "podfleet-"
# Threads are counted there too, and numerical libraries start many.
THREADS_PER_PROCESS: Final = 8
FOLDERS_MAX: Final = 1_000
PEAKS: Final = {
    "memory.limit_in_bytes": "memory.max_usage_in_bytes",
    "memory.memsw.limit_in_bytes": "memory.memsw.max_usage_in_bytes",
    "memory.max": "memory.peak",
}
AT_LIMIT: Final = 0.9  # of the limit: what is refused is asked for in large pieces


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of one group: one for version 2, one for each controller of version 1; perhaps none."""

    folders: tuple[Path, ...]

    @classmethod
    def make(cls, *, memory_bytes: int, processes: int) -> ControlGroup:
        """Make a group with these limits, named after this process."""
        made: list[Path] = []
        for controller, parent in _parents():
            _sweep(parent)
            folder = parent / f"{NAME}{os.getpid()}"
            with suppress(OSError):
                folder.mkdir(exist_ok=True)
                if folder not in made:
                    made.append(folder)
                for name, value in _limits(controller, memory_bytes, processes * THREADS_PER_PROCESS):
                    if (folder / name).exists():
                        (folder / name).write_text(str(value))
        return cls(tuple(made))

    def join(self) -> None:
        """Put this process, and what it will start, into the group."""
        for folder in self.folders:
            with suppress(OSError):
                (folder / "cgroup.procs").write_text("0")

    def memory_ran_out(self) -> bool:
        """Return whether the kernel ended a process of the group because the group used all that it may."""
        return self._was_ended_for_memory() and self._was_at_its_limit()

    def machine_ran_out(self) -> bool:
        """Return whether the kernel ended a process of the group although the group was within its limit."""
        return self._was_ended_for_memory() and not self._was_at_its_limit()

    def processes_ran_out(self) -> bool:
        """Return whether the group was refused another process or thread."""
        return bool(self._count("pids.events", "max"))

    def processor_s(self) -> float:
        """Return what everybody who was in the group took of processors; 0 where it does not count that."""
        return self._count("cpu.stat", "usage_usec") / 1e6

    def forbid_more(self) -> None:
        """Keep every process of the group from starting another, so that killing comes to an end."""
        for folder in self.folders:
            for name, value in (("cgroup.kill", "1"), ("pids.max", "0")):
                with suppress(OSError):
                    if (folder / name).exists():
                        (folder / name).write_text(value)

    def remove(self) -> None:
        """Remove the group, which must be empty."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()

    def _was_ended_for_memory(self) -> bool:
        return any(self._count(name, "oom_kill") for name in ("memory.events", "memory.oom_control"))

    def _was_at_its_limit(self) -> bool:
        """Return whether the group once used what it may; not every kernel counts the refusals themselves."""
        if self._count("memory.events", "oom"):
            return True
        for folder in self.folders:
            for limit, peak in PEAKS.items():
                with suppress(OSError, ValueError):
                    if int((folder / peak).read_text()) >= AT_LIMIT * int((folder / limit).read_text()):
                        return True
        return False

    def _count(self, name: str, key: str) -> int:
        for folder in self.folders:
            with suppress(OSError):
                for line in (folder / name).read_text().splitlines():
                    if line.startswith(f"{key} "):
                        return int(line.split()[1])
        return 0


def _limits(controller: str, memory_bytes: int, tasks: int) -> list[tuple[str, int]]:
    memory = [("memory.limit_in_bytes", memory_bytes), ("memory.memsw.limit_in_bytes", memory_bytes)]
    return {
        "pids": [("pids.max", tasks)],
        "memory": memory,
        "": [("pids.max", tasks), ("memory.max", memory_bytes), ("memory.swap.max", 0)],
    }[controller]


def _parents() -> list[tuple[str, Path]]:
    """Return our own groups, by controller; the empty name is version 2."""
    found: list[tuple[str, Path]] = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                if not (ROOT / "cgroup.controllers").exists():
                    continue  # beside version 1 it limits nothing
                roots = [("", ROOT)]
            else:
                roots = [(name, ROOT / name) for name in controllers.split(",") if name in ("pids", "memory")]
            for controller, root in roots:
                # inside a container the path may be the host's name for what is our root
                places = [place for place in (root / path.lstrip("/"), root) if place.is_dir()]
                found += [(controller, place) for place in places[:1]]
    return found


def _sweep(parent: Path) -> None:
    """Remove the groups of killed processes; a group with a live process stays."""
    with suppress(OSError):
        for folder in list(parent.glob(f"{NAME}*"))[:FOLDERS_MAX]:
            if not Path("/proc", folder.name.removeprefix(NAME)).exists():
                with suppress(OSError):
                    folder.rmdir()
