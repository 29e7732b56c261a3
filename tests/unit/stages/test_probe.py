"""The probe: what it says, what it keeps, and the ends that a test process survives."""

from __future__ import annotations

import math
import resource
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.catalog import (
    ResultRecorded,
    RunFailed,
    RunLog,
    RunSummarized,
    StageMetric,
    StageProgress,
)
from events.kinds.declaring.fact import Fact
from events.kinds.declaring.spec import Spec
from events.kinds.experiment import ExperimentSpec
from events.kinds.probe import KIND, ProbeSpec
from events.runtime.errors import PipelineError
from stages.context import Context
from stages.kinds.probe.pipeline import ENDINGS, run, write_artifact
from stages.pipeline import failure_of
from stages.registry import installed, load, missing
from stages.testing import make_context


@dataclass
class HandClock:
    """A clock that goes on by what is waited."""

    at_s: float = 0.0
    waits: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at_s, UTC)

    def monotonic_s(self) -> float:
        return self.at_s

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.at_s += seconds
        return flag.is_set()


@dataclass
class Listener:
    """A reporter that keeps what it is told."""

    facts: list[Fact] = field(default_factory=list)
    files: list[tuple[Path, str]] = field(default_factory=list)

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        self.files.append((path, name))


def context_for(spec: Spec, workspace: Path = Path()) -> tuple[Context, Listener, HandClock]:
    listener, clock = Listener(), HandClock()
    context = make_context(spec, workspace, reporter=listener, clock=clock)
    return context, listener, clock


@given(events=st.integers(0, 50), seconds=st.floats(0, 1000))
def test_it_says_exactly_what_it_was_told_to_say_in_exactly_that_time(
    tmp_path_factory: pytest.TempPathFactory, events: int, seconds: float
) -> None:
    spec = ProbeSpec(events=events, seconds=seconds, artifact_bytes=0)
    context, listener, clock = context_for(spec, tmp_path_factory.getbasetemp())
    run(context)
    spoken = [fact for fact in listener.facts if isinstance(fact, StageProgress | StageMetric | RunLog)]
    assert len(spoken) == events
    assert clock.at_s == pytest.approx(seconds)
    assert all(step_s <= seconds / max(events, 1) * 1.001 for step_s in clock.waits)


def test_it_says_every_sort_of_thing(tmp_path: Path) -> None:
    context, listener, _ = context_for(ProbeSpec(events=3), tmp_path)
    run(context)
    assert [type(fact) for fact in listener.facts[1:-1]] == [
        StageProgress,
        StageMetric,
        RunLog,
        RunSummarized,
    ]


@pytest.mark.parametrize(("x", "y", "value"), [(1.0, -2.0, 0.0), (0.0, 0.0, 5.0), (3.0, -4.0, 8.0)])
def test_its_headline_number_is_a_known_function_and_its_rows_are_as_many_as_asked_for(
    tmp_path: Path, x: float, y: float, value: float
) -> None:
    context, listener, _ = context_for(ProbeSpec(events=0, x=x, y=y, results=20), tmp_path)
    run(context)
    said = [fact for fact in listener.facts if isinstance(fact, RunSummarized)]
    assert said == [RunSummarized(values={"value": value, "radius": math.hypot(x, y)})]
    rows = [fact for fact in listener.facts if isinstance(fact, ResultRecorded)]
    assert len({each.key for each in rows}) == len(rows) == 20


def test_the_noise_is_of_the_attempt_and_the_same_each_time(tmp_path: Path) -> None:
    def said(run_id: str, attempt: int) -> object:
        context, listener, _ = context_for(ProbeSpec(events=0, noise=1.0), tmp_path)
        run(replace(context, run_id=run_id, attempt=attempt))
        return [fact for fact in listener.facts if isinstance(fact, RunSummarized)]

    assert said("r", 1) == said("r", 1)
    assert said("r", 1) != said("r", 2) != said("s", 2)


@pytest.mark.parametrize("size_bytes", [0, 1, 65_535, 65_536, 65_537, 1_000_000])
def test_its_artifact_has_the_size_asked_for_and_always_the_same_bytes(
    tmp_path: Path, size_bytes: int
) -> None:
    write_artifact(tmp_path / "one", size_bytes)
    write_artifact(tmp_path / "two", size_bytes)
    assert (tmp_path / "one").stat().st_size == size_bytes
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_it_keeps_its_artifact_before_it_ends(tmp_path: Path) -> None:
    context, listener, _ = context_for(ProbeSpec(artifact_bytes=100, end="exception"), tmp_path)
    with pytest.raises(ValueError, match="asked to fail"):
        run(context)
    assert listener.files == [(tmp_path / "probe.bin", "probe.bin")]
    assert (tmp_path / "probe.bin").stat().st_size == 100


@pytest.mark.parametrize(
    ("end", "code", "retryable"),
    [
        ("exception", "ValueError", False),
        ("retryable", "PROBE_RETRYABLE", True),
        ("out_of_memory", "OUT_OF_MEMORY", False),
        ("cuda_out_of_memory", "OUT_OF_MEMORY", False),
    ],
)
def test_its_exceptions_have_their_codes(tmp_path: Path, end: str, code: str, retryable: bool) -> None:
    failure = _failure_of_probe(tmp_path, end)
    assert (failure.code, failure.stage, failure.retryable) == (code, "probe", retryable)


def test_running_out_of_memory_leaves_the_limit_as_it_was(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert _failure_of_probe(tmp_path, "out_of_memory").code == "OUT_OF_MEMORY"
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_every_end_that_can_be_asked_for_is_there() -> None:
    assert set(ENDINGS) == set(get_args(get_type_hints(ProbeSpec)["end"]))


def test_another_kinds_specification_is_a_fault_of_the_configuration() -> None:
    context, _, _ = context_for(ExperimentSpec(idea="warm restarts help"))
    with pytest.raises(PipelineError) as caught:
        run(context)
    assert caught.value.code == "CONFIG"


def test_a_kind_is_installed_when_nothing_that_it_needs_is_missing() -> None:
    assert missing(replace(KIND, needs=("json", "no_such_module_here"))) == ("no_such_module_here",)
    assert "probe" in installed()


def test_a_pipeline_is_loaded_by_its_kind() -> None:
    assert load(["probe"]) == {"probe": run}
    with pytest.raises(KeyError):
        load(["nonsense"])


def _failure_of_probe(workspace: Path, end: str) -> RunFailed:
    context, _, _ = context_for(ProbeSpec(seconds=0, events=0, end=end), workspace)  # type: ignore[arg-type]
    try:
        run(context)
    except Exception as error:  # noqa: BLE001 - any exception is what the test asks for
        return failure_of(error, context.where.stage)
    raise AssertionError(f"the probe completed instead of {end}")
