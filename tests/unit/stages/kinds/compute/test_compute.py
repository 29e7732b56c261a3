"""Computations: what is refused, what a lap says and records, and results that are wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from events.catalog import ResultRecorded, RunLog, RunSummarized, StageProgress
from events.kinds import read_spec
from events.kinds.compute import HEADLINE, LAPS, ComputeSpec
from events.runtime.errors import PipelineError, Rejected
from stages.kinds.compute import gpu, machine, matrices
from stages.kinds.compute.lap_reporter import progress_line, short
from stages.kinds.compute.laps import means
from stages.kinds.compute.pipeline import run
from stages.testing import RecordingLiveView, RecordingReporter, make_context

HERE: Final = "stages.kinds.compute"


class Ran:
    """A run of a specification, with what it said."""

    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        self.reporter, self.live = RecordingReporter(), RecordingLiveView()
        self.folder = folder
        read = read_spec("compute", spec)
        assert isinstance(read, ComputeSpec)
        self.context = make_context(read, folder, reporter=self.reporter, live=self.live)

    def line(self) -> str:
        return run(self.context)

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return [each.values for each in self.reporter.of(ResultRecorded)]

    @property
    def headline(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for each in self.reporter.of(RunSummarized):
            found |= each.values
        return found

    @property
    def log(self) -> list[str]:
        return [each.message for each in self.reporter.of(RunLog)]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"work": "trial_division", "n": 10**10}, "up to 1,000,000,000 at most; lower n"),
        ({"n": 10**12}, "n"),
        ({"n": -1}, "n"),
        ({"threads": 1_025}, "threads"),
        ({"n": 100, "seconds": 1}, "leave out `rounds` and `seconds`"),
        ({"work": "disk", "rounds": 1, "seconds": 1}, "leave one out"),
        ({"work": "matmul", "dtype": "tf32", "device": "cpu"}, "no CPU has tf32"),
        ({"work": "matmul", "size": 10**6}, "size"),
        ({"work": "matmul", "dtype": "fp8"}, "dtype"),
        ({"work": "host_device_copy", "device": "cpu"}, "needs a GPU"),
        ({"work": "disk", "bytes": 1 << 50}, "bytes"),
        ({"work": "disk", "seconds": 3_000, "repeats": 50}, "time_limit_s"),
        ({"work": "mining"}, "work"),
    ],
)
def test_what_no_pod_can_bear_is_refused_at_once(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(Rejected) as caught:
        read_spec("compute", spec)
    assert says in caught.value.message


def test_a_prime_count_says_what_it_does_line_by_line(tmp_path: Path) -> None:
    ran = Ran(tmp_path, {"n": 2_000_000, "threads": 1, "repeats": 2})
    line = ran.line()
    assert line.startswith("Count primes <= 2000000: round_s: ")
    assert ran.log[0] == "Compute: Count primes <= 2000000"
    assert "primes_found: 148,933" in ran.log
    assert [(row["lap"], row["primes_found"], row["threads_used"]) for row in ran.rows] == [
        (1, 148_933, 1),
        (2, 148_933, 1),
    ]
    assert all(row["round_s"] == row["elapsed_s"] > 0 for row in ran.rows)
    assert ran.headline["round_s"] == pytest.approx(sum(row["round_s"] for row in ran.rows) / 2)
    assert ran.headline["primes_found"] == 148_933
    assert [each.name for each in ran.reporter.files] == ["text-1.txt", "text-2.txt"]
    for lap in (1, 2):
        assert (tmp_path / f"text-{lap}.txt").read_text() == ran.live.text(lap) != ""


def test_a_lap_has_the_columns_of_the_headline() -> None:
    assert LAPS.columns[1:] == HEADLINE
    assert (HEADLINE[0].name, HEADLINE[0].direction) == ("round_s", "lower"), "it decides a race of any work"


@pytest.mark.parametrize(
    ("fraction", "number", "elapsed_s", "line"),
    [
        (0.45, 1_400_000, 6.3, "Progress: 45% | primes: 1.4M | elapsed: 6.3s"),
        (0.999, 168, 0.04, "Progress: 99% | primes: 168 | elapsed: 0.0s"),
        (1.7, 9_592, 3600, "Progress: 100% | primes: 9.6K | elapsed: 3600.0s"),
        (0.0, 4_118_054_813, 1.0, "Progress: 0% | primes: 4.1G | elapsed: 1.0s"),
    ],
)
def test_progress_has_the_documented_form(
    fraction: float, number: float, elapsed_s: float, line: str
) -> None:
    assert progress_line(fraction, "primes", number, elapsed_s) == line
    assert short(0) == "0"


def test_progress_comes_each_interval_and_seldom_into_the_log(tmp_path: Path) -> None:
    ran = Ran(tmp_path, {"n": 10_000_000, "threads": 1, "repeats": 1, "progress_interval_s": 0.5})
    clock = Ticking(0.25)
    ran.context = replace(ran.context, clock=clock)
    ran.line()
    told = [each for each in ran.live.pieces if each.text.startswith("Progress: ")]
    shown = [each.text for each in told]
    logged = [line for line in ran.log if line.startswith("Progress: ")]
    assert len(shown) == pytest.approx(clock.at_s / 0.5, rel=0.5)
    assert 0 < len(logged) <= clock.at_s / 1.0
    assert {f"{line}\n" for line in logged} <= set(shown)
    fractions = [each.progress for each in ran.reporter.of(StageProgress)]
    assert fractions == sorted(fractions)
    assert told[-1].values["primes"] == pytest.approx(664_579, rel=0.2)
    assert ran.live.pieces[-1].values.items() >= {"progress": 1.0, "primes_found": 664_579}.items()


class Ticking:
    """A clock that goes on by a step each time that it is asked."""

    def __init__(self, step_s: float) -> None:
        self.at_s, self._step_s = 0.0, step_s

    def monotonic_s(self) -> float:
        self.at_s += self._step_s
        return self.at_s

    def now(self) -> Any:
        raise AssertionError("laps have no date")

    def wait(self, flag: Any, seconds: float) -> bool:
        raise AssertionError("laps do not wait")


def test_a_machine_that_counts_wrongly_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = np.count_nonzero
    monkeypatch.setattr(f"{HERE}.primes.np.count_nonzero", lambda flags: real(flags) + 1)
    ran = Ran(tmp_path, {"n": 1_000_000, "threads": 1})
    with pytest.raises(PipelineError, match="78,498: this machine computes wrongly") as caught:
        ran.line()
    assert (caught.value.code, caught.value.retryable, ran.rows) == ("WRONG_COUNT", False, [])


def test_more_threads_than_cores_are_told_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{HERE}.pipeline.cores", lambda: 1)
    ran = Ran(tmp_path, {"n": 1_000, "threads": 8, "repeats": 1})
    ran.line()
    assert (ran.rows[0]["threads_requested"], ran.rows[0]["threads_used"]) == (8, 1)
    assert "8 threads are asked for, and 1 used: the pod gives no more cores" in ran.log


def test_cores_and_memory_are_those_of_the_group_where_it_has_less(tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert machine.memory_left_bytes(tmp_path) is None
    put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    2048 kB\nMemAvailable: nonsense\n\n")
    assert machine.memory_left_bytes(tmp_path) == 2 << 20
    put("sys/fs/cgroup/memory.max", "max\n")
    assert machine.memory_left_bytes(tmp_path) == 2 << 20
    put("sys/fs/cgroup/memory.max", "1048576\n")
    put("sys/fs/cgroup/memory.current", "1048575\n")
    assert machine.memory_left_bytes(tmp_path) == 1
    for quota, most in (
        ("50000 100000", 1),
        ("max 100000", None),
        ("1 0", None),
        ("", None),
        ("x" * 9, None),
    ):
        put("sys/fs/cgroup/cpu.max", quota)
        assert machine.cores(tmp_path) == (most or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("spec", "left", "lower"),
    [
        ({"work": "simple_sieve", "n": 10**9}, 500_000_000, "lower n, or take segmented_sieve"),
        ({"work": "memory_bandwidth", "bytes": 1 << 30, "device": "cpu"}, 3 << 30, "lower bytes"),
        ({"work": "matmul", "size": 10_000, "device": "cpu"}, 1_200_000_000, "lower size"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_allocated(
    spec: dict[str, Any], left: int, lower: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("counting", "bandwidth", "matrices"):
        monkeypatch.setattr(f"{HERE}.{module}.memory_left_bytes", lambda: left)
    monkeypatch.setattr(gpu, "torch_here", lambda: None)
    with pytest.raises(PipelineError, match=lower) as caught:
        Ran(tmp_path, spec).line()
    assert caught.value.code == "OUT_OF_MEMORY"


def test_a_file_that_would_fill_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=600 << 20))
    with pytest.raises(PipelineError, match="lower bytes") as caught:
        Ran(tmp_path, {"work": "disk", "bytes": 200 << 20}).line()
    assert (caught.value.code, list(tmp_path.iterdir())) == ("DISK_FULL", [])


@pytest.mark.parametrize("size", [1, 7, 8, (4 << 20) + 3])
def test_a_file_is_written_read_and_gone(size: int, tmp_path: Path) -> None:
    ran = Ran(tmp_path, {"work": "disk", "bytes": size, "rounds": 2, "repeats": 1})
    ran.line()
    (row,) = ran.rows
    assert row["elapsed_s"] == pytest.approx(2 * row["round_s"])
    assert size * 2 / 1e9 / row["write_gb_per_s"] + size * 2 / 1e9 / row["read_gb_per_s"] == pytest.approx(
        row["elapsed_s"]
    )
    assert [each.name for each in tmp_path.iterdir()] == ["text-1.txt"]


def test_a_disk_that_gives_back_something_else_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(fd: int, buffers: list[memoryview], place: int) -> int:
        count = os.readv(fd, buffers)
        buffers[0][count - 1] ^= 1
        return count

    monkeypatch.setattr(f"{HERE}.disk.os.preadv", lying)
    with pytest.raises(PipelineError, match="differs from what was written") as caught:
        Ran(tmp_path, {"work": "disk", "bytes": 1_000, "rounds": 1, "repeats": 1}).line()
    assert caught.value.code == "WRONG_RESULT"


@pytest.mark.parametrize("kernel", ["copy", "scale", "add", "triad"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_kernel_of_stream_counts_the_arrays_that_it_names(
    kernel: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{HERE}.pipeline.cores", lambda: 4)
    count = 100_003
    spec = {"work": "memory_bandwidth", "kernel": kernel, "threads": threads, "bytes": 8 * count}
    ran = Ran(tmp_path, {**spec, "device": "cpu", "rounds": 2, "repeats": 1})
    ran.line()
    (row,) = ran.rows
    arrays = 3 if kernel in ("add", "triad") else 2
    assert row["gb_per_s"] == pytest.approx(2 * arrays * 8 * count / row["elapsed_s"] / 1e9)
    assert (row["threads_used"], row["rounds"]) == (threads, 2)


def test_a_memory_that_loses_a_number_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = np.copyto

    def losing(x: Any, y: Any) -> None:
        real(x, y)
        x[-1] = 0.0

    monkeypatch.setattr(f"{HERE}.bandwidth.np.copyto", losing)
    spec = {"work": "memory_bandwidth", "kernel": "copy", "bytes": 800, "device": "cpu", "threads": 1}
    with pytest.raises(PipelineError, match="did not write 2 everywhere") as caught:
        Ran(tmp_path, {**spec, "rounds": 1}).line()
    assert caught.value.code == "WRONG_RESULT"


def test_a_product_without_torch_is_that_of_numpy_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "torch_here", lambda: None)
    spec = {"work": "matmul", "size": 300, "rounds": 3, "repeats": 1, "device": "cpu"}
    ran = Ran(tmp_path, spec)
    ran.line()
    (row,) = ran.rows
    assert row["gflops"] == pytest.approx(2 * 300**3 * 3 / row["elapsed_s"] / 1e9)
    assert (row["library"], row["threads_used"]) == (f"numpy {np.__version__}", None)
    assert 0 < row["error"] < matrices.TOLERANCES["fp32"] / 5
    real = np.matmul

    def wrong(left: Any, right: Any, out: Any) -> None:
        real(left, right, out=out)
        out[-1, -1] += 1.0

    monkeypatch.setattr(f"{HERE}.matrices.np.matmul", wrong)
    with pytest.raises(PipelineError, match="computes wrongly") as caught:
        Ran(tmp_path, spec).line()
    assert caught.value.code == "WRONG_RESULT"


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "tf32"])
def test_a_type_that_needs_torch_is_told_where_there_is_none(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "torch_here", lambda: None)
    with pytest.raises(PipelineError, match="install PyTorch on the pod") as caught:
        Ran(tmp_path, {"work": "matmul", "dtype": dtype}).line()
    assert caught.value.code == "NO_DEVICE"


@pytest.mark.parametrize("work", ["host_device_copy", "matmul", "memory_bandwidth"])
def test_a_pod_without_a_gpu_says_so(work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "torch_here", lambda: None)
    with pytest.raises(PipelineError, match="this pod has no PyTorch: take a pod with a GPU") as caught:
        Ran(tmp_path, {"work": work, "device": "cuda"}).line()
    assert caught.value.code == "NO_DEVICE"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "OUT_OF_MEMORY"),
        ("CUDA error: no kernel image is available for execution on the device", "CUDA_UNSUPPORTED_ARCH"),
        ("CUDA error: the CUDA driver version is insufficient", "GPU_BROKEN"),
    ],
)
def test_errors_of_a_gpu_have_a_code_and_a_next_step(words: str, code: str) -> None:
    with pytest.raises(PipelineError, match=words) as caught, gpu.explained():
        raise RuntimeError(words)
    assert caught.value.code == code
    assert len(caught.value.message) > len(words) + 10


def test_an_error_of_the_code_itself_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"), gpu.explained():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_means_leave_out_what_a_lap_does_not_have() -> None:
    laps: list[dict[str, Any]] = [
        {"a": 1.0, "b": 3, "c": "x", "d": None},
        {"a": 2.0, "b": 3, "c": "y", "d": 4.0},
    ]
    assert means(laps) == {"a": 1.5, "b": 3, "c": "y", "d": 4.0}
