"""Copies from pinned memory of the host to a CUDA device and back, each direction timed by CUDA's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from events.kinds.results import Value
from events.runtime.errors import PipelineError
from stages.kinds.compute import gpu
from stages.kinds.compute.laps import Job, Lap, Pace, Telling, per_s, timed
from stages.kinds.compute.machine import memory_left_bytes, need_memory


@contextmanager
def copied(job: Job) -> Iterator[Lap]:
    """Provide the laps of a copy there and back. Raises `PipelineError` where there is no CUDA device."""
    size = job.spec.bytes
    torch = gpu.torch_here()
    gpu.is_cuda("cuda", torch)
    need_memory(2 * size, memory_left_bytes(), lower="bytes")
    need_memory(size, gpu.left_bytes(torch), lower="bytes", of="the GPU")
    with gpu.explained():
        sent, back = (torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2))
        sent.random_(0, 256)
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        device.copy_(sent, non_blocking=True)  # what the first copy has to set up
        torch.cuda.synchronize()

        def lap(telling: Telling) -> Mapping[str, Value]:
            back.zero_()
            pace, to_s, from_s = Pace(job, telling), 0.0, 0.0
            for _ in pace.rounds():
                to_s += gpu.seconds_of(torch, lambda: device.copy_(sent, non_blocking=True))
                from_s += gpu.seconds_of(torch, lambda: back.copy_(device, non_blocking=True))
            if not torch.equal(sent, back):
                raise PipelineError(
                    "WRONG_RESULT",
                    "what came back from the GPU differs from what was sent: test both memories",
                )
            speeds = {"to_device_gb_per_s": to_s, "from_device_gb_per_s": from_s}
            return {
                **timed(pace.done, to_s + from_s),
                **{name: per_s(size * pace.done / 1e9, seconds) for name, seconds in speeds.items()},
                "threads_used": 1,
                "device": gpu.name_of(torch),
                "library": f"torch {torch.__version__}",
            }

        yield lap
