"""The whole experiment in memory, at a tiny budget: real training, real plots, a real PDF."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from pypdf import PdfReader

from events import catalog as c
from events.kinds import read_spec
from events.kinds.experiment import STAGES, ClaimRegistered, NodeCompleted, NodeCreated, NodeSelectedBest
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.effect import Effect
from events.kinds.space.metrics import METRICS
from events.lifecycle import Fault
from events.queue.faults import blame_of
from stages.context import Stage
from stages.isolation.sandbox import Ended, How, Isolation, Job
from stages.kinds.experiment import pipeline
from stages.kinds.experiment.data.loading import Sealed
from stages.kinds.experiment.judging.replication import PURPOSE
from stages.kinds.experiment.record.ledger import Measured
from stages.kinds.experiment.record.record import arms_with_switch
from stages.kinds.experiment.statistics.estimate import LEVEL
from stages.kinds.experiment.statistics.guards import WORSE
from stages.kinds.experiment.statistics.looks import looks_of
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.validation import Reading, Registration
from stages.kinds.experiment.steps import validating
from stages.kinds.experiment.testing import make_node
from stages.kinds.experiment.trials.trial import Bench
from stages.pipeline import run_pipeline
from stages.ports import Tools
from stages.testing import MemoryCheckpoints, RecordingReporter, make_context, make_tools

pytestmark = pytest.mark.usefixtures("small_pictures", "short_trainings")
TINY = {"Stage_1": 1, "Stage_2": 1, "Stage_4": 2}
ORDER = list(STAGES)


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
    nodes = sorted((node.node, node.metric) for node in reporter.of(NodeCompleted))
    (verdict,) = reporter.of(c.ValidationAutoCompleted)
    scores = {name: value for name, value in verdict.scores.items() if name != "means"}
    return [nodes, verdict.verdict, scores]


@dataclass
class Watched:
    """A whole experiment; for each of its `runs` whether it was of the validation, and what it was shown.

    `together` counts the seeds of each execution of the validation.
    """

    reporter: RecordingReporter
    opened: list[str] = field(default_factory=list)
    runs: list[tuple[bool, set[str], Path]] = field(default_factory=list)
    together: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def whole(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, small_pictures: None, short_trainings: None
) -> Watched:
    """An experiment that nothing disturbed, from the seed 3."""
    seen = Watched(RecordingReporter())
    open_sealed, run_bench, place = Sealed.open, Bench.run, tmp_path_factory.mktemp("whole")

    def watched(sealed: Sealed) -> Any:
        seen.opened.append("opened")
        return open_sealed(sealed)

    def noted(bench: Bench, code: str, **named: Any) -> Any:
        # what an experiment of another test left running may come as well
        if named["folder"].is_relative_to(place):
            shown = {path.name for path in bench.data.parent.iterdir()}
            is_validation = named["folder"].parent.name == "validation"
            seen.runs.append((is_validation, shown, bench.data.parent))
            seen.together += [len(named["seeds"])] if is_validation else []
        return run_bench(bench, code, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sealed, "open", watched)
        patch.setattr(Bench, "run", noted)
        experiment(place, tools, seed=3, reporter=seen.reporter)
    assert isinstance(seen.reporter.facts[-1], c.RunCompleted), seen.reporter.facts[-1]
    return seen


HOSTILE = (
    'Dropout #import "x" $a_b$ @cite <label> *bold* `raw` \\u{41} // "q" improves accuracy on iris '
    + "Ω" * 300
)


@pytest.fixture(scope="module")
def hostile(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, small_pictures: None, short_trainings: None
) -> RecordingReporter:
    """The same claim with hostile words beside it, from the same seed."""
    idea = {
        "Title": HOSTILE,
        "Abstract": HOSTILE,
        "Short Hypothesis": 'DROPOUT `improves` *accuracy* on "iris"!',
    }
    reporter = experiment(tmp_path_factory.mktemp("hostile"), tools, idea, seed=3)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    return reporter


def test_the_same_seed_gives_the_same_numbers(whole: Watched, hostile: RecordingReporter) -> None:
    assert numbers_of(whole.reporter) == numbers_of(hostile)


def test_nodes_finalists_seeds_and_verdict_are_results_that_equal_the_events(whole: Watched) -> None:
    rows = whole.reporter.of(c.ResultRecorded)
    of_set = {
        name: {each.key: each for each in rows if each.set == name} for name in {each.set for each in rows}
    }
    said = {each.node: each for each in whole.reporter.of(NodeCompleted)}
    assert {key: each.values["metric"] for key, each in of_set["nodes"].items()} == {
        key: each.metric for key, each in said.items()
    }
    (verdict,) = whole.reporter.of(c.ValidationAutoCompleted)
    seeds = [each.values["seed"] for each in of_set["seeds"].values()]
    assert seeds == verdict.scores["seeds"]
    differences = [each.values["difference"] for each in of_set["seeds"].values()]
    assert differences == verdict.scores["differences"]
    (judged,) = of_set["verdicts"].values()
    assert judged.values["effect"] == verdict.scores["mean_difference"]
    headline = {
        name: value for each in whole.reporter.of(c.RunSummarized) for name, value in each.values.items()
    }
    assert headline["effect"] == verdict.scores["mean_difference"]
    assert (headline["conclusion"], headline["nodes"]) == (verdict.conclusion, len(said))


def test_the_best_node_is_named_with_its_arm_while_the_search_goes_on_and_at_its_end(whole: Watched) -> None:
    one = whole.reporter
    arms = {fact.stage: fact.arm for fact in one.of(NodeSelectedBest) if fact.node.startswith(fact.stage)}
    assert (arms["Stage_1"], arms["Stage_3"]) == ("baseline", "intervention")
    said = [(each.stage, each.activity or "") for each in one.of(c.StageProgress)]
    words = {"Stage_1": "best baseline", "Stage_3": "best with the intervention", "Stage_4": "best ablation"}
    for stage, best in words.items():
        told = [activity for where, activity in said if where == stage and "; best" in activity]
        assert told
        assert all(f"; {best}" in each and f" is {stage}/" in each for each in told)
    names = {each.name for each in one.of(c.StageMetric) if each.name.startswith("best_")}
    assert names == {
        "best_baseline_accuracy", "best_intervention_accuracy", "best_train_loss", "best_validation_loss"
    }  # fmt: skip


def test_the_chosen_program_is_tried_again_before_its_ablations(whole: Watched) -> None:
    created = {each.node: each for each in whole.reporter.of(NodeCreated)}
    again, without = created["Stage_4/1"], created["Stage_4/2"]
    assert (again.arm, without.arm) == ("intervention", "baseline")
    assert again.parent == without.parent
    assert again.params == created[again.parent or ""].params


def test_the_paper_says_the_numbers(whole: Watched) -> None:
    one = whole.reporter
    assert [fact.stage for fact in one.of(c.StageStarted)] == ORDER
    assert [fact.stage for fact in one.of(c.StageCompleted)] == ORDER
    (verdict,) = one.of(c.ValidationAutoCompleted)
    said = text_of(one).replace("−", "-").replace("\n", " ")
    assert f"{(verdict.conclusion or '').capitalize()}." in said
    for value in (*verdict.scores["baseline"], *verdict.scores["intervention"], verdict.scores["ci_low"]):
        assert f"{abs(value):.4f}" in said
    for node in one.of(NodeCompleted):
        assert f"{node.metric:.4f}" in said
    for number in re.findall(r"metric of (\d\.\d{4})", said):
        assert float(number) in [round(node.metric, 4) for node in one.of(NodeCompleted) if node.metric]
    names = {kept.name for kept in one.files}
    assert {"paper/paper.pdf", "paper/paper.tex", "paper/results.json", "tree.json"} <= names
    assert {name.removesuffix(".png") for name in names if name.endswith(".png")} == {
        name.removesuffix(".csv") for name in names if name.endswith(".csv")
    }


def test_no_program_is_shown_whether_validation_or_test_judges_it(whole: Watched) -> None:
    assert {is_validation for is_validation, _, _ in whole.runs} == {True, False}
    assert [shown for _, shown, _ in whole.runs] == [{"data.npz", "judge.npy"}] * len(whole.runs)
    of_search = {folder for is_validation, _, folder in whole.runs if not is_validation}
    of_units = [folder for is_validation, _, folder in whole.runs if is_validation]
    assert len(of_search) == 1
    assert len({*of_units} - of_search) == len(of_units), "each unit lies in a folder of its own"
    names = {folder.name for folder in (*of_search, *of_units)}
    assert {len(name) for name in names} == {16}, "whose name says nothing"


def test_how_the_claim_will_be_judged_is_registered_before_its_intervention_is_tried(whole: Watched) -> None:
    facts = whole.reporter.facts
    (said,) = whole.reporter.of(ClaimRegistered)
    (begun,) = [
        place for place, each in enumerate(facts) if each == c.StageStarted(stage="Stage_3", index=3, total=8)
    ]
    assert facts.index(said) < begun
    assert (said.metric, said.above, said.below) == ("accuracy", 0.0, None)
    assert (said.units, said.rows, said.test_rows, said.level) == (10, 150, 45, LEVEL)
    (verdict,) = whole.reporter.of(c.ValidationAutoCompleted)
    assert verdict.scores["units_registered"] == len(verdict.scores["differences"]) == said.units
    assert (verdict.verdict == "pass") == (verdict.conclusion == "supported")


def test_each_claim_of_a_sentence_is_registered_judged_and_told(tools: Tools, tmp_path: Path) -> None:
    idea = "Dropout does not raise the loss on iris by more than 9 but lowers accuracy by at least 90 points"
    reporter = experiment(tmp_path, tools, idea, seed=3)
    one, other = reporter.of(ClaimRegistered)
    assert (one.metric, one.claimed, one.above, one.below) == ("nll", "not_inferior", None, 9.0)
    assert (other.metric, other.claimed, other.above, other.below) == ("accuracy", "superior", None, -0.9)
    assert "corrected for 2 claims" in one.test
    assert other.seen_at_worst is None or 0 < other.seen_at_worst < 1
    assert other.seen_at_best is None, "finalists are ranked by the first measure"
    (verdict,) = reporter.of(c.ValidationAutoCompleted)
    assert [each["metric"] for each in verdict.scores["claims"]] == ["nll", "accuracy"]
    assert [each["conclusion"] for each in verdict.scores["claims"]] == ["supported", "contradicted"]
    assert verdict.conclusion == "contradicted"
    assert verdict.scores["numbers_untraced"] == []
    assert verdict.summary.startswith("2 claims, together contradicted. Supported: Over 10 units")
    text = " ".join(text_of(reporter).split())
    assert "All together the claim is contradicted" in text
    assert "does not become higher by 9 or more, and the accuracy becomes lower by at least 90 points" in text


class Losing:
    """A sandbox of a machine that loses the first jobs of some stages; the others a real one does."""

    def __init__(self, inner: Any, losses: int, how: How, stages: Sequence[str]) -> None:
        self.inner, self.how, self.left = inner, how, dict.fromkeys(stages, losses)

    def isolation(self) -> Isolation:
        return Isolation(self.inner.isolation().name)

    def run(self, job: Job) -> Ended:
        for stage in self.left:
            if stage in NOW.folder.parts and self.left[stage]:
                self.left[stage] -= 1
                return Ended(how=self.how, seconds=0.0, message="there is no room on this machine")
        ended: Ended = self.inner.run(job)
        return ended


@pytest.mark.parametrize(
    ("losses", "how", "stages"),
    [(1, "lost", ["Stage_1", "validation"]), (99, "not_started", ["validation"]), (99, "lost", ["Stage_1"])],
)
def test_what_the_machine_lost_is_run_again_and_is_no_score_and_no_bug(
    tools: Tools, tmp_path: Path, losses: int, how: How, stages: list[str]
) -> None:
    lacking = replace(tools, sandbox=Losing(tools.sandbox, losses, how, stages))
    reporter = experiment(tmp_path, lacking, seed=3)
    end = reporter.facts[-1]
    assert not [each for each in reporter.of(NodeCompleted) if "no room" in (each.error or "")]
    if losses > 1:
        assert isinstance(end, c.RunFailed), end
        assert blame_of(end.code).fault is Fault.POD
        assert "this pod lost a program 2 times: there is no room" in end.message
        return
    assert isinstance(end, c.RunCompleted), end
    (verdict,) = reporter.of(c.ValidationAutoCompleted)
    assert verdict.scores["failed"] == {"baseline": 0, "intervention": 0}


def test_each_unit_that_decides_has_a_process_of_its_own(whole: Watched) -> None:
    (verdict,) = whole.reporter.of(c.ValidationAutoCompleted)
    assert whole.together == [1] * 2 * len(verdict.scores["seeds"])


NOW = threading.local()


@pytest.fixture(autouse=True, scope="module")
def executions_are_named() -> Iterator[None]:
    """Let sandboxes know by which name we call an execution; programs are not told."""
    run_bench = Bench.run

    def named(bench: Bench, code: str, **how: Any) -> Any:
        NOW.folder = how["folder"]
        return run_bench(bench, code, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "run", named)
        yield


class Spoiling:
    """A sandbox that ends some jobs, known by number and folder, and leaves the others to a real one."""

    def __init__(self, inner: Any, spoils: Callable[[int, Path], bool]) -> None:
        self.inner, self.spoils, self.count = inner, spoils, 0

    def isolation(self) -> Isolation:
        return Isolation(self.inner.isolation().name)

    def run(self, job: Job) -> Ended:
        self.count += 1
        return killed(self.count) if self.spoils(self.count, NOW.folder) else self.inner.run(job)


def killed(number: int) -> Ended:
    return Ended(how="out_of_memory", seconds=0.1, message=f"job {number} wanted more memory than there is")


def is_tried_in(folder: Path, *stages: str) -> bool:
    """Return whether a program lies there that one of these stages tries."""
    return folder.name == "tried" and folder.parent.parent.name in stages


@pytest.fixture(scope="module")
def spoilt(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, small_pictures: None, short_trainings: None
) -> RecordingReporter:
    """An experiment of which the first program dies, and each that is tried for tuning and for ablations."""
    sandbox = Spoiling(
        tools.sandbox, lambda number, folder: number == 1 or is_tried_in(folder, "Stage_2", "Stage_4")
    )
    folder = tmp_path_factory.mktemp("spoilt")
    return experiment(folder, make_tools(sandbox, slots=1), nodes={**TINY, "Stage_1": 3})


def test_a_node_whose_process_dies_is_buggy_and_not_fatal(spoilt: RecordingReporter) -> None:
    assert isinstance(spoilt.facts[-1], c.RunCompleted), spoilt.facts[-1]
    first = spoilt.of(NodeCompleted)[0]
    assert first.buggy
    assert "more memory" in (first.error or "")


def test_all_nodes_buggy_has_its_code_and_keeps_the_tree(tools: Tools, tmp_path: Path) -> None:
    reporter = experiment(tmp_path, make_tools(Spoiling(tools.sandbox, lambda *_: True)))
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.stage, failure.retryable) == ("ALL_NODES_BUGGY", "Stage_1", False)
    (kept,) = [each for each in reporter.files if each.name == "tree.json"]
    (stage,) = json.loads(kept.path.read_text())
    assert [node["buggy"] for node in stage["nodes"]] == [True]
    assert "def run(task" in stage["nodes"][0]["code"]


def test_tuning_and_ablations_of_which_nothing_works_cost_the_run_nothing_else(
    spoilt: RecordingReporter,
) -> None:
    assert isinstance(spoilt.facts[-1], c.RunCompleted), spoilt.facts[-1]
    chosen = {each.stage: each for each in spoilt.of(NodeSelectedBest)}
    assert chosen["Stage_2"].node.startswith("Stage_1/")
    assert chosen["Stage_4"].node == chosen["Stage_3"].node
    tried = [each.buggy for each in spoilt.of(NodeCompleted) if each.stage in ("Stage_2", "Stage_4")]
    assert tried == [True] * 3
    assert "Ablations" in text_of(spoilt)


def test_an_intervention_that_never_works_ends_the_run_and_another_seed_gives_other_numbers(
    whole: Watched, tools: Tools, tmp_path: Path
) -> None:
    sandbox = Spoiling(tools.sandbox, lambda _, folder: is_tried_in(folder, "Stage_3"))
    reporter = experiment(tmp_path, make_tools(sandbox), seed=4)
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.stage) == ("ALL_NODES_BUGGY", "Stage_3")
    first, other = (each.of(NodeCompleted)[0] for each in (whole.reporter, reporter))
    assert first.node == other.node == "Stage_1/1"
    assert timeless(first.scores) != timeless(other.scores)


def timeless(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if "seconds" not in name}


def test_hostile_text_stays_text(hostile: RecordingReporter) -> None:
    assert 'DROPOUT `improves` *accuracy* on "iris"!' in text_of(hostile)
    results = next(kept for kept in hostile.files if kept.name.endswith("results.json"))
    assert json.loads(results.path.read_text())["idea"]["Title"] == HOSTILE


def test_a_file_that_only_the_idea_names_is_the_data_or_the_run_says_that_it_is_not_there(
    tmp_path: Path,
) -> None:
    reporter = experiment(
        tmp_path, make_tools(data_sets=(tmp_path,)), "Dropout improves accuracy on no/such/houses.csv#price"
    )
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, "'no/such/houses.csv' was not found" in failure.message) == ("CONFIG", True)


def test_a_pod_that_cannot_write_papers_says_so_before_it_searches(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no latexmk
    monkeypatch.setattr("stages.kinds.experiment.paper.renderer.TYPESET", "raise SystemExit('broken')")
    reporter = experiment(tmp_path, tools)
    failure = reporter.facts[-1]
    assert isinstance(failure, c.RunFailed)
    assert (failure.code, failure.retryable) == ("CONFIG", False)
    assert "latexmk is not installed" in failure.message
    assert "pandoc and typst is installed and does not work" in failure.message
    assert "Install podfleet[experiment]" in failure.message
    assert not reporter.of(c.StageStarted)
    assert not reporter.of(NodeCreated)


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


def test_a_result_of_a_seed_that_no_unit_has_is_not_taken() -> None:
    nothing: Any = None
    plan = Registration(METRICS["ece"], superior("decrease"), 2, rows=150, test_rows=45)
    first = validating.Round(nothing, (nothing, nothing), (3, 4, 7), "validation", (plan,), (1, 1))
    first.take([Measured(0, 3, Reading(None)), Measured(1, 5, Reading(None)), Measured(0, 7, Reading(None))])
    assert {*first.results} == {(0, 3), (0, 7)}, "that of a later look is kept"
    assert first.wanted == [(1, 3), (1, 4), (0, 4)]


@pytest.mark.parametrize(
    ("gain", "resumed", "units", "conclusion"),
    [
        (0.2, 0, [10], "supported"),
        (0.06, 0, [10, 20], "supported"),
        (0.0, 0, [10, 20], "inconclusive"),
        (-0.2, 0, [10], "contradicted"),
        (0.06, 10, [20], "supported"),
        (0.0, 20, [20], "inconclusive"),
    ],
)
def test_more_units_are_measured_only_where_the_first_ones_decide_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    gain: float,
    resumed: int,
    units: Sequence[int],
    conclusion: str,
) -> None:
    """`resumed` units were measured by an earlier attempt."""
    reporter, looked = RecordingReporter(), []
    context = make_context(read_spec("experiment", {"idea": "x"}), tmp_path, reporter=reporter)
    claim = Claim(subject="x", effects=(Effect(METRICS["accuracy"], "increase"),), data=SHIPPED["iris"])

    def fill(_: Any, measured: validating.Round, *__: Any) -> None:
        looked.append(len(measured.seeds))
        for arm, seed in measured.wanted:
            wobble = 0.03 * (-1) ** seed if arm else 0.0
            value = 0.7 + wobble + arm * gain
            measured.results[arm, seed] = Measured(arm, seed, Reading({"accuracy": value}, 0.3), f"{arm}")

    monkeypatch.setattr(validating.Validating, "_measure", fill)
    setup: Any = SimpleNamespace(units=SimpleNamespace(reserve=None))
    run: Any = SimpleNamespace(claim=claim, context=context, researcher=SimpleNamespace(switched=None))
    code = "def run(task):\n    return trained(task.intervention)"
    arms = arms_with_switch(make_node("Stage_3", 1, 0.9, code=code))
    looks = looks_of(2)
    plan = Registration(
        claim.metric, superior("increase"), 10, rows=1500, test_rows=450, level=looks[0].level, looks=looks
    )
    first = validating.Round(setup, arms, tuple(range(20)), "validation", (plan,), (1, 1))
    if resumed:
        all_of_them = replace(first, drawn=first.drawn[:resumed], plans=(replace(plan, units=resumed),))
        fill(None, all_of_them)
        looked.clear()
        first.take([*all_of_them.results.values()])
    judged = validating.Validating(run)
    found = judged._looked_at(judged._at_its_look(first), Stage("validation", context))
    assert looked == units
    verdicts = judged._verdicts(found)
    assert verdicts.conclusion == conclusion
    told = verdicts.scores(claim)
    assert (told["look"], told["looks_registered"], told["n"]) == (len(units) + (resumed > 0), 2, units[-1])
    assert told["level"] == looks[told["look"] - 1].level


@pytest.mark.parametrize("purpose", ["validation", PURPOSE])
def test_a_gain_that_costs_quality_is_turned_down_in_the_validation_of_a_run_and_in_its_replication(
    tmp_path: Path, purpose: str
) -> None:
    seeds, reporter = tuple(range(10)), RecordingReporter()
    context = make_context(read_spec("experiment", {"idea": "x"}), tmp_path, reporter=reporter)
    claim = Claim(subject="x", effects=(Effect(METRICS["ece"], "decrease"),), data=SHIPPED["iris"])
    measured = {
        (arm, seed): Measured(
            arm,
            seed,
            Reading(
                {"ece": ece * (1 + seed / 1000), "accuracy": accuracy * (1 + seed / 1000)},
                0.3,
                processor_s=1.5,
            ),
            f"answers of arm {arm}",
        )
        for arm, (ece, accuracy) in enumerate(((0.3, 0.9), (0.1, 0.5)))
        for seed in seeds
    }
    setup: Any = SimpleNamespace(
        units=SimpleNamespace(reserve=None), evaluation_set=SimpleNamespace(mark="of a secret")
    )
    run: Any = SimpleNamespace(claim=claim, researcher=SimpleNamespace(switched=None))
    code = "def run(task):\n    return trained(task.intervention)"
    arms = arms_with_switch(make_node("Stage_3", 1, 0.9, code=code))
    plan = Registration(claim.metric, superior("decrease"), 10, rows=150, test_rows=45)
    found = validating.Validating(run)._judged(
        Stage("validation", context),
        validating.Round(setup, arms, seeds, purpose, (plan,), (1, 1), measured),
    )
    assert (found.judgement.conclusion, found.judgement.reason) == ("inconclusive", WORSE)
    told = {each.name: each.value for each in reporter.of(c.StageMetric)}
    assert told["test_processor_seconds_baseline"] == told["test_processor_seconds_intervention"] == 1.5
