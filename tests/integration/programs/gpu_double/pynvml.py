"""Stands before the module `pynvml` on PYTHONPATH: as many cards as NVIDIA_DOUBLE says; the rest is real."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

HERE = Path(__file__).parent

spec = PathFinder.find_spec("pynvml", [each for each in sys.path if Path(each).resolve() != HERE.resolve()])
assert spec is not None
assert spec.loader is not None
real = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
globals().update({name: value for name, value in vars(real).items() if not name.startswith("__")})

from testing.gpu_double.library import Library  # noqa: E402 - it needs the names above

library = Library(count=int(os.environ["NVIDIA_DOUBLE"]))
for name in dir(library):
    if name.startswith("nvml"):
        globals()[name] = getattr(library, name)
