"""Stands before the module `pynvml` on PYTHONPATH: as many cards as NVIDIA_DOUBLE says; the rest is real.

The file that NVIDIA_DOUBLE_PROCESSES names has a line for each process that computes: its card and its pid.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

spec = PathFinder.find_spec("pynvml", [each for each in sys.path if Path(each).resolve() != HERE.resolve()])
assert spec is not None
assert spec.loader is not None
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
globals().update({name: value for name, value in vars(real).items() if not name.startswith("__")})

from testing.gpu_double.library import Library  # noqa: E402 - it needs the names above

library = Library(count=int(os.environ["NVIDIA_DOUBLE"]))


def processes_now(device: int) -> Any:
    """Return the processes of a card, as the file tells them now."""
    told = Path(os.environ["NVIDIA_DOUBLE_PROCESSES"]).read_text().splitlines()
    found = [each.split() for each in told]
    library.processes = {device: [int(pid) for card, pid in found if int(card) == device]}
    return library.nvmlDeviceGetComputeRunningProcesses(device)


for name in dir(library):
    if name.startswith("nvml"):
        globals()[name] = getattr(library, name)
if "NVIDIA_DOUBLE_PROCESSES" in os.environ:
    globals()["nvmlDeviceGetComputeRunningProcesses"] = processes_now
