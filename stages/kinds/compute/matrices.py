"""Products of matrices: 2 n^3 operations each, checked by a random projection.

The check is that of R. Freivalds (Probabilistic machines can use less running time, IFIP Congress 1977,
839-842): C r is compared with A (B r), in double precision, for a vector r of signs drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from events.kinds.results import Value
from events.runtime.errors import PipelineError
from stages.kinds.compute import gpu
from stages.kinds.compute.laps import Job, Lap, Pace, Telling, per_s, timed
from stages.kinds.compute.machine import memory_left_bytes, need_memory

Vector = npt.NDArray[np.float64]

BYTES_OF: Final = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
# How far a row may be off, of its standard deviation: about ten times what rounding of the type does.
TOLERANCES: Final = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 5e-2, "fp16": 1e-2}
CALL_S: Final = 0.25  # of a call, since nothing interrupts one
ROWS_MIN: Final = 64
CHUNK_NUMBERS: Final = 1 << 22
SEED: Final = 1977
# The compute capability from which on a GPU has a type.
CAPABILITY: Final = {"fp32": (0, 0), "fp16": (5, 3), "bf16": (8, 0), "tf32": (8, 0)}


class Product(Protocol):
    """Two matrices with numbers from -1 to 1, and their product."""

    @property
    def device(self) -> str:
        """What it computes on."""
        ...

    @property
    def library(self) -> str:
        """What it computes with, and its version."""
        ...

    @property
    def threads(self) -> int | None:
        """How many threads it uses; None where that is not known."""
        ...

    def seconds(self, first: int, last: int) -> float:
        """Compute rows of the product; return the seconds that it took."""
        ...

    def rows(self, name: str, first: int, last: int) -> npt.NDArray[np.float64]:
        """Return rows of the matrix `a`, `b` or `c`."""
        ...


@contextmanager
def multiplied(job: Job) -> Iterator[Lap]:
    """Provide the laps of a product, its matrices made and partly multiplied."""
    spec = job.spec
    torch = gpu.torch_here()
    has_cuda = gpu.is_cuda(spec.device, torch)
    _need_type(spec.dtype, torch, has_cuda)
    needed = 3 * spec.size**2 * BYTES_OF[spec.dtype]
    left = gpu.left_bytes(torch) if has_cuda else memory_left_bytes()
    need_memory(needed, left, lower="size", of="the GPU" if has_cuda else "the pod")
    with gpu.explained(), _product(job, torch, has_cuda) as product:
        rows = _rows_of_a_call(product, spec.size)
        chance = np.random.default_rng(SEED)

        def lap(telling: Telling) -> Mapping[str, Value]:
            pace, elapsed_s = Pace(job, telling), 0.0
            for _ in pace.rounds():
                for first in range(0, spec.size, rows):
                    elapsed_s += product.seconds(first, min(first + rows, spec.size))
                    pace.within(first / spec.size)
            error = off_by(product, spec.size, chance.choice((-1.0, 1.0), spec.size))
            if not error <= TOLERANCES[spec.dtype]:
                raise PipelineError(
                    "WRONG_RESULT",
                    f"a product of {spec.size} x {spec.size} matrices in {spec.dtype} is off by {error:.2g}, "
                    f"and rounding explains {TOLERANCES[spec.dtype]:.2g}: this machine computes wrongly",
                )
            operations = 2 * spec.size**3 * pace.done
            speed = per_s(operations, elapsed_s)
            return {
                **timed(pace.done, elapsed_s),
                "gflops": None if speed is None else speed / 1e9,
                "error": error,
                "threads_used": product.threads,
                "device": product.device,
                "library": product.library,
            }

        yield lap


def off_by(product: Product, size: int, signs: Vector) -> float:
    """Return how far the product is off: the worst row, of the standard deviation that rows have."""
    a_b_r = _times(product, "a", size, _times(product, "b", size, signs))
    return float(np.max(np.abs(_times(product, "c", size, signs) - a_b_r))) / (size / 3)


def _times(product: Product, name: str, size: int, vector: Vector) -> Vector:
    step = max(1, CHUNK_NUMBERS // size)
    return np.concatenate(
        [product.rows(name, first, min(first + step, size)) @ vector for first in range(0, size, step)]
    )


def _rows_of_a_call(product: Product, size: int) -> int:
    """Return how many rows to compute in a call: twice as many until it takes half of `CALL_S`."""
    rows = min(ROWS_MIN, size)
    product.seconds(0, rows)  # starts threads, loads kernels
    while rows < size and product.seconds(0, rows) < CALL_S / 2:
        rows = min(2 * rows, size)
    return rows


def _need_type(dtype: str, torch: Any, has_cuda: bool) -> None:
    """Raise `PipelineError` where the device does not have a type."""
    if dtype == "fp32":
        return
    if torch is None:
        raise PipelineError("NO_DEVICE", f"{dtype} needs PyTorch: {gpu.INSTALL}; without it there is fp32")
    if not has_cuda:
        if dtype == "tf32":
            raise PipelineError("NO_DEVICE", "no CPU has tf32: take fp32 or bf16, or a pod with a GPU")
        return
    found = tuple(torch.cuda.get_device_capability(0))
    if found < CAPABILITY[dtype]:
        raise PipelineError(
            "NO_DEVICE",
            f"{gpu.name_of(torch)} has the compute capability {found[0]}.{found[1]}, and {dtype} needs "
            f"{CAPABILITY[dtype][0]}.{CAPABILITY[dtype][1]}: take fp32, or a newer GPU",
        )


@contextmanager
def _product(job: Job, torch: Any, has_cuda: bool) -> Iterator[Product]:
    if torch is None:
        job.say("numpy decides by itself how many threads multiply; with PyTorch the run would")
        yield OfNumpy.make(job)
        return
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        torch.set_num_threads(job.threads)
        torch.set_float32_matmul_precision("high" if job.spec.dtype == "tf32" else "highest")
        with torch.inference_mode():
            yield OfTorch.make(job, torch, has_cuda)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfNumpy:
    """A product by numpy, whose library decides on its threads by itself."""

    matrices: Mapping[str, npt.NDArray[np.float32]]
    now_s: Callable[[], float]
    device: str = "cpu"
    library: str = f"numpy {np.__version__}"
    threads: int | None = None

    @classmethod
    def make(cls, job: Job) -> OfNumpy:
        """Return a product whose matrices are made, and have their memory."""
        size, chance = job.spec.size, np.random.default_rng(SEED)
        matrices = {name: np.zeros((size, size), dtype=np.float32) for name in "abc"}
        for row in matrices["c"]:
            row.fill(0.0)  # so that no lap waits for its memory
        for name in "ab":
            for row in matrices[name]:
                row[:] = 2 * chance.random(size, dtype=np.float32) - 1
        return cls(matrices=matrices, now_s=job.clock.monotonic_s)

    def seconds(self, first: int, last: int) -> float:
        """Compute rows of the product; return the seconds that it took."""
        begun_s = self.now_s()
        np.matmul(self.matrices["a"][first:last], self.matrices["b"], out=self.matrices["c"][first:last])
        return self.now_s() - begun_s

    def rows(self, name: str, first: int, last: int) -> npt.NDArray[np.float64]:
        """Return rows of the matrix `a`, `b` or `c`."""
        return self.matrices[name][first:last].astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTorch:
    """A product by torch, on a CPU or on a CUDA device."""

    torch: Any
    matrices: Mapping[str, Any]
    now_s: Callable[[], float]
    has_cuda: bool
    device: str
    library: str
    threads: int | None

    @classmethod
    def make(cls, job: Job, torch: Any, has_cuda: bool) -> OfTorch:
        """Return a product whose matrices are made, and have their memory."""
        types = {"bf16": torch.bfloat16, "fp16": torch.float16}
        device = "cuda" if has_cuda else "cpu"
        chance = torch.Generator(device=device).manual_seed(SEED)
        matrices = {
            name: torch.empty(
                (job.spec.size, job.spec.size), dtype=types.get(job.spec.dtype, torch.float32), device=device
            )
            for name in "abc"
        }
        for name, matrix in matrices.items():
            for rows in matrix.split(max(1, CHUNK_NUMBERS // job.spec.size)):
                if name == "c":
                    rows.zero_()  # so that no lap waits for its memory
                else:
                    rows.uniform_(-1, 1, generator=chance)
        return cls(
            torch=torch,
            matrices=matrices,
            now_s=job.clock.monotonic_s,
            has_cuda=has_cuda,
            device=gpu.name_of(torch) if has_cuda else "cpu",
            library=f"torch {torch.__version__}",
            threads=1 if has_cuda else torch.get_num_threads(),
        )

    def seconds(self, first: int, last: int) -> float:
        """Compute rows of the product; return the seconds that it took."""
        left, right, out = self.matrices["a"][first:last], self.matrices["b"], self.matrices["c"][first:last]
        if self.has_cuda:
            return gpu.seconds_of(self.torch, lambda: self.torch.mm(left, right, out=out))
        begun_s = self.now_s()
        self.torch.mm(left, right, out=out)
        return self.now_s() - begun_s

    def rows(self, name: str, first: int, last: int) -> npt.NDArray[np.float64]:
        """Return rows of the matrix `a`, `b` or `c`."""
        found: npt.NDArray[np.float64] = self.matrices[name][first:last].double().cpu().numpy()
        return found
