"""The paths of CUDA, by a double that is PyTorch on a CPU: no GPU has run them here.

The double holds shapes, types, formulas and the order of calls; it knows nothing of a real device's errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from events.catalog import ResultRecorded
from events.kinds import read_spec
from events.runtime.errors import PipelineError
from stages.kinds.compute import gpu
from stages.kinds.compute.pipeline import run
from stages.testing import RecordingReporter, make_context

torch = pytest.importorskip("torch")


class _Event:
    """An event of a device on which everything takes two milliseconds."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        pass

    def elapsed_time(self, end: _Event) -> float:
        return 2.0


class _Cuda:
    """`torch.cuda` with one device."""

    Event = _Event

    def __init__(self, capability: tuple[int, int], left: int) -> None:
        self.capability, self.left = capability, left

    def is_available(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def get_device_name(self, index: int) -> str:
        return "A device"

    def get_device_capability(self, index: int) -> tuple[int, int]:
        return self.capability

    def mem_get_info(self) -> tuple[int, int]:
        return self.left, 2 * self.left


class _Torch:
    """PyTorch whose device `cuda` is the CPU."""

    def __init__(self, capability: tuple[int, int] = (9, 0), left: int = 1 << 40) -> None:
        self.cuda = _Cuda(capability, left)

    def __getattr__(self, name: str) -> Any:
        real = getattr(torch, name)
        if name not in ("empty", "full", "Generator"):
            return real

        def on_cpu(*arguments: Any, **named: Any) -> Any:
            named.pop("pin_memory", None)
            if "device" in named:
                named["device"] = "cpu"
            return real(*arguments, **named)

        return on_cpu


def row_of(folder: Path, **spec: Any) -> Any:
    reporter = RecordingReporter()
    read = read_spec("compute", {"rounds": 3, "repeats": 1, **spec})
    run(make_context(read, folder, reporter=reporter))
    return reporter.of(ResultRecorded)[-1].values


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16"])
def test_a_product_counts_the_time_of_the_device(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "torch_here", _Torch)
    row = row_of(tmp_path, work="matmul", dtype=dtype, size=200)
    assert row["elapsed_s"] == pytest.approx(3 * 0.002)
    assert row["gflops"] == pytest.approx(2 * 200**3 / 0.002 / 1e9)
    assert (row["device"], row["library"]) == ("A device", f"torch {torch.__version__}")


@pytest.mark.parametrize(("kernel", "arrays"), [("copy", 2), ("scale", 2), ("add", 3), ("triad", 3)])
def test_a_kernel_counts_the_bytes_of_its_arrays(
    kernel: str, arrays: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "torch_here", _Torch)
    row = row_of(tmp_path, work="memory_bandwidth", kernel=kernel, bytes=80_000)
    assert row["gb_per_s"] == pytest.approx(arrays * 80_000 / 0.002 / 1e9)
    assert row["device"] == "A device"


def test_a_copy_is_counted_once_in_each_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "torch_here", _Torch)
    row = row_of(tmp_path, work="host_device_copy", bytes=50_000)
    assert row["to_device_gb_per_s"] == row["from_device_gb_per_s"] == pytest.approx(50_000 / 0.002 / 1e9)
    assert row["round_s"] == pytest.approx(0.004)


@pytest.mark.parametrize(("dtype", "capability"), [("tf32", (7, 5)), ("bf16", (7, 5)), ("fp16", (5, 2))])
def test_a_type_that_the_device_does_not_have_is_refused(
    dtype: str, capability: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "torch_here", lambda: _Torch(capability))
    with pytest.raises(PipelineError, match=f"{dtype} needs .*: take fp32") as caught:
        row_of(tmp_path, work="matmul", dtype=dtype, size=100)
    assert caught.value.code == "NO_DEVICE"


@pytest.mark.parametrize("work", ["matmul", "memory_bandwidth", "host_device_copy"])
def test_what_the_device_has_no_memory_for_is_not_allocated(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "torch_here", lambda: _Torch(left=1 << 20))
    with pytest.raises(PipelineError, match="the GPU has 1 MiB left") as caught:
        row_of(tmp_path, work=work, size=2_000, bytes=1 << 24)
    assert caught.value.code == "OUT_OF_MEMORY"
