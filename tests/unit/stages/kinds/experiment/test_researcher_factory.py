"""Who does the research of a run, and what becomes of its budget; with a model in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from events import catalog as c
from events.kinds import read_spec
from events.kinds.experiment import ExperimentSpec
from events.kinds.space.data_sets import SHIPPED
from events.testing import ManualClock
from stages.kinds.experiment import pipeline
from stages.kinds.experiment.record.ledger import ClaimState, EffectState, Past, SearchState, state_of
from stages.kinds.experiment.research.researcher_factory import SPENDING, choose_researcher
from stages.models.model import Answer, ModelError, Question, Usage
from stages.pipeline import run_pipeline
from stages.ports import Tools
from stages.ports.checkpoints import Restored
from stages.testing import MemoryCheckpoints, RecordingReporter, make_context, make_tools

CHOICE: dict[str, Any] = {
    "is_testable": True, "reading": "As it stands.", "subject": "momentum", "metric": "nll",
    "direction": "decrease", "data_set": "iris",
    "bound": [
        {"field": "intervention", "words": "Momentum"}, {"field": "direction", "words": "lowers"},
        {"field": "metric", "words": "the nll of a short training"}, {"field": "data", "words": "on iris"},
    ],
}  # fmt: skip
UNREAD = "Momentum lowers the nll of a short training on iris"
READ = "Momentum lowers the nll on iris"
USAGE = Usage(prompt_tokens=90, completion_tokens=10, seconds=0.1)


@dataclass
class Oracle:
    """A model that says what is measured, and then what the test wants."""

    then: Callable[[Question], Answer]
    name: str = "oracle-1"
    instead: Mapping[str, Any] = field(default_factory=dict)  # of what it says of the claim
    asked: list[str] = field(default_factory=list)

    def ask(self, question: Question) -> Answer:
        self.asked.append(question.purpose)
        if question.purpose == "choose":
            return Answer(text=f"```json\n{json.dumps(CHOICE | self.instead)}\n```", usage=USAGE)
        return self.then(question)


def away(question: Question) -> Answer:
    raise ModelError("unreachable", "no connection to the model")


def prose(question: Question) -> Answer:
    return Answer(text="I would rather not.", usage=USAGE)


def experiment(folder: Path, tools: Tools, checkpoints: MemoryCheckpoints, **spec: Any) -> RecordingReporter:
    raw = {"idea": UNREAD, "dataset": "iris", "preset": "quick", "researcher": "model"} | spec
    reporter = RecordingReporter()
    context = make_context(
        read_spec("experiment", raw), folder, reporter=reporter, checkpoints=checkpoints, tools=tools,
        attempt=checkpoints.attempt,
    )  # fmt: skip
    run_pipeline(pipeline.run, context)
    return reporter


def test_a_model_that_goes_away_ends_the_run_by_its_name_and_another_attempt_may_find_it(
    tools: Tools, tmp_path: Path
) -> None:
    oracle = Oracle(away)
    reporter = experiment(tmp_path, replace(tools, model=oracle), MemoryCheckpoints())
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.stage, failure.retryable) == ("MODEL_UNREACHABLE", "Stage_1", True)
    assert "no connection to the model" in failure.message
    assert oracle.asked == ["choose", "draft", "draft", "draft"]


def test_a_model_that_writes_no_programs_ends_the_run_by_another_name(tools: Tools, tmp_path: Path) -> None:
    oracle = Oracle(prose)
    failure = experiment(tmp_path, replace(tools, model=oracle), MemoryCheckpoints()).facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.retryable) == ("NO_PROPOSAL", True)
    assert len(oracle.asked) == 1 + 3 * 3, "three answers to each of three questions"


def test_what_an_attempt_spent_to_its_last_answer_counts_in_the_next(tools: Tools, tmp_path: Path) -> None:
    first, second = Oracle(prose), Oracle(prose)
    checkpoints = MemoryCheckpoints()
    reporter = experiment(tmp_path / "1", replace(tools, model=first), checkpoints, max_tokens=250)
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, first.asked) == ("BUDGET_EXCEEDED", ["choose", "draft", "draft"])
    assert checkpoints.kept[SPENDING].state["tokens"] == 300
    again = MemoryCheckpoints(attempt=2, found=checkpoints.kept)
    reporter = experiment(tmp_path / "2", replace(tools, model=second), again, max_tokens=250)
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, second.asked) == ("BUDGET_EXCEEDED", [])
    assert "300 of 250 tokens" in failure.message


def test_a_claim_that_nobody_can_measure_and_another_pod_left_ends_no_run(
    tools: Tools, tmp_path: Path
) -> None:
    claim = ClaimState("momentum", (EffectState("parameters", "decrease"),), SHIPPED["iris"], None, ())
    left = Restored(1, state_of(SearchState(claim=claim), is_complete=False), {})
    oracle, checkpoints = Oracle(away), MemoryCheckpoints(attempt=2, found={"Stage_1": left})
    reporter = experiment(tmp_path, replace(tools, model=oracle), checkpoints)
    assert any("nobody can count" in each.message for each in reporter.facts if isinstance(each, c.RunLog))
    assert oracle.asked[0] == "choose"
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert failure.code == "MODEL_UNREACHABLE"


def end_of(folder: Path, tools: Tools, oracle: Oracle | None, **spec: Any) -> c.RunFailed:
    failure = experiment(folder, replace(tools, model=oracle), MemoryCheckpoints(), **spec).facts[-1]
    assert isinstance(failure, c.RunFailed)
    return failure


def test_a_claim_that_is_read_by_its_words_costs_no_question(tools: Tools, tmp_path: Path) -> None:
    oracle = Oracle(away)
    assert end_of(tmp_path, tools, oracle, idea=READ).code == "MODEL_UNREACHABLE"
    assert "choose" not in oracle.asked


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ({"bound": CHOICE["bound"][1:]}, "not bound: “momentum”"),
        ({"direction": "increase"}, "“lowers” says the opposite"),
        ({"left_out": ["that the training is short"]}, "leaves out: that the training is short"),
        ({"is_testable": False, "reading": "It is about poems."}, "It is about poems."),
        ({"metric": "bleu"}, "names a metric"),
        ({"subject": " "}, "names no intervention"),
        ({"direction": None}, "names no direction"),
        ({"train_examples": 100_000}, "wants 100000 rows"),
    ],
)
def test_an_idea_that_the_model_does_not_bind_ends_after_one_question(
    tools: Tools, tmp_path: Path, instead: Mapping[str, Any], said: str
) -> None:
    oracle = Oracle(away, instead=instead)
    failure = end_of(tmp_path, tools, oracle)
    assert (failure.code, failure.retryable, oracle.asked) == ("NOT_MEASURABLE", False, ["choose"])
    assert said in failure.message


@pytest.mark.parametrize("researcher", [None, "built_in"])
def test_without_a_wish_for_the_model_an_idea_that_is_not_read_is_not_asked_about(
    tools: Tools, tmp_path: Path, researcher: str | None
) -> None:
    oracle = Oracle(away)
    failure = end_of(tmp_path, tools, oracle, researcher=researcher)
    assert (failure.code, oracle.asked) == ("NOT_MEASURABLE", [])
    assert "“short training”" in failure.message


def test_a_pod_without_a_model_leaves_an_idea_that_only_a_model_may_read_to_another_one(
    tmp_path: Path,
) -> None:
    failure = end_of(tmp_path, make_tools(), None)
    assert (failure.code, failure.retryable) == ("NO_MODEL", True)
    assert "“short training”" in failure.message


def test_what_only_the_programs_of_a_model_could_tell_is_measured_by_the_built_in_researcher(
    tools: Tools, tmp_path: Path
) -> None:
    oracle = Oracle(away)
    failure = end_of(tmp_path, tools, oracle, idea="Wider networks have more parameters on iris")
    assert (failure.code, oracle.asked) == ("NOT_MEASURABLE", [])
    assert "researcher: built_in" in failure.message


def spending(
    folder: Path, found: Mapping[str, Restored], clock: ManualClock, **spec: Any
) -> MemoryCheckpoints:
    """Let ten minutes of a pod pass that costs 6 USD an hour; return what is kept of it."""
    checkpoints = MemoryCheckpoints(found=found)
    raw = {"idea": "Dropout improves accuracy on iris", "preset": "quick"} | spec
    context = make_context(
        read_spec("experiment", raw), folder, checkpoints=checkpoints, clock=clock,
        tools=make_tools(pod_usd_per_hour=6.0),
    )  # fmt: skip
    assert isinstance(context.spec, ExperimentSpec)
    chosen = choose_researcher(context, context.spec, None, 20, Past(context))
    clock.advance(600.0)
    chosen.spending.check()
    return checkpoints


def test_the_pods_time_is_remembered_without_a_model_too(tmp_path: Path) -> None:
    clock = ManualClock()
    first = spending(tmp_path, {}, clock, max_cost_usd=10.0)
    second = spending(tmp_path, first.kept, clock, max_cost_usd=10.0)
    assert [each.kept[SPENDING].state["pod_usd"] for each in (first, second)] == [1.0, 2.0]
    assert spending(tmp_path, {}, clock).kept == {}, "without a limit nothing is held against it"
