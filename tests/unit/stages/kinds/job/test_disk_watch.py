"""A job whose pod's disk fills: by itself, or by somebody else."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.runtime.errors import PipelineError
from stages.isolation.disk_use import DiskUse
from stages.kinds.job.disk_watch import is_its_own
from tests.unit.stages.kinds.job.test_pipeline import CLOCK, Job

MIB = 1 << 20
DISK_MIB = 32
FILL = f"""
    import os, pathlib, time

    with open(pathlib.Path(os.environ["PODFLEET_OUTPUT"]).parent / "much", "wb") as file:
        file.write(bytes({DISK_MIB - 8} << 20))
    print("written", flush=True)
    time.sleep(1_000)
"""
WAIT = """
    import time

    print("ready", flush=True)
    time.sleep(1_000)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", folder], check=False
    )
    if os.getuid() != 0 or mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_job_that_fills_the_disk_is_ended_and_it_is_its_own_failure(disk: Path) -> None:
    job = Job(disk, FILL)

    with pytest.raises(PipelineError) as ended:
        job.run()

    assert (ended.value.code, ended.value.retryable) == ("DISK_LIMIT", False)
    assert ended.value.message.startswith("the program wrote ")
    assert "log.txt" in job.files


def test_a_job_beside_which_the_disk_fills_is_for_another_pod(disk: Path) -> None:
    job, is_over = Job(disk, WAIT), threading.Event()

    def fill() -> None:
        while "ready" not in job.live.text():
            if CLOCK.wait(is_over, 0.05):
                return
        (disk / "of somebody else").write_bytes(bytes((DISK_MIB - 8) * MIB))

    other = threading.Thread(target=fill)
    other.start()
    try:
        with pytest.raises(PipelineError) as ended:
            job.run()
    finally:
        is_over.set()
        other.join()

    assert (ended.value.code, ended.value.retryable) == ("DISK_FULL", True)


@pytest.mark.parametrize(
    ("use", "written", "gone", "expected"),
    [
        (DiskUse(60), 50, 100, True),
        (DiskUse(60), 49, 100, False),
        (DiskUse(60), 0, 100, False),
        (DiskUse(60, is_hiding=True), 0, 100, True),
    ],
)
def test_who_wrote_half_of_what_went_has_filled_it(
    use: DiskUse, written: int, gone: int, expected: bool
) -> None:
    assert is_its_own(use, written, gone) is expected
