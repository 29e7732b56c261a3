"""The GPUs that programs see, by the driver's word: no CUDA context is opened, and torch is not loaded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final

import pynvml

NAMED: Final = "CUDA_VISIBLE_DEVICES"
NONE: Final = ("", "-1", "NoDevFiles")


def visible_gpus(environ: Mapping[str, str], library: Any = pynvml) -> list[str]:
    """Return the names of the GPUs that programs with this environment see: all, or as many as it names.

    As CUDA reads the variable, what stands behind a name that is none is not seen. Without a driver there
    are none. `library` is the module `pynvml` or a stand-in.
    """
    try:
        library.nvmlInit()
        handles = map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
        there = [str(library.nvmlDeviceGetName(each)) for each in handles]
    except pynvml.NVMLError:  # no library, no driver, no permission: a CPU pod
        return []
    if (named := environ.get(NAMED)) is None:
        return there
    names = (each.strip() for each in named.split(","))
    return there[: sum(1 for _ in takewhile(lambda each: each not in NONE, names))]
