"""The whole experiment in memory, at a tiny budget: real training, real plots, a real PDF."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from pypdf import PdfReader

from events import catalog as c
from events.runs import STAGES, read_spec
from stages.experiment import pipeline
from stages.experiment.data import Sealed
from stages.experiment.trial import Bench
from stages.pipeline import run_pipeline
from stages.ports import Tools
from stages.sandbox import Ended, Isolation, Job
from stages.testing import MemoryCheckpoints, RecordingReporter, make_context, make_tools

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("small_pictures")]
TINY = {"Stage_1": 1, "Stage_2": 1, "Stage_3": 2, "Stage_4": 2}
ORDER = list(STAGES["experiment"])


def experiment(
    folder: Path,
    tools: Tools,
    idea: Any = "Dropout improves accuracy on iris",
    *,
    checkpoints: MemoryCheckpoints | None = None,
    reporter: RecordingReporter | None = None,
    **spec: Any,
) -> RecordingReporter:
    reporter = reporter or RecordingReporter()
    raw = {"idea": idea, "preset": "quick", "nodes": TINY, **spec}
    context = make_context(
        read_spec("experiment", raw), folder, reporter=reporter, checkpoints=checkpoints, tools=tools
    )
    run_pipeline(pipeline.run, context)
    return reporter


def text_of(reporter: RecordingReporter) -> str:
    (paper,) = [kept for kept in reporter.files if kept.name == "paper/paper.pdf"]
    return " ".join(page.extract_text() for page in PdfReader(paper.path).pages)


def numbers_of(reporter: RecordingReporter) -> list[Any]:
    # of a round, whoever is done first says so first
    nodes = sorted((node.node, node.metric) for node in reporter.of(c.NodeCompleted))
    (verdict,) = reporter.of(c.ValidationAutoCompleted)
    scores = {name: value for name, value in verdict.scores.items() if name != "means"}
    return [nodes, verdict.verdict, scores]


def test_the_same_seed_gives_the_same_numbers_and_a_paper_that_says_them(
    tools: Tools, tmp_path: Path
) -> None:
    one, two = (experiment(tmp_path / name, tools, seed=3) for name in ("one", "two"))
    assert isinstance(one.facts[-1], c.RunCompleted), one.facts[-1]
    assert numbers_of(one) == numbers_of(two)
    assert [fact.stage for fact in one.of(c.StageStarted)] == ORDER
    assert [fact.stage for fact in one.of(c.StageCompleted)] == ORDER
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
    assert {"paper/paper.pdf", "paper/paper.tex", "paper/results.json", "tree.json"} <= names
    assert {name.removesuffix(".png") for name in names if name.endswith(".png")} == {
        name.removesuffix(".csv") for name in names if name.endswith(".csv")
    }


def test_another_seed_gives_other_numbers(tools: Tools, tmp_path: Path) -> None:
    one, two = (experiment(tmp_path / str(seed), tools, seed=seed) for seed in (1, 2))
    assert numbers_of(one) != numbers_of(two)


def test_test_data_stay_sealed_until_the_validation(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    order: list[str] = []
    open_sealed, run_bench = Sealed.open, Bench.run

    def watched(sealed: Sealed) -> Any:
        opened.append("opened")
        return open_sealed(sealed)

    def noted(bench: Bench, code: str, **named: Any) -> Any:
        order.append("after" if opened else "before")
        lying = {path.name for path in named["folder"].parents[2].rglob("*.npy")}
        assert opened or "test.npy" not in lying, "test data lay about while the search ran"
        return run_bench(bench, code, **named)

    monkeypatch.setattr(Sealed, "open", watched)
    monkeypatch.setattr(Bench, "run", noted)
    reporter = experiment(tmp_path, tools)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    assert opened == ["opened"]
    assert order == sorted(order, reverse=True), "the search ran after the test data were opened"


class Spoiling:
    """A sandbox that ends some jobs in its own way, and leaves the others to a real one."""

    def __init__(self, inner: Any, spoils: Callable[[int], Ended | None]) -> None:
        self.inner, self.spoils, self.count = inner, spoils, 0

    def isolation(self) -> Isolation:
        return Isolation(self.inner.isolation().name)

    def run(self, job: Job) -> Ended:
        self.count += 1
        return self.spoils(self.count) or self.inner.run(job)


def killed(number: int) -> Ended:
    return Ended(how="out_of_memory", seconds=0.1, message=f"job {number} wanted more memory than there is")


def test_a_node_whose_process_dies_is_buggy_and_not_fatal(tools: Tools, tmp_path: Path) -> None:
    spoiling = Spoiling(tools.sandbox, lambda number: killed(number) if number == 1 else None)
    reporter = experiment(tmp_path, make_tools(spoiling, slots=1), nodes={**TINY, "Stage_1": 3})
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    first = reporter.of(c.NodeCompleted)[0]
    assert first.buggy
    assert "more memory" in (first.error or "")


def test_all_nodes_buggy_has_its_code_and_keeps_the_tree(tools: Tools, tmp_path: Path) -> None:
    reporter = experiment(tmp_path, make_tools(Spoiling(tools.sandbox, killed)))
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.stage, failure.retryable) == ("ALL_NODES_BUGGY", "Stage_1", False)
    (kept,) = [each for each in reporter.files if each.name == "tree.json"]
    (stage,) = json.loads(kept.path.read_text())
    assert [node["buggy"] for node in stage["nodes"]] == [True]
    assert "def run(task" in stage["nodes"][0]["code"]


class SpoilingStages:
    """A sandbox in which no program that some stages try comes to its end."""

    def __init__(self, inner: Any, *stages: str) -> None:
        self.inner, self.stages = inner, stages

    def isolation(self) -> Isolation:
        return Isolation(self.inner.isolation().name)

    def run(self, job: Job) -> Ended:
        is_spoilt = job.folder.name == "tried" and job.folder.parent.parent.name in self.stages
        return killed(0) if is_spoilt else self.inner.run(job)


def test_tuning_and_ablations_of_which_nothing_works_cost_the_run_nothing_else(
    tools: Tools, tmp_path: Path
) -> None:
    sandbox = SpoilingStages(tools.sandbox, "Stage_2", "Stage_4")
    reporter = experiment(tmp_path, make_tools(sandbox))
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    chosen = {each.stage: each for each in reporter.of(c.NodeSelectedBest)}
    assert chosen["Stage_2"].node.startswith("Stage_1/")
    assert chosen["Stage_4"].node == chosen["Stage_3"].node
    assert [each.buggy for each in reporter.of(c.NodeCompleted) if each.stage in sandbox.stages] == [True] * 3
    assert "Ablations" in text_of(reporter)


def test_an_intervention_that_never_works_ends_the_run(tools: Tools, tmp_path: Path) -> None:
    reporter = experiment(tmp_path, make_tools(SpoilingStages(tools.sandbox, "Stage_3")))
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.stage) == ("ALL_NODES_BUGGY", "Stage_3")


def test_hostile_text_stays_text(tools: Tools, tmp_path: Path) -> None:
    hostile = (
        'Dropout #import "x" $a_b$ @cite <label> *bold* `raw` \\u{41} // "q" improves accuracy on iris '
        + "Ω" * 300
    )
    reporter = experiment(tmp_path, tools, {"Title": "#panic() $x$ *t*", "Short Hypothesis": hostile})
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    assert "#panic() $x$ *t*" in text_of(reporter)
    results = next(kept for kept in reporter.files if kept.name.endswith("results.json"))
    assert json.loads(results.path.read_text())["idea"]["Short Hypothesis"] == hostile


def test_a_file_that_only_the_idea_names_is_the_data_or_the_run_says_that_it_is_not_there(
    tmp_path: Path,
) -> None:
    reporter = experiment(tmp_path, make_tools(), "Dropout improves accuracy on no/such/houses.csv#price")
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, "'no/such/houses.csv' was not found" in failure.message) == ("CONFIG", True)


def test_a_pod_that_cannot_write_papers_says_so_before_it_searches(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no latexmk
    monkeypatch.setattr("typst.query", broken)
    reporter = experiment(tmp_path, tools)
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.retryable) == ("CONFIG", False)
    assert "latexmk is not installed" in failure.message
    assert "pandoc and typst is installed and does not work" in failure.message
    assert "Install podfleet[experiment]" in failure.message
    assert not reporter.of(c.StageStarted)
    assert not reporter.of(c.NodeCreated)


def broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("no fonts")


def write_npz(path: Path) -> str:
    """Write numbers to predict a number from, one column of them, and return how a run names it."""
    chance = np.random.default_rng(4)
    features = chance.normal(size=(120, 3))
    np.savez(path, X=features, y=features @ [2.0, -1.0, 0.0] + chance.normal(size=120))
    return path.name


def write_parquet(path: Path) -> str:
    """Write a table with gaps, words and truths, and return how a run names it and its target."""
    chance = np.random.default_rng(4)
    sizes = chance.normal(size=120)
    columns = {
        "size": [None if place % 9 == 0 else size for place, size in enumerate(sizes)],
        "town": [["Oslo", "Bergen", None][place % 3] for place in range(120)],
        "new": [place % 5 == 0 for place in range(120)],
        "kind": ["large" if size > 0 else "small" for size in sizes],
    }
    parquet.write_table(arrow.table(columns), path)
    return f"{path.name}#kind"


@pytest.mark.parametrize(
    ("name", "write", "idea", "metric", "said"),
    [
        ("lines.npz", write_npz, "Weight decay reduces the RMSE", "rmse", []),
        (
            "houses.parquet",
            write_parquet,
            "Dropout improves accuracy",
            "accuracy",
            ["Missing values were marked by an indicator", "it is predicted as a class"],
        ),
    ],
)
def test_a_table_of_ones_own_goes_through_the_whole_experiment(
    tools: Tools,
    tmp_path: Path,
    name: str,
    write: Callable[[Path], str],
    idea: str,
    metric: str,
    said: list[str],
) -> None:
    (tmp_path / "tables").mkdir()
    dataset = write(tmp_path / "tables" / name)
    mine = replace(tools, data_sets=(tmp_path / "tables",))
    reporter = experiment(tmp_path / "run", mine, idea, dataset=dataset)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    (verdict,) = reporter.of(c.ValidationAutoCompleted)
    assert verdict.scores["metric"] == metric
    assert verdict.scores["numbers_untraced"] == []
    text = " ".join(text_of(reporter).split())
    assert Path(name).stem in text
    told = " ".join(each.message for each in reporter.of(c.RunLog))
    for words in said:
        assert words in text, "the paper tells what was done to the data"
        assert words in told
