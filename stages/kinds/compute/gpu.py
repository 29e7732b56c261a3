"""The device that a work computes on, and how long CUDA takes for something, by its own events.

Law: torch is imported here and at no other place of this kind, and only for a work that may use it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from events.models.advice import advice_on
from events.runtime.errors import PipelineError
from stages.pipeline import classify

INSTALL: Final = "install PyTorch on the pod, or take another pod"


def torch_here() -> Any:
    """Return torch; None where the pod does not have it."""
    return importlib.import_module("torch") if importlib.util.find_spec("torch") is not None else None


def is_cuda(device: str, torch: Any) -> bool:
    """Say whether a work with this setting computes on CUDA. Raises `PipelineError` where it cannot."""
    if device == "cpu":
        return False
    has_cuda = torch is not None and bool(torch.cuda.is_available())
    if device == "cuda" and not has_cuda:
        missing = "no PyTorch" if torch is None else "no CUDA device that its PyTorch can use"
        raise PipelineError(
            "NO_DEVICE", f"this pod has {missing}: take a pod with a GPU, or a work that needs none"
        )
    return has_cuda


def name_of(torch: Any) -> str:
    """Return the name of the CUDA device."""
    return str(torch.cuda.get_device_name(0))


def left_bytes(torch: Any) -> int:
    """Return how much memory of the CUDA device nobody has."""
    return int(torch.cuda.mem_get_info()[0])


def seconds_of(torch: Any, work: Callable[[], object]) -> float:
    """Do something on the CUDA device; return the seconds that it took there."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1_000


@contextmanager
def explained() -> Iterator[None]:
    """Give an error of torch or CUDA the advice that is known for its words."""
    try:
        yield
    except RuntimeError as error:
        advice = advice_on(str(error))
        if advice is None:
            raise
        if advice.code == "OUT_OF_MEMORY":
            raise PipelineError(advice.code, f"{error}: lower size or bytes, or take a larger pod") from error
        code, retryable = classify(error)
        raise PipelineError(code, f"{error}: {advice.words}", retryable=retryable) from error
