"""What tests of suites share: samples of each form, folders, and a sandbox that holds nothing in."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from stages.isolation.sandbox import Ended, Isolation, Job
from stages.kinds.benchmark.suites.data.sources import DataSources
from stages.kinds.benchmark.suites.item import Scoring
from stages.testing import NoSandbox

SAMPLES = Path(__file__).parent / "samples"


class PlainSandbox(NoSandbox):
    """Runs each program as a process of this user, for programs that are harmless."""

    def isolation(self) -> Isolation:
        return Isolation("plain", ("nothing is held in",))

    def run(self, job: Job) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-I", job.script], cwd=job.folder, capture_output=True, check=False, text=True
        )
        how = "finished" if ended.returncode == 0 else "exited"
        return Ended(how=how, seconds=0.0, log_tail=ended.stderr)


@pytest.fixture
def samples() -> Path:
    """Return the folder of samples."""
    return SAMPLES


@pytest.fixture
def sources(tmp_path: Path) -> DataSources:
    """Return sources that hold the samples and reach no hub."""
    return DataSources(folders=(SAMPLES,), cache=tmp_path / "cache", hub="")


@pytest.fixture
def scoring(tmp_path: Path) -> Scoring:
    """Return scoring without a sandbox or a model."""
    return Scoring(sandbox=NoSandbox(), folder=tmp_path / "code", slots=contextlib.nullcontext())


@pytest.fixture
def code_scoring(tmp_path: Path) -> Scoring:
    """Return scoring that runs harmless programs."""
    return Scoring(sandbox=PlainSandbox(), folder=tmp_path / "code", slots=contextlib.nullcontext())
