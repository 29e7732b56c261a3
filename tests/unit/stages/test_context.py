"""What a pipeline says through its context."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from events.catalog import (
    ResultRecorded,
    RunLog,
    RunSummarized,
    StageCompleted,
    StageMetric,
    StageProgress,
    StageStarted,
)
from events.kinds.declaring.fact import Fact
from events.kinds.probe import ProbeSpec
from events.kinds.results import RESULT_BYTES_MAX, ROW_BYTES_MIN
from events.runtime.errors import Canceled, PipelineError
from stages.context import Context
from stages.ports.results import SUMMARIES_MAX
from stages.testing import RecordingLiveView, RecordingReporter, make_context


@dataclass
class HandClock:
    """A clock that goes on only when it is told to."""

    at_s: float = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at_s, UTC)

    def monotonic_s(self) -> float:
        return self.at_s

    def wait(self, flag: threading.Event, seconds: float) -> bool:
        self.at_s += seconds
        return flag.is_set()


@dataclass
class Listener:
    """A reporter that keeps what it is told."""

    facts: list[Fact] = field(default_factory=list)
    files: list[tuple[Path, str, str, str | None]] = field(default_factory=list)

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        self.files.append((path, name, content_type, stage))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def context(tmp_path: Path, listener: Listener, clock: HandClock) -> Context:
    return make_context(ProbeSpec(), tmp_path, reporter=listener, clock=clock)


def test_a_stage_says_once_that_it_began_and_once_that_it_is_done(
    context: Context, listener: Listener, clock: HandClock
) -> None:
    with context.stage("Stage_1", index=1, total=4):
        clock.at_s += 2.5
    assert listener.facts == [
        StageStarted(stage="Stage_1", index=1, total=4),
        StageCompleted(stage="Stage_1", duration_s=2.5),
    ]
    assert context.where.stage == "run"


@pytest.mark.parametrize("error", [ValueError("no"), Canceled("stop"), KeyboardInterrupt()])
def test_a_stage_that_fails_never_says_that_it_is_done_and_can_be_named(
    context: Context, listener: Listener, error: BaseException
) -> None:
    with pytest.raises(type(error)), context.stage("Stage_2"):
        raise error
    assert listener.facts == [StageStarted(stage="Stage_2")]
    assert context.where.stage == "Stage_2"


@pytest.mark.parametrize(("said", "told"), [(-0.5, 0.0), (0.25, 0.25), (1.0000001, 1.0)])
def test_progress_stays_between_zero_and_one(
    context: Context, listener: Listener, said: float, told: float
) -> None:
    with context.stage("Stage_1") as stage:
        stage.progress(said, "training")
    assert listener.facts[1] == StageProgress(stage="Stage_1", progress=told, activity="training")


def test_metrics_and_lines_name_the_stage_that_they_were_said_in(
    context: Context, listener: Listener
) -> None:
    context.log("before")
    with context.stage("Stage_1") as stage:
        stage.metric("loss", 0.5, step=3)
        context.log("inside", "warning")
    assert _without_brackets(listener.facts) == [
        RunLog(message="before", stage="run"),
        StageMetric(stage="Stage_1", name="loss", value=0.5, step=3),
        RunLog(message="inside", level="warning", stage="Stage_1"),
    ]


def test_a_kept_file_has_its_name_its_type_and_its_stage(
    context: Context, listener: Listener, tmp_path: Path
) -> None:
    with context.stage("paper"):
        context.keep(tmp_path / "paper.pdf")
    context.keep(tmp_path / "weights.unheard-of", "best/weights")
    assert listener.files == [
        (tmp_path / "paper.pdf", "paper.pdf", "application/pdf", "paper"),
        (tmp_path / "weights.unheard-of", "best/weights", "application/octet-stream", None),
    ]


def _without_brackets(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for fact in facts if not isinstance(fact, StageStarted | StageCompleted)]


def test_a_row_and_numbers_that_the_kind_declares_are_said_and_others_end_the_run(
    tmp_path: Path, listener: Listener
) -> None:
    context = make_context(ProbeSpec(), tmp_path, reporter=listener)
    context.result("rows", "k", {"value": 1.5, "group": None}, status="done", detail="k.txt")
    context.summarize({"value": 1})
    context.summarize({"value": 1})
    context.summarize({"value": 2})
    assert listener.facts == [
        ResultRecorded(
            set="rows", key="k", values={"value": 1.5, "group": None}, status="done", detail="k.txt"
        ),
        RunSummarized(values={"value": 1}),
        RunSummarized(values={"value": 2}),
    ]
    for name, key, values, words in (
        ("laps", "k", {}, "there are rows"),
        ("rows", "k", {"color": 1}, "no column 'color'"),
        ("rows", "k", {"value": "x"}, "value is a number"),
    ):
        with pytest.raises(PipelineError, match=words):
            context.result(name, key, values)
    with pytest.raises(ValueError, match="a key has 1 to 200 bytes"):
        context.result("rows", "", {})
    with pytest.raises(ValueError, match="no finite number"):
        context.result("rows", "k", {"value": float("nan")})
    with pytest.raises(PipelineError, match="no column 'loss'"):
        context.summarize({"loss": 1})


def test_rows_beyond_the_bounds_are_left_out_and_the_log_says_so_once(
    tmp_path: Path, listener: Listener
) -> None:
    context = make_context(ProbeSpec(), tmp_path, reporter=listener)
    context.recorded.bytes = RESULT_BYTES_MAX - 2 * ROW_BYTES_MIN
    for number in range(5):
        context.result("rows", f"k{number}", {"value": number})
    kinds = [type(fact) for fact in listener.facts]
    assert kinds == [ResultRecorded, ResultRecorded, RunLog]
    assert context.recorded.refused == 3
    warning = listener.facts[-1]
    assert isinstance(warning, RunLog)
    assert (warning.level, "100,000 rows" in warning.message) == ("warning", True)


def test_headline_numbers_that_never_stop_are_said_a_thousand_times(
    tmp_path: Path, listener: Listener
) -> None:
    context = make_context(ProbeSpec(), tmp_path, reporter=listener)
    for number in range(SUMMARIES_MAX + 5):
        context.summarize({"value": number})
    assert sum(isinstance(fact, RunSummarized) for fact in listener.facts) == SUMMARIES_MAX
    assert sum(isinstance(fact, RunLog) for fact in listener.facts) == 1


def test_what_is_shown_is_seen_in_order_and_is_no_fact(tmp_path: Path) -> None:
    live, reporter = RecordingLiveView(), RecordingReporter()
    context = make_context(ProbeSpec(), tmp_path, reporter=reporter, live=live)
    context.show("one ")
    context.show("other", lap=2, tokens=2.0)
    context.show("two")
    context.show(ttft_s=0.25)
    assert (live.text(), live.text(2)) == ("one two", "other")
    assert [dict(piece.values) for piece in live.pieces] == [{}, {"tokens": 2.0}, {}, {"ttft_s": 0.25}]
    assert not reporter.facts
