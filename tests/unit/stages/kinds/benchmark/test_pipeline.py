"""A benchmark in process: what is recorded of each item, what a next attempt asks, and what ends a run."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from events.catalog import ResultRecorded, RunSummarized, RunUsage, StageCompleted
from events.kinds.benchmark import BenchmarkSpec, ItemsAsked
from events.queue.faults import Fault, blame_of
from events.runtime.errors import PipelineError
from stages.kinds.benchmark.pipeline import run_with
from stages.kinds.benchmark.suite_loader import SuiteLoader
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import Item, Score, Scoring, Suite
from stages.kinds.benchmark.suites.payload import Quantity
from stages.models.model import Answer, ModelError, Question, Usage
from stages.ports.checkpoints import Restored
from stages.testing import MemoryCheckpoints, RecordingReporter, make_context, make_tools

ITEMS = 12
QUESTIONS = [f"What is {number}" for number in range(100, 100 + ITEMS)]


@dataclass
class Scholar:
    """A model that knows every answer, but those that a test gives it."""

    answers: Mapping[str, str | Exception] = field(default_factory=dict)
    name: str = "scholar-1"
    asked: list[str] = field(default_factory=list)

    def ask(self, question: Question) -> Answer:
        self.asked.append(question.text)
        answer = self.answers.get(question.text, question.text.removeprefix("What is "))
        if isinstance(answer, Exception):
            raise answer
        return Answer(text=answer, usage=Usage(prompt_tokens=10, completion_tokens=2, seconds=0.01))


class Crowd(Scholar):
    """A model that answers when three questions are open, and counts how many are."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.Barrier(3, timeout=60)
        self.open = self.most = 0
        self.lock = threading.Lock()

    def ask(self, question: Question) -> Answer:
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        self.here.wait()
        with self.lock:
            self.open -= 1
        return super().ask(question)


