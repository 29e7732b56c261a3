"""The GPUs that programs see, by the driver's word: no CUDA context is opened, and torch is not loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pynvml

from events.models.visible_devices import VARIABLE, visible_devices


def visible_gpus(environ: Mapping[str, str], library: Any = pynvml) -> list[str]:
    """Return the names of the GPUs that programs with this environment see: all, or those that it names.

    Without a driver there are none. `library` is the module `pynvml` or a stand-in.
    """
    try:
        library.nvmlInit()
        handles = [library.nvmlDeviceGetHandleByIndex(each) for each in range(library.nvmlDeviceGetCount())]
        uuids = [_uuid(library, each) for each in handles]
        return [
            str(library.nvmlDeviceGetName(handles[each] if isinstance(each, int) else _slice(library, each)))
            for each in visible_devices(environ.get(VARIABLE), uuids)
        ]
    except pynvml.NVMLError:  # no library, no driver, no permission: a CPU pod
        return []


def _uuid(library: Any, handle: Any) -> str | None:
    try:
        return str(library.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None


def _slice(library: Any, name: str) -> Any:
    return library.nvmlDeviceGetHandleByUUID(name)
