"""Memory bandwidth by the kernels of STREAM, over arrays that no cache holds.

J. D. McCalpin: Memory bandwidth and machine balance in current high performance computers, IEEE TCCA
Newsletter, December 1995. Counted is what a kernel names: each array that it reads, and the one that it
writes, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from events.kinds.results import Value
from events.runtime.errors import PipelineError
from stages.kinds.compute import gpu
from stages.kinds.compute.laps import Job, Lap, Pace, Telling, per_s, timed
from stages.kinds.compute.machine import memory_left_bytes, need_memory

Array = npt.NDArray[np.float64]
OfPart = Callable[[int, Array, Array, Array], None]  # the number of a thread, and its part of x, y, z

NUMBER_BYTES: Final = 8
BLOCK: Final = 1 << 15  # numbers: what a thread does at once, in its core's cache where it needs room between
ARRAYS: Final = 3
# Of the arrays y and z: the kernel writes x. Which values are these, and how many arrays does it move.
Y: Final = 2.0
Z: Final = 0.5
FACTOR: Final = 3.0
RESULTS: Final = {"copy": Y, "scale": FACTOR * Y, "add": Y + Z, "triad": Y + FACTOR * Z}
MOVED: Final = {"copy": 2, "scale": 2, "add": 3, "triad": 3}


class Stream(Protocol):
    """The three arrays of a kernel."""

    @property
    def device(self) -> str:
        """What it computes on."""
        ...

    @property
    def library(self) -> str:
        """What it computes with, and its version."""
        ...

    @property
    def threads(self) -> int:
        """How many threads it uses."""
        ...

    def clear(self) -> None:
        """Empty what the kernel writes."""
        ...

    def seconds(self) -> float:
        """Run the kernel once; return the seconds that it took."""
        ...

    def is_all(self, value: float) -> bool:
        """Say whether the kernel has written this value everywhere."""
        ...


@contextmanager
def streamed(job: Job) -> Iterator[Lap]:
    """Provide the laps of a kernel, its arrays written once by the threads that will read them."""
    spec = job.spec
    torch = None if spec.device == "cpu" else gpu.torch_here()
    has_cuda = gpu.is_cuda(spec.device, torch)
    count = max(1, spec.bytes // NUMBER_BYTES)
    left = gpu.left_bytes(torch) if has_cuda else memory_left_bytes()
    needed = ARRAYS * count * NUMBER_BYTES
    need_memory(needed, left, lower="bytes", of="the GPU" if has_cuda else "the pod")
    with gpu.explained(), _stream(job, torch, has_cuda, count) as stream:
        stream.seconds()

        def lap(telling: Telling) -> Mapping[str, Value]:
            stream.clear()
            pace, elapsed_s = Pace(job, telling), 0.0
            for _ in pace.rounds():
                elapsed_s += stream.seconds()
            if not stream.is_all(RESULTS[spec.kernel]):
                raise PipelineError(
                    "WRONG_RESULT",
                    f"the kernel {spec.kernel} did not write {RESULTS[spec.kernel]:g} everywhere: "
                    "this machine computes wrongly",
                )
            moved = MOVED[spec.kernel] * count * NUMBER_BYTES * pace.done
            speed = per_s(moved, elapsed_s)
            return {
                **timed(pace.done, elapsed_s),
                "gb_per_s": None if speed is None else speed / 1e9,
                "threads_used": stream.threads,
                "device": stream.device,
                "library": stream.library,
            }

        yield lap


@contextmanager
def _stream(job: Job, torch: Any, has_cuda: bool, count: int) -> Iterator[Stream]:
    if has_cuda:
        yield OfCuda.make(torch, job.spec.kernel, count)
        return
    stopping = threading.Event()
    pool = ThreadPoolExecutor(job.threads, thread_name_prefix="stream")
    try:
        arrays = [np.empty(count, dtype=np.float64) for _ in range(ARRAYS)]
        stream = OfNumpy(
            kernel=job.spec.kernel, arrays=arrays, pool=pool, stopping=stopping, now_s=job.clock.monotonic_s,
            threads=job.threads,
        )  # fmt: skip
        stream.fill()
        yield stream
    finally:
        stopping.set()
        pool.shutdown(cancel_futures=True)


def _filled(number: int, x: Array, y: Array, z: Array) -> None:
    x.fill(0.0)
    y.fill(Y)
    z.fill(Z)


def _cleared(number: int, x: Array, y: Array, z: Array) -> None:
    x.fill(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfNumpy:
    """A kernel by numpy, each thread on its own part: numpy lets go of Python's lock while it moves."""

    kernel: str
    arrays: list[Array]
    pool: ThreadPoolExecutor
    stopping: threading.Event
    now_s: Callable[[], float]
    threads: int
    device: str = "cpu"
    library: str = f"numpy {np.__version__}"
    _between: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_between", [np.empty(BLOCK) for _ in range(self.threads)])

    def fill(self) -> None:
        """Write all arrays, each part by the thread that will read it."""
        self._in_parts(_filled)

    def clear(self) -> None:
        """Empty what the kernel writes."""
        self._in_parts(_cleared)

    def seconds(self) -> float:
        """Run the kernel once; return the seconds that it took."""
        begun_s = self.now_s()
        self._in_parts(self._kernel)
        return self.now_s() - begun_s

    def is_all(self, value: float) -> bool:
        """Say whether the kernel has written this value everywhere."""
        x = self.arrays[0]
        return all(bool(np.all(x[low : low + BLOCK] == value)) for low in range(0, len(x), BLOCK))

    def _kernel(self, number: int, x: Array, y: Array, z: Array) -> None:
        match self.kernel:
            case "copy":
                np.copyto(x, y)
            case "scale":
                np.multiply(y, FACTOR, out=x)
            case "add":
                np.add(y, z, out=x)
            case _:  # what lies between the two steps stays in the cache
                between = self._between[number][: len(x)]
                np.multiply(z, FACTOR, out=between)
                np.add(y, between, out=x)

    def _in_parts(self, work: OfPart) -> None:
        width = -(-len(self.arrays[0]) // self.threads)
        parts = [
            self.pool.submit(self._part, work, number, number * width, (number + 1) * width)
            for number in range(self.threads)
        ]
        for part in parts:
            part.result()

    def _part(self, work: OfPart, number: int, start: int, stop: int) -> None:
        x, y, z = (each[start:stop] for each in self.arrays)
        for low in range(0, len(x), BLOCK):
            if self.stopping.is_set():
                return
            work(number, x[low : low + BLOCK], y[low : low + BLOCK], z[low : low + BLOCK])


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCuda:
    """A kernel by torch on a CUDA device."""

    torch: Any
    kernel: str
    arrays: list[Any]
    device: str
    library: str
    threads: int = 1

    @classmethod
    def make(cls, torch: Any, kernel: str, count: int) -> OfCuda:
        """Return a kernel whose arrays are written."""
        arrays = [torch.full((count,), value, dtype=torch.float64, device="cuda") for value in (0.0, Y, Z)]
        return cls(
            torch=torch,
            kernel=kernel,
            arrays=arrays,
            device=gpu.name_of(torch),
            library=f"torch {torch.__version__}",
        )

    def clear(self) -> None:
        """Empty what the kernel writes."""
        self.arrays[0].zero_()

    def seconds(self) -> float:
        """Run the kernel once; return the seconds that it took."""
        return gpu.seconds_of(self.torch, self._kernel)

    def is_all(self, value: float) -> bool:
        """Say whether the kernel has written this value everywhere."""
        return bool((self.arrays[0] == value).all())

    def _kernel(self) -> None:
        x, y, z = self.arrays
        match self.kernel:
            case "copy":
                x.copy_(y)
            case "scale":
                self.torch.mul(y, FACTOR, out=x)
            case "add":
                self.torch.add(y, z, out=x)
            case _:
                self.torch.add(y, z, alpha=FACTOR, out=x)
