"""The device that trains, chosen once per run and set up to give the same numbers twice."""

from __future__ import annotations

import os
from typing import Final

import torch

THREADS: Final = 1  # fixed: sums split over another number of threads differ in the last digits


def prepare_device() -> torch.device:
    """Choose the GPU where there is one, and make its arithmetic repeatable."""
    torch.set_num_threads(THREADS)
    if torch.cuda.is_available():
        # cuBLAS reads this when its first handle is made, and is repeatable only with it.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # noqa: TID251 - the library's only switch
        torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: torch.device) -> str:
    """Return what a reader of the paper must know about `device`."""
    if device.type == "cuda":
        return f"GPU {torch.cuda.get_device_name(device)}"
    return f"CPU, {torch.get_num_threads()} thread"
