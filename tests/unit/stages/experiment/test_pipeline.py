"""The whole experiment in memory, at a tiny budget: real training, real plots, a real PDF."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from events import catalog as c
from events.clock import SystemClock
from events.runs import read_spec
from stages.context import Context
from stages.experiment import pipeline, search
from stages.experiment.data import Sealed
from stages.experiment.trial import Diverged
from stages.pipeline import run_pipeline
from stages.testing import MemoryCheckpoints, RecordingReporter

pytestmark = pytest.mark.timeout(240)
TINY = {"Stage_1": 1, "Stage_2": 1, "Stage_3": 2, "Stage_4": 2}
STAGES = ["Stage_1", "Stage_2", "Stage_3", "Stage_4", "validation", "plots", "paper"]


def experiment(
    folder: Path,
    idea: Any = "Dropout improves accuracy on iris",
    *,
    checkpoints: MemoryCheckpoints | None = None,
    reporter: RecordingReporter | None = None,
    **spec: Any,
) -> RecordingReporter:
    checkpoints = checkpoints or MemoryCheckpoints()
    reporter = reporter or RecordingReporter()
    raw = {"idea": idea, "preset": "quick", "nodes": TINY, **spec}
    context = Context(
        run_id="01K00000000000000000000001", attempt=checkpoints.attempt,
        spec=read_spec("experiment", raw), workspace=folder, clock=SystemClock(), reporter=reporter,
        checkpoints=checkpoints,
    )  # fmt: skip
    run_pipeline(pipeline.run, context)
    return reporter


def text_of(reporter: RecordingReporter) -> str:
    (paper,) = [kept for kept in reporter.files if kept.name.endswith(".pdf")]
    return " ".join(page.extract_text() for page in PdfReader(paper.path).pages)


def numbers_of(reporter: RecordingReporter) -> list[Any]:
    nodes = [(node.node, node.metric) for node in reporter.of(c.NodeCompleted)]
    (verdict,) = reporter.of(c.ValidationAutoCompleted)
    scores = {name: value for name, value in verdict.scores.items() if name != "means"}
    return [nodes, verdict.verdict, scores]


def test_the_same_seed_gives_the_same_numbers_and_a_paper_that_says_them(tmp_path: Path) -> None:
    one, two = (experiment(tmp_path / name, seed=3) for name in ("one", "two"))
    assert isinstance(one.facts[-1], c.RunCompleted), one.facts[-1]
    assert numbers_of(one) == numbers_of(two)
    assert [fact.stage for fact in one.of(c.StageStarted)] == STAGES
    assert [fact.stage for fact in one.of(c.StageCompleted)] == STAGES
    (verdict,) = one.of(c.ValidationAutoCompleted)
    said = text_of(one).replace("−", "-").replace("\n", " ")
    assert ("Supported." if verdict.verdict == "pass" else "Refuted.") in said
    for value in (*verdict.scores["baseline"], *verdict.scores["intervention"], verdict.scores["ci_low"]):
        assert f"{abs(value):.4f}" in said
    for node in one.of(c.NodeCompleted):
        assert f"{node.metric:.4f}" in said
    for number in re.findall(r"metric of (\d\.\d{4})", said):
        assert float(number) in [round(node.metric, 4) for node in one.of(c.NodeCompleted) if node.metric]
    names = {kept.name for kept in one.files}
    assert {"paper/paper.pdf", "paper/paper.typ", "paper/results.json"} <= names
    assert {name.removesuffix(".png") for name in names if name.endswith(".png")} == {
        name.removesuffix(".csv") for name in names if name.endswith(".csv")
    }


def test_another_seed_gives_other_numbers(tmp_path: Path) -> None:
    one, two = (experiment(tmp_path / str(seed), seed=seed) for seed in (1, 2))
    assert numbers_of(one) != numbers_of(two)


def test_test_data_stay_sealed_until_the_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reporter_of: list[int] = []
    opened = Sealed.open

    def watched(sealed: Sealed) -> Any:
        reporter_of.append(1)
        return opened(sealed)

    def never(*_: Any, **__: Any) -> Any:
        assert not reporter_of, "the search ran after the test data were opened"
        return trial(*_, **__)

    trial = search.run_trial
    monkeypatch.setattr(Sealed, "open", watched)
    monkeypatch.setattr(search, "run_trial", never)
    assert isinstance(experiment(tmp_path).facts[-1], c.RunCompleted)
    assert reporter_of == [1]


def test_a_node_that_diverges_is_buggy_and_not_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, calls = search.run_trial, []

    def first_diverges(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise Diverged("the loss is not a number")
        return trial(*arguments, **named)

    monkeypatch.setattr(search, "run_trial", first_diverges)
    reporter = experiment(tmp_path, nodes={**TINY, "Stage_1": 3})
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    first = reporter.of(c.NodeCompleted)[0]
    assert first.buggy
    assert "not a number" in (first.error or "")


def test_all_nodes_buggy_has_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges(*_: Any, **__: Any) -> Any:
        raise Diverged("the loss is not a number")

    monkeypatch.setattr(search, "run_trial", diverges)
    failure = experiment(tmp_path).facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.stage, failure.retryable) == ("ALL_NODES_BUGGY", "Stage_1", False)


def test_memory_that_runs_out_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(search, "run_trial", out_of_memory)
    failure = experiment(tmp_path).facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert failure.code == "OUT_OF_MEMORY"


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = (
        'Dropout #import "x" $a_b$ @cite <label> *bold* `raw` \\u{41} // "q" improves accuracy on iris '
        + "Ω" * 300
    )
    reporter = experiment(tmp_path, {"Title": "#panic() $x$ *t*", "Short Hypothesis": hostile})
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    assert "#panic() $x$ *t*" in text_of(reporter)
    results = next(kept for kept in reporter.files if kept.name.endswith("results.json"))
    assert json.loads(results.path.read_text())["idea"]["Short Hypothesis"] == hostile
