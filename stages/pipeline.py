"""Runs one pipeline to its end: exactly one final event, whatever happens inside."""

from __future__ import annotations

import errno
import subprocess
import traceback
from typing import Final, Protocol

from events.catalog import RunCanceled, RunCompleted, RunFailed, RunPreempted, RunStarted
from events.runtime.errors import Canceled, GivenBack, PipelineError
from stages.context import Context

TRACEBACK_MAX: Final = 16_000
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
BROKEN_DISK: Final = frozenset({errno.EIO, errno.EROFS})
# What PyTorch says where GPU, driver or libraries fail; an assertion on the device is the program's.
OF_GPU: Final = (
    "CUDA error",
    "CUDA driver",
    "NVIDIA driver",
    "CUDA initialization",
    "No CUDA GPUs",
    "cuDNN error",
)
OF_PROGRAM: Final = "device-side assert"


class Pipeline(Protocol):
    """What a kind of run does: returns a line that sums the run up, or raises."""

    def __call__(self, context: Context) -> str: ...


def run_pipeline(pipeline: Pipeline, context: Context) -> None:
    """Run `pipeline` and report its one end; only a broken reporter lets an exception out."""
    try:
        context.emit(RunStarted())
        if context.kind is None or not context.kind.prepares:
            context.wait_for_start()
        summary = pipeline(context)
    except Canceled as error:
        context.emit(RunCanceled(reason=str(error) or None))
    except GivenBack as error:
        context.emit(RunPreempted(reason=str(error) or None))
    except Exception as error:  # noqa: BLE001 - the child's last line: any failure becomes one event
        context.emit(failure_of(error, context.where.stage))
    else:
        context.emit(RunCompleted(summary=summary))


def failure_of(error: Exception, stage: str) -> RunFailed:
    """Return the failure event that `error` stands for."""
    code, retryable = classify(error)
    trace = "".join(traceback.format_exception(error))
    return RunFailed(
        code=code,
        message=str(error) or type(error).__name__,
        stage=stage,
        traceback=_middle_out(trace),
        retryable=retryable,
    )


def _middle_out(trace: str) -> str:
    """Return a trace without its middle: its head has the place, its tail the error."""
    half = TRACEBACK_MAX // 2
    return trace if len(trace) <= TRACEBACK_MAX else f"{trace[:half]}\n[...]\n{trace[-half:]}"


def classify(error: Exception) -> tuple[str, bool]:
    """Return the public code of `error`, and whether the same run may succeed later."""
    if isinstance(error, PipelineError):
        return error.code, error.retryable
    text = str(error)
    if isinstance(error, MemoryError) or "CUDA out of memory" in text:
        return "OUT_OF_MEMORY", False
    if "no kernel image is available" in text:
        return "CUDA_UNSUPPORTED_ARCH", False
    if isinstance(error, RuntimeError) and OF_PROGRAM not in text and any(words in text for words in OF_GPU):
        return "GPU_BROKEN", True
    if isinstance(error, ImportError) or _is_of_a_start(error):
        return "NOT_AVAILABLE", True
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return "DISK_FULL", True
    if isinstance(error, OSError) and error.errno in BROKEN_DISK:
        return "DISK_FAILED", True
    if isinstance(error, TimeoutError):
        return "TIMEOUT", True
    return type(error).__name__, False


def _is_of_a_start(error: Exception) -> bool:
    """Say whether a program could not be started, since the pod lacks it or may not run it."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_code.co_filename == subprocess.__file__
