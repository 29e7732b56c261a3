"""Computations: prepare a work, begin with the other lanes of a race, and measure it in laps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Final

from events.kinds.compute import LAPS, PRIMES, ComputeSpec, Work
from events.kinds.results import Value
from stages.context import Context
from stages.kinds.compute.bandwidth import streamed
from stages.kinds.compute.copies import copied
from stages.kinds.compute.counting import counted
from stages.kinds.compute.disk import stored
from stages.kinds.compute.lap_reporter import LapReporter, figures
from stages.kinds.compute.laps import Job, Lap, means
from stages.kinds.compute.machine import cores
from stages.kinds.compute.matrices import multiplied

PREPARE: Final = "prepare"
MEASURE: Final = "measure"
FIGURES: Final = 3  # in the line that sums a run up
WORKS: Final[Mapping[Work, Callable[[Job], AbstractContextManager[Lap]]]] = {
    **dict.fromkeys(PRIMES, counted),
    "matmul": multiplied,
    "memory_bandwidth": streamed,
    "host_device_copy": copied,
    "disk": stored,
}


def run(context: Context) -> str:
    """Run the laps. Raises `PipelineError` where a result is wrong, or the pod cannot do the work."""
    spec = context.spec
    assert isinstance(spec, ComputeSpec)
    most = cores()
    requested = spec.threads or most
    job = Job(
        spec=spec,
        clock=context.clock,
        workspace=context.workspace,
        threads=min(requested, most),
        variables=context.tools.variables,
        say=context.log,
    )
    if requested > most:
        context.log(f"{requested} threads are asked for, and {most} used: the pod gives no more cores")
    laps: list[Mapping[str, Value]] = []
    with ExitStack() as stack:
        with context.stage(PREPARE, index=1, total=2):
            lap = stack.enter_context(WORKS[spec.work](job))
        context.wait_for_start()
        with context.stage(MEASURE, index=2, total=2) as stage:
            reporter = LapReporter(context, stage, _says(spec), spec.progress_interval_s, spec.repeats)
            for number in range(1, spec.repeats + 1):
                reporter.begin(number)
                values = {**lap(reporter), "threads_requested": requested}
                laps.append(values)
                context.result(LAPS.name, str(number), {"lap": number, **values}, status="done")
                context.summarize(means(laps))
                reporter.end(values)
    return f"{_says(spec)}: {', '.join(figures(means(laps))[:FIGURES])}"


def _says(spec: ComputeSpec) -> str:
    match spec.work:
        case "matmul":
            return f"Multiply {spec.size} x {spec.size} matrices in {spec.dtype}"
        case "memory_bandwidth":
            return f"Stream {spec.kernel} over arrays of {spec.bytes} bytes"
        case "host_device_copy":
            return f"Copy {spec.bytes} bytes to the device and back"
        case "disk":
            return f"Write and read a file of {spec.bytes} bytes"
        case _:
            return f"Count primes <= {spec.n}"
