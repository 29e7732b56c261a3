"""Who listens to a run, so that its paper can be held against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from events.catalog import StageMetric
from events.kinds.declaring.fact import Fact
from events.kinds.experiment import NodeCompleted, NodeCreated, NodeExecuting, NodeRestored, NodeSelectedBest
from stages.kinds.experiment.paper import recorder as module
from stages.kinds.experiment.paper.recorder import Recorder
from stages.kinds.experiment.record.numbers import METRIC_SAID, NODE_BIRTH, NODE_CHOICE, NODE_RESULT, Source

METRIC = StageMetric(stage="paper", name="run.seed", value=3.0)
BORN = NodeCreated(
    stage="Stage_1", node="Stage_1/1", plan="a plan", parent=None, params={"lr": 0.1, "on": True, "a": [1]}
)
DONE = NodeCompleted(
    stage="Stage_1", node="Stage_1/1", buggy=False, seconds=1.0, metric=0.9, scores={"nll": 0.4}
)


class Heard:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.files: list[tuple[Any, ...]] = []

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)

    def made(self, path: Path, *, name: str, content_type: str, stage: str | None) -> None:
        self.files.append((path, name, content_type, stage))


def test_everything_is_passed_on_unchanged_and_at_once() -> None:
    heard = Heard()
    witness = Recorder(heard)
    facts: list[Fact] = [METRIC, BORN, NodeExecuting(stage="Stage_1", node="Stage_1/1"), DONE, METRIC]
    for number, fact in enumerate(facts, start=1):
        witness.say(fact)
        assert len(heard.facts) == number
        assert heard.facts[-1] is fact
    witness.made(Path("a"), name="b", content_type="text/plain", stage=None)
    assert heard.files == [(Path("a"), "b", "text/plain", None)]


def test_each_value_that_was_said_is_found_again() -> None:
    witness = Recorder(Heard())
    for fact in (METRIC, BORN, DONE, NodeSelectedBest(stage="Stage_1", node="Stage_1/1", reason="the best")):
        witness.say(fact)
    node = ("Stage_1", "Stage_1/1")
    assert witness.heard(Source(METRIC_SAID, "paper", "run.seed")) == 3.0
    assert witness.heard(Source(NODE_BIRTH, *node, "plan")) == "a plan"
    assert witness.heard(Source(NODE_BIRTH, *node, "params.on")) is True
    assert witness.heard(Source(NODE_BIRTH, *node, "params.a")) is None
    assert witness.heard(Source(NODE_RESULT, *node, "scores.nll")) == 0.4
    assert witness.heard(Source(NODE_CHOICE, *node, "reason")) == "the best"
    assert witness.nodes() == {"Stage_1/1"}


def test_a_node_taken_from_a_checkpoint_counts_as_said() -> None:
    witness = Recorder(Heard())
    witness.say(
        NodeRestored(
            stage="Stage_1", node="Stage_1/1", from_attempt=1, plan="a plan", params={"lr": 0.1}, code="",
            buggy=True, seconds=1.0, error="it failed",
        )
    )  # fmt: skip
    assert witness.heard(Source(NODE_BIRTH, "Stage_1", "Stage_1/1", "params.lr")) == 0.1
    assert witness.heard(Source(NODE_RESULT, "Stage_1", "Stage_1/1", "error")) == "it failed"
    assert witness.nodes() == {"Stage_1/1"}


def test_what_was_said_twice_differently_proves_nothing_from_then_on() -> None:
    witness = Recorder(Heard())
    source = Source(METRIC_SAID, "paper", "run.seed")
    witness.say(METRIC)
    assert witness.has_heard(METRIC)
    witness.say(StageMetric(stage="paper", name="run.seed", value=4.0))
    assert witness.heard(source) is None
    witness.say(METRIC)
    assert witness.heard(source) is None


def test_only_exactly_what_was_said_counts_as_heard() -> None:
    witness = Recorder(Heard())
    witness.say(METRIC)
    assert not witness.has_heard(StageMetric(stage="paper", name="run.seed", value=3.5))
    assert not witness.has_heard(StageMetric(stage="paper", name="run.seed", value=3.0, step=1))
    assert not witness.has_heard(NodeExecuting(stage="Stage_1", node="Stage_1/1"))


def test_memory_is_bounded_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTS_MAX", 3)
    witness = Recorder(Heard())
    for step in range(1, 6):
        witness.say(StageMetric(stage="s", name="m", value=float(step), step=step))
    heard = [witness.heard(Source(METRIC_SAID, "s", "m", step=step)) for step in range(1, 6)]
    assert heard == [None, None, 3.0, 4.0, 5.0]