class Sleeper(Scholar):
    """A model that answers its first question when it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.wake = threading.Event()

    def ask(self, question: Question) -> Answer:
        if not self.asked:
            self.asked.append("")
            self.wake.wait(60)
        return super().ask(question)


def score(item: Item, answer: str, scoring: Scoring) -> Score:
    if not answer.isdecimal():
        return Score(outcome="unparsed", why="it is no number")
    is_right = answer == item.expected
    return Score(
        outcome="right" if is_right else "wrong",
        value=float(is_right),
        parsed=answer,
        why="" if is_right else f"it is {item.expected}",
    )


def suite(name: str) -> Suite:
    return Suite(
        name=name, title=name, says="Numbers.", licence="own", sources=(), local=(), split="",
        expected_count=ITEMS, tokens_max=64, uses_code=False, adapt=lambda _: items(name)[0], scorer=score,
    )  # fmt: skip


def items(name: str) -> list[Item]:
    return [
        Item(id=f"{number}", prompt=f"What is {number}", payload=Quantity(str(number)), expected=str(number))
        for number in range(100, 100 + ITEMS)
    ]


def load(suite: Suite, sources: DataSources) -> list[Item]:
    match suite.name:
        case "gpqa":
            raise NeedsSetup("put the file gpqa.csv into a data folder of the pod")
        case "aime":
            raise DataRefused("its file has no column Answer")
    return items(suite.name)


LOADER = SuiteLoader(
    suite=lambda name, spec: suite(name),
    sources=lambda context: DataSources(folders=(), cache=context.workspace),
    load=load,
)


@dataclass
class Attempt:
    """One attempt: what it said, and how it ended."""

    model: Scholar
    reporter: RecordingReporter
    checkpoints: MemoryCheckpoints
    ended: str | PipelineError

    def rows(self, name: str = "items") -> dict[str, Mapping[str, Any]]:
        return {each.key: each.values for each in self.reporter.of(ResultRecorded) if each.set == name}

    @property
    def summary(self) -> dict[str, Any]:
        return {key: value for each in self.reporter.of(RunSummarized) for key, value in each.values.items()}


def attempt(
    folder: Path,
    model: Scholar | None = None,
    *,
    number: int = 1,
    found: Mapping[str, Any] | None = None,
    told: Mapping[str, Any] | None = None,
    named: str | None = None,
    **spec: Any,
) -> Attempt:
    model = model or Scholar()
    reporter, checkpoints = RecordingReporter(), MemoryCheckpoints(number, found or {})
    workspace = folder / f"attempt {number}"
    workspace.mkdir()
    context = make_context(
        BenchmarkSpec(**{"model": named or model.name, "suites": "gsm8k", **spec}),
        workspace,
        reporter=reporter,
        checkpoints=checkpoints,
        tools=make_tools(model=model),
        attempt=number,
        told=told,
    )
    ended: str | PipelineError
    try:
        ended = run_with(context, LOADER)
    except PipelineError as error:
        ended = error
    return Attempt(model, reporter, checkpoints, ended)


def test_each_item_is_a_row_with_its_whole_texts_beside_it(tmp_path: Path) -> None:
    answers = {
        "What is 100": "99",
        "What is 101": "no idea",
        "What is 102": ModelError("refused", "not this one"),
    }
    done = attempt(tmp_path, Scholar(answers))
    assert done.ended == "scholar-1: gsm8k 81.8% of 11"
    rows = done.rows()
    assert Counter(each["outcome"] for each in rows.values()) == {
        "right": 9,
        "wrong": 1,
        "unparsed": 1,
        "error": 1,
    }
    wrong, failed = rows["gsm8k/100"], rows["gsm8k/102"]
    assert (wrong["expected"], wrong["answer"], wrong["parsed"], wrong["why"]) == (
        "100",
        "99",
        "99",
        "it is 100",
    )
    assert (wrong["tokens"], wrong["score"], wrong["item"], wrong["lost_requests"]) == (12, 0.0, "100", 0)
    assert failed["score"] is None
    assert "not this one" in failed["why"]
    (row,) = [each for each in done.reporter.of(ResultRecorded) if each.key == "gsm8k/100"]
    (file,) = [each for each in done.reporter.files if each.name == row.detail]
    texts = json.loads(file.path.read_text())
    assert (texts["Prompt"], texts["Expected"], texts["Answer"]) == ("What is 100", "100", "99")
    suites = done.rows("suites")["gsm8k"]
    assert (suites["state"], suites["items"], suites["failures"], suites["wanted"]) == (
        "succeeded",
        12,
        2,
        12,
    )
    assert suites["low"] < suites["score"] == 9 / 11 < suites["high"]
    assert done.summary["score"] == done.summary["score_gsm8k"] == 9 / 11
    assert (done.summary["items"], done.summary["failures"], done.summary["tokens"]) == (12, 2, 11 * 12)
    assert len(done.reporter.of(RunUsage)) == 11
    assert [each.stage for each in done.reporter.of(StageCompleted)] == ["gsm8k"]


def failing(questions: list[str], trouble: Any) -> Mapping[str, str | Exception]:
    """Return an error of its own for each question."""
    return {each: ModelError(trouble, "nobody there") for each in questions}


def numbers(done: Attempt) -> list[int]:
    """Return which items were asked, in their order."""
    return [int(text.removeprefix("What is ")) for text in done.model.asked]


def test_the_next_attempt_asks_what_is_missing_and_records_all_rows_again(tmp_path: Path) -> None:
    answers = {"What is 101": "99", "What is 102": ModelError("refused", "not this one")}
    first = attempt(tmp_path, Scholar(answers), max_tokens=60, concurrency=1)
    assert isinstance(first.ended, PipelineError)
    assert first.ended.code == "BUDGET_EXCEEDED"
    assert numbers(first) == [100, 101, 102, 103, 104, 105]
    assert first.rows("suites")["gsm8k"]["state"] == "failed"
    assert len(first.rows()) == 6
    second = attempt(tmp_path, number=2, found=first.checkpoints.kept, concurrency=1)
    assert second.ended == "scholar-1: gsm8k 90.9% of 11"
    assert numbers(second) == list(range(106, 112))
    said = [each.key for each in second.reporter.of(ResultRecorded) if each.set == "items"]
    assert sorted(said) == [f"gsm8k/{number}" for number in range(100, 112)], "each of them once"
    assert {key: second.rows()[key] for key in first.rows()} == first.rows()
    third = attempt(tmp_path, number=3, found=second.checkpoints.kept, max_tokens=140)
    assert third.ended == second.ended
    assert third.model.asked == []
    assert third.rows() == second.rows()


def test_what_no_checkpoint_has_is_taken_from_what_the_control_plane_tells(tmp_path: Path) -> None:
    first = attempt(tmp_path, max_tokens=60, concurrency=1)
    recorded = [each for each in first.reporter.of(ResultRecorded) if each.set == "items"]
    rows = [
        {"key": each.key, "values": each.values, "status": each.status, "detail": each.detail}
        for each in recorded
    ]
    asked = [key for each in first.reporter.of(ItemsAsked) for key in each.keys]
    assert asked[:5] == [each.key for each in recorded], "said before the result"
    told = {"rows": rows, "asked": [*asked[:5], "gsm8k/107"], "tokens": 60, "cost_usd": 0.0}
    second = attempt(tmp_path, number=2, told=told, concurrency=1, max_tokens=1_000)
    assert numbers(second) == list(range(105, 112))
    lost = {key for key, values in second.rows().items() if values["lost_requests"]}
    assert lost == {"gsm8k/107"}, "what was asked, and has no result"
    assert second.rows("suites")["gsm8k"]["lost_requests"] == 1
    (unknown,) = [each for each in second.reporter.of(RunUsage) if each.prompt_tokens is None]
    assert (unknown.purpose, unknown.completion_tokens, unknown.cost_usd) == ("gsm8k", None, None)


@pytest.mark.parametrize(
    "told",
    [
        {"rows": "none"},
        {"rows": [{"key": "gsm8k/100", "values": {"score": float("nan")}}]},
        {"rows": [{"key": "gsm8k/100", "values": {"color": "blue"}}]},
        {"asked": [1]},
        {"tokens": -1},
    ],
)
def test_what_cannot_be_told_counts_as_nothing(told: Mapping[str, Any], tmp_path: Path) -> None:
    done = attempt(tmp_path, number=2, told=told, sample_size=1)
    assert done.ended == "scholar-1: gsm8k 100.0% of 1"
    assert len(done.model.asked) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(b"[1]\n", mtime=0), gzip.compress(b"{", mtime=0)[:-9]],
)
def test_a_checkpoint_that_cannot_be_read_costs_its_items_and_no_more(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "left").write_bytes(content)
    found = {"items-01": Restored(1, {"spent": {"tokens": "many"}}, {"items.ndjson.gz": tmp_path / "left"})}
    done = attempt(tmp_path, number=2, found=found, sample_size=2)
    assert done.ended == "scholar-1: gsm8k 100.0% of 2"


def test_a_suite_without_its_data_says_what_to_do_and_the_others_go_on(tmp_path: Path) -> None:
    done = attempt(tmp_path, suites="gpqa,gsm8k,aime,ifeval", sample_size=2)
    assert done.ended == "scholar-1: gsm8k 100.0% of 2, ifeval 100.0% of 2; not asked: gpqa, aime"
    states = {name: (each["state"], each["says"]) for name, each in done.rows("suites").items()}
    assert states == {
        "gpqa": ("needs_setup", "put the file gpqa.csv into a data folder of the pod"),
        "gsm8k": ("succeeded", ""),
        "aime": ("failed", "its file has no column Answer"),
        "ifeval": ("succeeded", ""),
    }
    assert done.summary == {
        "score": 1.0, "items": 4, "failures": 0, "seconds": done.summary["seconds"], "tokens": 48,
        "cost_usd": None, "score_gsm8k": 1.0, "score_ifeval": 1.0, "scored": None, "scored_gsm8k": 2,
        "scored_ifeval": 2,
    }  # fmt: skip


def test_a_run_none_of_whose_suites_has_its_data_fails_with_what_to_do(tmp_path: Path) -> None:
    done = attempt(tmp_path, suites="gpqa")
    assert isinstance(done.ended, PipelineError)
    assert done.ended.code == "NO_SUITE_READY"
    assert "gpqa: put the file gpqa.csv into a data folder" in done.ended.message


def test_a_suite_is_evaluated_in_slices_so_that_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stages.kinds.benchmark.engine.SLICE", 5)
    done = attempt(tmp_path, concurrency=2)
    assert done.ended == "scholar-1: gsm8k 100.0% of 12"
    assert sorted(done.model.asked) == QUESTIONS
    logs = [each.name for each in done.reporter.files if each.name.endswith(".eval")]
    assert len(logs) == len(set(logs)) == 3


def test_a_model_that_refuses_everything_fails_the_run(tmp_path: Path) -> None:
    done = attempt(tmp_path, Scholar(failing(QUESTIONS, "refused")))
    assert isinstance(done.ended, PipelineError)
    assert (done.ended.code, done.ended.retryable) == ("NOTHING_SCORED", False)
    assert done.rows("suites")["gsm8k"]["state"] == "failed"
    assert {each["outcome"] for each in done.rows().values()} == {"error"}


@pytest.mark.parametrize("trouble", ["unreachable", "rate_limited", "quota", "unauthorised"])
def test_a_model_that_is_away_is_waited_for_and_what_it_did_not_answer_is_asked_again(
    tmp_path: Path, trouble: Any
) -> None:
    away = Scholar(failing(QUESTIONS[3:], trouble))
    first = attempt(tmp_path, away, concurrency=1)
    assert isinstance(first.ended, PipelineError)
    assert (first.ended.code, first.ended.retryable) == (f"MODEL_{trouble.upper()}", True)
    assert blame_of(first.ended.code).fault is not Fault.RUN
    assert 3 + 8 <= len(away.asked) <= 3 + 9, "the next one may be under way"
    assert set(first.rows()) == {f"gsm8k/{number}" for number in range(100, 103)}
    assert first.rows("suites")["gsm8k"]["state"] == "pending"

    asked = [key for each in first.reporter.of(ItemsAsked) for key in each.keys]
    second = attempt(tmp_path, number=2, found=first.checkpoints.kept, told={"asked": asked}, concurrency=1)
    assert sorted(second.model.asked) == QUESTIONS[3:], "nothing that was answered is asked twice"
    assert second.ended == "scholar-1: gsm8k 100.0% of 12"
    lost = {key for key, each in second.rows().items() if each["lost_requests"]}
    assert lost <= {"gsm8k/111"}, "it is known what came of the others"


def test_a_short_run_whose_model_is_away_waits_as_well(tmp_path: Path) -> None:
    away = Scholar(failing(QUESTIONS, "unreachable"))
    done = attempt(tmp_path, away, sample_size=2)
    assert isinstance(done.ended, PipelineError)
    assert (done.ended.code, done.rows()) == ("MODEL_UNREACHABLE", {})


def test_an_item_that_fails_twice_while_others_are_answered_has_its_own_error(tmp_path: Path) -> None:
    done = attempt(tmp_path, Scholar(failing(QUESTIONS[:11], "unreachable")), concurrency=12)
    assert isinstance(done.ended, PipelineError), "eleven in a row"
    done = attempt(tmp_path, Scholar(failing(QUESTIONS[1::2], "unreachable")), number=2, concurrency=1)
    assert done.ended == "scholar-1: gsm8k 100.0% of 6"
    assert Counter(done.model.asked) == {each: 1 + number % 2 for number, each in enumerate(QUESTIONS)}
    assert Counter(each["outcome"] for each in done.rows().values()) == {"right": 6, "error": 6}


def test_an_item_that_comes_too_late_is_no_outage(tmp_path: Path) -> None:
    late = Scholar(failing(QUESTIONS[1:], "timed_out"))
    done = attempt(tmp_path, late)
    assert done.ended == "scholar-1: gsm8k 100.0% of 1"
    assert len(late.asked) == ITEMS


def test_a_model_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    done = attempt(tmp_path, named="gpt-99")
    assert isinstance(done.ended, PipelineError)
    assert (done.ended.code, done.ended.retryable) == ("UNKNOWN_MODEL", False)
    assert blame_of("UNKNOWN_MODEL").fault is Fault.RUN, "no pod is suspected for a name that is mistyped"
    assert "smollm2 can be served here, and this pod's own is 'scholar-1'" in done.ended.message


def test_a_run_that_does_not_name_the_secret_of_its_model_is_told_so_once(tmp_path: Path) -> None:
    at = {"provider": "openai", "model": "big-1", "baseUrl": "http://127.0.0.1:1/v1", "secret": "FAST_KEY"}
    done = attempt(tmp_path, named="fast", told={"model": {"endpoint": at}})
    assert isinstance(done.ended, PipelineError)
    assert (done.ended.code, blame_of(done.ended.code).fault) == ("CONFIG", Fault.RUN)
    assert "submit the run with --secret FAST_KEY" in done.ended.message


def test_suites_behind_a_budget_that_is_spent_are_skipped(tmp_path: Path) -> None:
    done = attempt(tmp_path, suites="gsm8k,ifeval", max_tokens=30)
    assert {name: each["state"] for name, each in done.rows("suites").items()} == {
        "gsm8k": "failed",
        "ifeval": "skipped",
    }


def test_an_item_that_is_asked_more_than_once_has_a_row_each_time(tmp_path: Path) -> None:
    done = attempt(tmp_path, sample_size=1, epochs=3)
    (number,) = set(numbers(done))
    assert sorted(done.rows()) == [f"gsm8k/{number}#{epoch}" for epoch in (1, 2, 3)]


def test_requests_of_one_run_are_open_at_once_and_no_more_than_it_says(tmp_path: Path) -> None:
    model = Crowd()
    attempt(tmp_path, model, concurrency=3)
    assert model.most == 3


def test_an_item_that_takes_too_long_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    model = Sleeper()
    done = attempt(tmp_path, model, sample_size=2, concurrency=2, item_timeout_s=5)
    model.wake.set()
    assert Counter(each["outcome"] for each in done.rows().values()) == {"error": 1, "right": 1}
    (why,) = [each["why"] for each in done.rows().values() if each["why"]]
    assert why == "it was given up after 5 s (item_timeout_s)"
