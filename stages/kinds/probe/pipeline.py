"""The smoke test of a pod, and the tool for fault drills.

A run of kind `probe` sleeps, reports, writes one artifact, and then ends in the way that its specification
names. Every end is real unless its line states otherwise, so that a drill with a probe holds for a
pipeline.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import resource
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from events.kinds.probe import RADIUS, ROWS, VALUE, ProbeSpec
from events.kinds.results import Value
from events.runtime.clock import Clock
from events.runtime.errors import PipelineError
from stages.context import Context, Stage
from stages.registry import imported

STAGE: Final = "probe"
ARTIFACT: Final = "probe.bin"
BLOCK_BYTES: Final = 64 * 1024
MIB: Final = 1024 * 1024
NEVER_S: Final = 3600.0  # a hang waits for this, again and again
EXIT_STATUS: Final = 3
GROUPS: Final = 7
ABOVE: Final = 1.0  # the metric begins by so much above the value


def run(context: Context) -> str:
    """Run a probe; returns only where the specification has the end `completed`."""
    spec = context.spec
    if not isinstance(spec, ProbeSpec):
        raise PipelineError("CONFIG", f"a probe needs a probe's specification, not {type(spec).__name__}")
    _wait_until(context.clock.monotonic_s() + spec.prepare_s, context.clock, threading.Event())
    context.wait_for_start()
    with context.stage(STAGE, index=1, total=1) as stage:
        speak(stage, spec, context.clock, measured(context, spec))
        path = context.workspace / ARTIFACT
        write_artifact(path, spec.artifact_bytes)
        context.keep(path, ARTIFACT)
        record(context, spec)
        ENDINGS[spec.end](context.clock)
    return f"probe: {spec.events} events in {spec.seconds:g} s, {spec.artifact_bytes} bytes kept"


def speak(stage: Stage, spec: ProbeSpec, clock: Clock, value: float) -> None:
    """Spread exactly `spec.events` events over `spec.seconds`: progress, metric, log, in turn.

    The metric comes down to `value`. Besides, each note of a person is logged once.
    """
    never = threading.Event()
    begun_s = clock.monotonic_s()
    read = 0
    for number in range(1, spec.events + 1):
        due_s = begun_s + spec.seconds * number / spec.events
        _wait_until(due_s, clock, never)
        read = read_notes(stage.context, read)
        match number % 3:
            case 1:
                stage.progress(number / spec.events, f"event {number} of {spec.events}")
            case 2:
                stage.metric(VALUE.name, value + ABOVE * (1 - number / spec.events), step=number)
            case _:
                stage.context.log(f"probe event {number} of {spec.events}")
    _wait_until(begun_s + spec.seconds, clock, never)
    read_notes(stage.context, read)


def measured(context: Context, spec: ProbeSpec) -> float:
    """Return the value of a probe; the same attempt has the same."""
    return (spec.x - 1) ** 2 + (spec.y + 2) ** 2 + spec.noise * _chance(context, "value").gauss(0, 1)


def _chance(context: Context, of: str) -> Random:
    return Random(f"{context.run_id}/{context.attempt}/{of}")  # noqa: S311 - noise, no secret


def record(context: Context, spec: ProbeSpec) -> None:
    """Record the rows and the headline number; the same attempt records the same."""
    chance = _chance(context, "rows")
    value = measured(context, spec)
    context.summarize({VALUE.name: value, RADIUS.name: math.hypot(spec.x, spec.y)})
    for number in range(spec.results):
        values: dict[str, Value] = {
            "number": number,
            "value": value + spec.noise * chance.gauss(0, 1),
            "seconds": round(chance.expovariate(10), 6),
            "share": round(chance.random(), 6),
            "group": f"group {number % GROUPS}",
            "is_even": number % 2 == 0,
        }
        context.result(ROWS.name, f"row-{number:06d}", values, status="done")


def read_notes(context: Context, read: int) -> int:
    """Log every note but the first `read`; return how many there are."""
    notes = context.notes.all()
    for note in notes[read:]:
        context.log(f"read note {note.number}, by {note.by}: {note.text}")
    return len(notes)


def write_artifact(path: Path, size_bytes: int) -> None:
    """Write `size_bytes` of a fixed pattern, the same on every machine."""
    block = hashlib.shake_256(b"podfleet probe").digest(BLOCK_BYTES)
    with path.open("wb") as file:
        for start in range(0, size_bytes, BLOCK_BYTES):
            file.write(block[: size_bytes - start])


def _wait_until(due_s: float, clock: Clock, never: threading.Event) -> None:
    left_s = due_s - clock.monotonic_s()
    if left_s > 0:
        clock.wait(never, left_s)


def _complete(clock: Clock) -> None:
    """Nothing more to do."""


def _raise(clock: Clock) -> None:
    raise ValueError("the probe was asked to fail")


def _raise_retryable(clock: Clock) -> None:
    raise PipelineError("PROBE_RETRYABLE", "the probe was asked to fail, but not for good", retryable=True)


def _kill(clock: Clock) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    _hang(clock)  # the signal may strike a moment later; nothing may be reported until then


def _segfault(clock: Clock) -> None:
    ctypes.string_at(0)  # reads address zero


def _exhaust_memory(clock: Clock) -> None:
    """Ask for more memory than a limit leaves: a real refusal that harms no neighbour."""
    in_use_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use_bytes + 64 * MIB, hard))
    try:
        bytearray(1024 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    raise PipelineError("PROBE_IMPOSSIBLE", "this system does not enforce RLIMIT_AS")


def _exhaust_cuda(clock: Clock) -> None:
    """Ask the device for twice its memory; without a device the error is simulated in torch's words.

    torch is taken only if a pipeline beside this one has imported it: a probe needs none.
    """
    torch = imported("torch")
    if torch is None or not torch.cuda.is_available():
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (simulated: no CUDA device here)")
    total_bytes = torch.cuda.mem_get_info()[1]
    torch.empty(2 * total_bytes, dtype=torch.uint8, device="cuda")
    raise PipelineError("PROBE_IMPOSSIBLE", "the device gave more memory than it has")


def _hang(clock: Clock) -> None:
    """Never progress, but obey SIGTERM."""
    never = threading.Event()
    while True:
        clock.wait(never, NEVER_S)


def _hang_deaf(clock: Clock) -> None:
    """Never progress, and obey nothing but SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang(clock)


def _exit(clock: Clock) -> None:
    os._exit(EXIT_STATUS)  # without a word: no handler, no event


ENDINGS: Final[Mapping[str, Callable[[Clock], None]]] = {
    "completed": _complete,
    "exception": _raise,
    "retryable": _raise_retryable,
    "kill": _kill,
    "segfault": _segfault,
    "out_of_memory": _exhaust_memory,
    "cuda_out_of_memory": _exhaust_cuda,
    "hang": _hang,
    "deaf": _hang_deaf,
    "exit": _exit,
}
