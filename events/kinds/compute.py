"""Computations that measure a machine: prime counts, matrix products, memory, device copies, disk; pure.

Law: `round_s` decides a race of any work, since one round of the same specification is the same on every
machine; each other figure is of some works only, and null in the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from events.kinds.declaring.spec import Spec
from events.kinds.kind import Kind
from events.kinds.results import Column, ResultSet

Work = Literal[
    "segmented_sieve", "simple_sieve", "trial_division",
    "matmul", "memory_bandwidth", "host_device_copy", "disk",
]  # fmt: skip
PRIMES: Final[frozenset[Work]] = frozenset({"segmented_sieve", "simple_sieve", "trial_division"})
# The largest N that each counts primes to: a simple sieve has a byte for every odd number, and a trial
# division of more would take hours.
N_MAX: Final[dict[str, int]] = {
    "segmented_sieve": 10**11,
    "simple_sieve": 10**11,
    "trial_division": 10**9,
}
SECONDS: Final = 5.0
BYTES_MAX: Final = 1 << 38
REPEATS_MAX: Final = 50


class ComputeSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A work, how large it is, and how often it is measured; a lap is one measurement of it."""

    work: Annotated[Work, msgspec.Meta(description="What is computed.")] = "segmented_sieve"
    n: Annotated[
        int, msgspec.Meta(ge=0, le=10**11, description="Of the prime counts: primes are counted up to it.")
    ] = 20_000_000
    threads: Annotated[
        int, msgspec.Meta(ge=0, le=1_024, description="Threads; 0 is every core that the pod gives.")
    ] = 0
    progress_interval_s: Annotated[
        float,
        msgspec.Meta(gt=0, le=3_600, description="Seconds between two lines of progress, 0.1 at least."),
    ] = 1.0
    size: Annotated[
        int, msgspec.Meta(ge=1, le=65_536, description="Of `matmul`: rows and columns of the matrices.")
    ] = 2_048
    dtype: Annotated[
        Literal["fp32", "tf32", "bf16", "fp16"], msgspec.Meta(description="Of `matmul`: type of the numbers.")
    ] = "fp32"
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        msgspec.Meta(description="Of `matmul` and `memory_bandwidth`; auto is CUDA where the pod has it."),
    ] = "auto"
    kernel: Annotated[
        Literal["copy", "scale", "add", "triad"],
        msgspec.Meta(description="Of `memory_bandwidth`: the kernel of STREAM."),
    ] = "triad"
    bytes: Annotated[
        int,
        msgspec.Meta(ge=1, le=BYTES_MAX, description="Size of an array, a copy or a file."),
    ] = 1 << 28
    rounds: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None,
        msgspec.Meta(description="Rounds of a lap; without it as many as fit into `seconds`."),
    ] = None
    seconds: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=3_600)] | None,
        msgspec.Meta(description=f"Seconds of a lap ({SECONDS:g}); a prime count takes what it takes."),
    ] = None
    repeats: Annotated[int, msgspec.Meta(ge=1, le=REPEATS_MAX, description="Laps.")] = 3


def _problems(spec: ComputeSpec) -> Iterator[str]:
    if spec.rounds is not None and spec.seconds is not None:
        yield "`rounds` and `seconds` both say how long a lap is; leave one out"
    if spec.work in PRIMES:
        if spec.rounds is not None or spec.seconds is not None:
            yield f"a lap of {spec.work} is one whole count: leave out `rounds` and `seconds`"
        if spec.n > (most := N_MAX[spec.work]):
            yield f"{spec.work} counts up to {most:,} at most; lower n"
    if spec.work == "matmul" and spec.dtype == "tf32" and spec.device == "cpu":
        yield "no CPU has tf32: take fp32 or bf16, or a pod with a GPU and the device cuda"
    if spec.work == "host_device_copy" and spec.device == "cpu":
        yield "host_device_copy needs a GPU: leave out the device"
    if (least_s := (spec.seconds or 0.0) * spec.repeats) > spec.time_limit_s:
        yield f"the laps take {least_s:g} s together, and time_limit_s is {spec.time_limit_s:g}"


def _check(spec: ComputeSpec) -> str | None:
    return next(_problems(spec), None)


def _title(spec: ComputeSpec) -> str:
    match spec.work:
        case "matmul":
            return f"Products of {spec.size:,} x {spec.size:,} matrices in {spec.dtype}"
        case "memory_bandwidth":
            return f"Memory bandwidth by STREAM {spec.kernel}, {spec.bytes:,} bytes an array"
        case "host_device_copy":
            return f"Copies of {spec.bytes:,} bytes to a GPU and back"
        case "disk":
            return f"A file of {spec.bytes:,} bytes, written and read"
        case _:
            return f"Primes <= {spec.n:,} by {spec.work}"


def _rate(name: str, unit: str) -> Column:
    return Column(name, unit=unit, direction="higher", format=",.4g")


ROUND_S: Final = Column("round_s", unit="s", direction="lower", format=".4g")
MEASURED: Final = (
    ROUND_S,
    Column("elapsed_s", unit="s", direction="lower", format=",.4g"),
    _rate("primes_per_s", "1/s"),
    _rate("gflops", "GFLOP/s"),
    _rate("gb_per_s", "GB/s"),
    _rate("write_gb_per_s", "GB/s"),
    _rate("read_gb_per_s", "GB/s"),
    _rate("to_device_gb_per_s", "GB/s"),
    _rate("from_device_gb_per_s", "GB/s"),
    Column("rounds", format=",.0f"),
    Column("primes_found", format=",d"),
    Column("threads_requested", format=",d"),
    Column("threads_used", format=",d"),
    Column("error", direction="lower", format=".2e"),  # of products, by the check of Freivalds
)
WHERE: Final = (
    Column("device", type="text"),
    Column("library", type="text"),
    Column("file_system", type="text"),
)
HEADLINE: Final = (*MEASURED, *WHERE)
# Columns are sorted by an index up to the eighth.
LAPS: Final = ResultSet("laps", "Laps", (Column("lap", format="d"), *HEADLINE))

KIND: Final = Kind(
    name="compute",
    says="Measures a machine: prime counts, matrix products, memory bandwidth, device copies, disk.",
    spec=ComputeSpec,
    example={"work": "segmented_sieve", "n": 2_000_000, "threads": 1, "repeats": 1},
    pipeline="stages.kinds.compute.pipeline",
    title=_title,
    check=_check,
    needs=("numpy",),  # torch is taken where it is there; a prime count needs no GPU, so it `uses` nothing
    codes={
        # no fault of the pod: it computes well what it has
        "NO_DEVICE": "Ask for a pod that has it (requires.gpu_gib), or take another device, dtype or work.",
        "WRONG_COUNT": "The machine computes wrongly: test it before it gets more runs.",
        "WRONG_RESULT": "The machine computes wrongly: test memory, GPU and disk before it gets more runs.",
        "PROCESS_ENDED": "See the run's log: a process of the count ended; the pod may lack memory.",
    },
    results=(LAPS,),
    headline=HEADLINE,
    labels={"work": "work"},
    prepares=True,
)
