"""Exactly one final event, whatever a pipeline does."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from events.catalog import (
    ENDS,
    RunCanceled,
    RunCompleted,
    RunFailed,
    RunPreempted,
    RunStarted,
    StageStarted,
    type_of,
)
from events.kinds import KINDS
from events.kinds.declaring.fact import Fact
from events.kinds.probe import ProbeSpec
from events.runtime.errors import Canceled, GivenBack, PipelineError
from stages.context import Context
from stages.pipeline import TRACEBACK_MAX, Pipeline, classify, run_pipeline
from stages.testing import make_context


@dataclass
class Listener:
    """A reporter that keeps what it is told."""

    facts: list[Fact] = field(default_factory=list)

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        raise AssertionError("no pipeline here makes a file")


def facts_of(pipeline: Pipeline) -> list[Fact]:
    listener = Listener()
    run_pipeline(pipeline, make_context(ProbeSpec(), Path(), reporter=listener))
    return listener.facts


def raiser(error: BaseException, stage: str = "Stage_1") -> Pipeline:
    def pipeline(context: Context) -> str:
        with context.stage(stage):
            raise error

    return pipeline


def test_a_pipeline_that_returns_is_completed() -> None:
    assert facts_of(lambda context: "three of four") == [RunStarted(), RunCompleted(summary="three of four")]


def test_an_exception_is_one_failure_with_stage_code_and_traceback() -> None:
    started, stage, failure = facts_of(raiser(ZeroDivisionError("by zero"), "Stage_3"))
    assert (started, stage) == (RunStarted(), StageStarted(stage="Stage_3"))
    assert isinstance(failure, RunFailed)
    assert (failure.code, failure.message, failure.stage) == ("ZeroDivisionError", "by zero", "Stage_3")
    assert not failure.retryable
    assert failure.traceback is not None
    assert "in pipeline" in failure.traceback
    assert "ZeroDivisionError: by zero" in failure.traceback


def test_a_canceled_pipeline_says_so_and_why() -> None:
    assert facts_of(raiser(Canceled("somebody asked")))[-1] == RunCanceled(reason="somebody asked")


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        Canceled(),
        PipelineError("X", "x"),
        MemoryError(),
        TimeoutError(),
        StopIteration(),
        OSError(28, "full"),
    ],
    ids=repr,
)
def test_there_is_exactly_one_end_and_it_comes_last(error: BaseException) -> None:
    names = [type_of(type(fact)) for fact in facts_of(raiser(error))]
    assert [name for name in names if name in ENDS] == names[-1:]


def test_a_failure_without_a_text_has_a_message_all_the_same() -> None:
    failure = facts_of(raiser(MemoryError()))[-1]
    assert isinstance(failure, RunFailed)
    assert failure.message == "MemoryError"


def test_a_long_traceback_keeps_both_ends() -> None:
    failure = facts_of(raiser(ValueError("x" * 100_000 + " at last")))[-1]
    assert isinstance(failure, RunFailed)
    assert failure.traceback is not None
    assert len(failure.traceback) <= TRACEBACK_MAX + len("\n[...]\n")
    assert failure.traceback.startswith("Traceback (most recent call last)")
    assert failure.traceback.endswith("at last\n")


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (PipelineError("ALL_NODES_BUGGY", "none works"), "ALL_NODES_BUGGY", False),
        (PipelineError("MODEL_BUSY", "later", retryable=True), "MODEL_BUSY", True),
        (MemoryError(), "OUT_OF_MEMORY", False),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "OUT_OF_MEMORY", False),
        (
            RuntimeError("CUDA error: no kernel image is available for execution"),
            "CUDA_UNSUPPORTED_ARCH",
            False,
        ),
        (TimeoutError("the model did not answer"), "TIMEOUT", True),
        (OSError(28, "No space left on device"), "DISK_FULL", True),
        (OSError(5, "Input/output error"), "DISK_FAILED", True),
        (OSError(30, "Read-only file system"), "DISK_FAILED", True),
        (RuntimeError("CUDA error: unspecified launch failure"), "GPU_BROKEN", True),
        (RuntimeError("The NVIDIA driver on your system is too old"), "GPU_BROKEN", True),
        (RuntimeError("CUDA error: device-side assert triggered"), "RuntimeError", False),
        (ImportError("libcudart.so.12: cannot open shared object file"), "NOT_AVAILABLE", True),
        (FileNotFoundError(2, "No such file"), "FileNotFoundError", False),
        (KeyError("x"), "KeyError", False),
    ],
)
def test_an_exception_has_a_public_code(error: Exception, code: str, retryable: bool) -> None:
    assert classify(error) == (code, retryable)


def test_a_program_that_the_pod_lacks_is_no_missing_file(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("not executable")
    for program in ("no-such-program", str(tmp_path / "tool")):
        with pytest.raises(OSError, match=r"No such file|Permission denied") as caught:
            subprocess.run([program], check=True)
        assert classify(caught.value) == ("NOT_AVAILABLE", True)
    with pytest.raises(FileNotFoundError) as absent:
        (tmp_path / "data.csv").read_text()
    assert classify(absent.value) == ("FileNotFoundError", False)


def test_a_pipeline_that_gives_its_run_back_is_no_failure_and_says_why() -> None:
    *_, end = facts_of(raiser(GivenBack("another pod shall measure")))
    assert end == RunPreempted(reason="another pod shall measure")


@dataclass
class Waits:
    """A barrier that keeps what had happened by then."""

    done: list[str]

    def wait(self) -> None:
        self.done.append("waited")


@pytest.mark.parametrize(("prepares", "order"), [(False, ["waited", "ran"]), (True, ["ran"])])
def test_a_pipeline_that_prepares_nothing_waits_with_the_others_before_it_runs(
    prepares: bool, order: list[str]
) -> None:
    done: list[str] = []

    def pipeline(_: Context) -> str:
        done.append("ran")
        return ""

    context = make_context(ProbeSpec(), Path(), reporter=Listener())
    kind = replace(KINDS["probe"], prepares=prepares)
    run_pipeline(pipeline, replace(context, kind=kind, barrier=Waits(done)))
    assert done == order
