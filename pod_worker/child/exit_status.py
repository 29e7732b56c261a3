"""Interprets the exit status of a child that reported no end itself.

Law: pure. The evidence (exit status, signal, counters of the kernel) comes as arguments.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final, Literal

from events.catalog import RunFailed

Limit = Literal["start", "total", "no progress"]

LAST_WORDS_MAX: Final = 16_000
KILLED: Final = "KILLED"
PROGRAM_KILLED: Final = "PIPELINE_KILLED"  # of a person's program, which most likely did it

# The process broke itself: the same run would break the same way.
MEMORY_FAULTS: Final = frozenset({signal.SIGSEGV, signal.SIGBUS})
ABORTS: Final = frozenset({signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP})


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended by itself, with this status."""

    status: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal ended the process."""

    number: int


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """The process was not ready after `waited_s`; `end` is None while it still runs."""

    waited_s: float
    end: Exited | Signalled | None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The pod ended the process, because a limit of `seconds` was over."""

    limit: Limit
    seconds: float


End = Exited | Signalled | NeverStarted | TimedOut


def failure_for(
    end: End,
    *,
    oom_evidence: bool,
    stage: str | None = None,
    last_words: str = "",
    runs_programs: bool = False,
) -> RunFailed:
    """Return the failure that a child without a final event leaves behind.

    `oom_evidence`: the kernel's out-of-memory killer struck while the child ran.
    `runs_programs`: it ran a program of a person, which may signal it, and takes the memory in its place.
    `last_words`: the last lines on standard error; they stand where a traceback would.
    """
    code, message, retryable = _judge(end, oom_evidence)
    if code == KILLED and runs_programs:
        code, message = PROGRAM_KILLED, f"{message}, or its own program did"
    return RunFailed(
        code=code,
        message=message,
        stage=stage,
        traceback=last_words[-LAST_WORDS_MAX:] or None,
        retryable=retryable,
    )


def describe(end: Exited | Signalled) -> str:
    """Return `end` as a part of a sentence, such as `was ended by SIGKILL`."""
    match end:
        case Exited(status=status):
            return f"exited with status {status}"
        case Signalled(number=number):
            return f"was ended by {_name(number)}"


def _judge(end: End, oom_evidence: bool) -> tuple[str, str, bool]:
    match end:
        case TimedOut(limit="start", seconds=seconds):
            return "START_TIMEOUT", f"the pipeline said nothing for {seconds:g} s after its start", True
        case TimedOut(limit="no progress", seconds=seconds):
            return "NO_PROGRESS", f"the pipeline showed no progress for {seconds:g} s and was ended", True
        case TimedOut(limit="total", seconds=seconds):
            return "TIMEOUT", f"the pipeline was ended at its total limit of {seconds:g} s", True
        case NeverStarted(waited_s=waited_s, end=None):
            return "START_FAILED", f"the pipeline's process was not ready after {waited_s:.0f} s", True
        case NeverStarted(end=Exited() | Signalled() as early):
            return "START_FAILED", f"the pipeline's process {describe(early)} before it was ready", True
        case Signalled(number=signal.SIGKILL) if oom_evidence:
            return "OUT_OF_MEMORY", "the machine's memory was full, and the kernel ended the pipeline", False
        case Signalled(number=number) if number in MEMORY_FAULTS:
            return "SEGFAULT", f"the pipeline's process crashed in native code ({_name(number)})", False
        case Signalled(number=number) if number in ABORTS:
            return "ABORTED", f"native code gave the pipeline's process up ({_name(number)})", False
        case Signalled(number=number):
            return KILLED, f"somebody outside the run ended its process ({_name(number)})", True
        case Exited(status=status):
            return "EXITED", f"the pipeline's process exited with status {status} and reported no end", False
        case _:
            raise AssertionError(f"an end without a name: {end}")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has a number only
        return f"signal {number}"
