"""The memory of an engine's processes, as the kernels that there are tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import PipelineError
from stages.engines import processes
from stages.engines.processes import memory_bytes, tells_memory
from stages.engines.running import ServingLimits
from stages.engines.serving import serve
from testing.engine_double.row import DOUBLE

ALL_TOGETHER = {"status": "RssAnon:\t 100 kB\nRssFile:\t 900 kB\nRssShmem:\t 20 kB\n"}
SHARED = {"smaps_rollup": "Rss: 999 kB\nPss_Anon: 50 kB\nPss_Shmem: 10 kB\n"}


def a_process(proc: Path, pid: str, files: dict[str, str]) -> None:
    (proc / pid).mkdir()
    for name, text in {"stat": f"{pid} (a) S 1 7 7 0", **files}.items():
        (proc / pid / name).write_text(text)


def test_a_kernel_that_tells_no_shares_has_all_of_it_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    a_process(tmp_path, "7", ALL_TOGETHER | SHARED)
    a_process(tmp_path, "8", ALL_TOGETHER | {"smaps_rollup": "Rss: 999 kB\nPss: 999 kB\n"})
    a_process(tmp_path, "9", ALL_TOGETHER)
    a_process(tmp_path, "10", {"status": "State: Z\n"})
    assert memory_bytes(7, 360 << 10) == 360 << 10
    assert memory_bytes(7, 359 << 10) == (60 + 120 + 120) << 10


def test_a_kernel_that_tells_no_memory_bounds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tells_memory()
    monkeypatch.setattr(processes, "PROC", tmp_path)
    a_process(tmp_path, "self", {"status": "VmRSS: 100 kB\n"})
    with (
        pytest.raises(PipelineError, match="leave out `memory_gib`") as caught,
        serve(
            DOUBLE, "x", {}, name="x", folder=tmp_path, clock=SystemClock(), ids=SystemIds(),
            limits=ServingLimits(memory_bytes=1),
        ),
    ):  # fmt: skip
        pytest.fail("nobody would see its memory")
    assert (caught.value.code, caught.value.retryable) == ("CONFIG", True)
