"""The experiment from idea to paper.

Order: the four stages of the search, then validation, plots and paper; the paper states the
verdict, so the measurement that decides comes before it. Test data stay sealed until validation.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Final

import torch

from events.catalog import PaperGenerated, PaperStarted, ValidationAutoCompleted, ValidationAutoStarted
from events.runs import TITLE_MAX, ExperimentSpec, NodeLimits, idea_of
from stages.context import Context, Stage
from stages.experiment.claim import Claim, understand
from stages.experiment.data import Data, Part, prepare
from stages.experiment.device import device_name, prepare_device
from stages.experiment.metrics import QUALITY
from stages.experiment.paper import verdict_line, write_paper
from stages.experiment.plots import Picture, draw_all
from stages.experiment.record import Record, Setting, StageRecord, Verdicts, as_results
from stages.experiment.renderer import check_renderer
from stages.experiment.researcher import BuiltIn, Proposal, Researcher, recipe_of
from stages.experiment.search import Search, StagePlan, is_fatal
from stages.experiment.seeds import fresh_seeds
from stages.experiment.tree import Node, Policy, Tree
from stages.experiment.trial import Bench, run_trial
from stages.experiment.validation import Pair, judge

SEARCH_STAGES: Final = ("Stage_1", "Stage_2", "Stage_3", "Stage_4")
STAGES_TOTAL: Final = len(SEARCH_STAGES) + 3
DRAFTS: Final = 3
PICTURES: Final = 5
REPORTED_LIBRARIES: Final = ("torch", "scikit-learn", "numpy", "matplotlib", "typst")


Scores = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a preset spends."""

    limits: Mapping[str, int]
    epochs: int
    repeats: int
    fresh_seeds: int
    patience: int | None


PRESETS: Final[Mapping[str, Budget]] = {
    "quick": Budget(
        limits={"Stage_1": 3, "Stage_2": 5, "Stage_3": 5, "Stage_4": 7},
        epochs=20, repeats=2, fresh_seeds=7, patience=None,
    ),
    "standard": Budget(
        limits={"Stage_1": 20, "Stage_2": 12, "Stage_3": 12, "Stage_4": 18},
        epochs=30, repeats=3, fresh_seeds=10, patience=None,
    ),
}  # fmt: skip


def run(context: Context) -> str:
    """Run the whole experiment; return one line that sums it up."""
    spec = context.spec
    assert isinstance(spec, ExperimentSpec)
    claim = understand(idea_of(spec.idea), spec.dataset)
    budget = budget_of(spec)
    researcher = BuiltIn(claim, spec.seed, budget.epochs)
    return Experiment(context, spec, claim, budget, researcher).run()


def budget_of(spec: ExperimentSpec) -> Budget:
    """Return the preset's budget with the limits that the specification names."""
    preset = PRESETS[spec.preset]
    limits = {name: _limit(spec.nodes, name) or preset.limits[name] for name in SEARCH_STAGES}
    return Budget(limits, preset.epochs, preset.repeats, preset.fresh_seeds, preset.patience)


def _limit(nodes: NodeLimits, stage: str) -> int | None:
    limits = {
        "Stage_1": nodes.Stage_1,
        "Stage_2": nodes.Stage_2,
        "Stage_3": nodes.Stage_3,
        "Stage_4": nodes.Stage_4,
    }
    return limits[stage]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run of the experiment by one researcher."""

    context: Context
    spec: ExperimentSpec
    claim: Claim
    budget: Budget
    researcher: Researcher

    def run(self) -> str:
        """Search, validate, draw and write."""
        folder = _own_folder(self.context.workspace)
        check_renderer(folder)
        device = prepare_device()
        claim = self.claim
        data = prepare(claim.dataset, seed=self.spec.seed, train_examples=claim.train_examples)
        self._announce(device)
        bench = Bench(data.facts, data.visible.train, data.visible.validation, device, self.context.clock)
        search = Search(
            context=self.context,
            bench=bench,
            researcher=self.researcher,
            metric=claim.selection,
            quality=QUALITY[claim.task],
            seed=self.spec.seed,
            repeats=self.budget.repeats,
            folder=folder / "nodes",
        )
        stages = self._search(search)
        verdicts = self._validate(bench, data, stages, search.used_seeds)
        setting = self._setting(data, device)
        record = Record(idea_of(self.spec.idea), claim, setting, stages, verdicts)
        pictures = self._draw(record, folder / "paper" / "plots")
        self._write(record, pictures, folder / "paper")
        word = "supported" if verdicts.judgement.verdict == "pass" else "refuted"
        return f"{word}: {claim.sentence} {verdict_line(claim, verdicts.judgement)}"

    def _announce(self, device: torch.device) -> None:
        self.context.log(f"claim: {self.claim.sentence}")
        for note in self.claim.notes:
            self.context.log(note)
        self.context.log(f"training on {device_name(device)}; seed {self.spec.seed}")

    def _search(self, search: Search) -> tuple[StageRecord, ...]:
        """Run the four stages; each starts from the best node of the one before."""
        records: list[StageRecord] = []
        for index, plan in enumerate(self._plans(), start=1):
            with self.context.stage(plan.name, index=index, total=STAGES_TOTAL) as stage:
                records.append(search.run(plan, stage, records[-1] if records else None))
        return tuple(records)

    def _plans(self) -> tuple[StagePlan, ...]:
        researcher, limits = self.researcher, self.budget.limits

        def nothing(tree: Tree) -> None:
            """Start nothing anew: the baseline is tuned from the node handed over."""

        def applied(tree: Tree) -> Proposal | None:
            assert tree.root is not None
            return researcher.intervene(tree.root, tree)

        def ablated(tree: Tree) -> Proposal | None:
            assert tree.root is not None
            return researcher.ablate(tree.root, tree)

        def done(parent: Node, tree: Tree) -> None:
            """Refine nothing: an ablation is read, not improved."""

        first = Policy(limit=limits["Stage_1"], drafts=DRAFTS, ends_when_working=True)
        second = Policy(limit=limits["Stage_2"], drafts=0, keeps_root=True, patience=self.budget.patience)
        third = Policy(limit=limits["Stage_3"], drafts=limits["Stage_3"])
        fourth = Policy(limit=limits["Stage_4"], drafts=limits["Stage_4"])
        return (
            StagePlan("Stage_1", first, researcher.draft, researcher.tune),
            StagePlan("Stage_2", second, nothing, researcher.tune),
            StagePlan("Stage_3", third, applied, researcher.intervene),
            StagePlan("Stage_4", fourth, ablated, done),
        )

    def _validate(
        self, bench: Bench, data: Data, stages: tuple[StageRecord, ...], used: set[int]
    ) -> Verdicts:
        """Open the test data, and train both arms from fresh seeds."""
        with self.context.stage("validation", index=5, total=STAGES_TOTAL) as stage:
            self.context.emit(ValidationAutoStarted())
            test = data.sealed.open()
            seeds = fresh_seeds(self.spec.seed, self.budget.fresh_seeds, used)
            measured: list[tuple[Scores | None, Scores | None]] = []
            for number, seed in enumerate(seeds):
                stage.progress(number / len(seeds), f"fresh seed {number + 1} of {len(seeds)}, test data")
                measured.append(
                    (
                        self._measured(bench, stages[1].best, test, seed),
                        self._measured(bench, stages[2].best, test, seed),
                    )
                )
                self._report(stage, measured[-1], number + 1)
            stage.progress(1.0, "judging the difference")
            name = self.claim.metric.name
            pairs = [
                Pair(seed, one[name] if one else None, two[name] if two else None)
                for seed, (one, two) in zip(seeds, measured, strict=True)
            ]
            verdicts = Verdicts(judge(pairs, self.claim.direction), _means(measured))
            self.context.emit(
                ValidationAutoCompleted(
                    verdict=verdicts.judgement.verdict,
                    summary=f"{self.claim.sentence} {verdict_line(self.claim, verdicts.judgement)}",
                    scores=verdicts.scores(self.claim),
                )
            )
        return verdicts

    def _measured(self, bench: Bench, node: Node, test: Part, seed: int) -> Scores | None:
        """Train a node's recipe from a fresh seed and score it on the test data; None if it diverged."""
        try:
            return run_trial(bench, recipe_of(node), judge=test, seed=seed).scores
        except (ValueError, ArithmeticError, RuntimeError) as error:
            if is_fatal(error):
                raise
            self.context.log(f"fresh seed {seed}, {node.id}: {type(error).__name__}: {error}", "warning")
            return None

    def _report(self, stage: Stage, pair: tuple[Scores | None, Scores | None], step: int) -> None:
        """Report both arms of one fresh seed, each metric that was measured."""
        for arm, scores in zip(("baseline", "intervention"), pair, strict=True):
            for name, value in (scores or {}).items():
                stage.metric(f"test_{name}_{arm}", value, step)

    def _setting(self, data: Data, device: torch.device) -> Setting:
        return Setting(
            run_id=self.context.run_id,
            attempt=self.context.attempt,
            seed=self.spec.seed,
            preset=self.spec.preset,
            repeats=self.budget.repeats,
            epochs=self.budget.epochs,
            device=device_name(device),
            versions={
                "python": platform.python_version(),
                **{name: version(name) for name in REPORTED_LIBRARIES},
            },
            split=data.sizes,
            features=data.visible.train.features.shape[1],
            outputs=data.facts.outputs,
        )

    def _draw(self, record: Record, folder: Path) -> tuple[Picture, ...]:
        """Draw every figure, each kept with the data that drew it."""
        with self.context.stage("plots", index=6, total=STAGES_TOTAL) as stage:
            pictures: list[Picture] = []
            for number, picture in enumerate(draw_all(record, folder), start=1):
                stage.progress(number / PICTURES, f"drew {picture.name}")
                self.context.keep(picture.image, f"plots/{picture.image.name}")
                self.context.keep(picture.table, f"plots/{picture.table.name}")
                pictures.append(picture)
        return tuple(pictures)

    def _write(self, record: Record, pictures: tuple[Picture, ...], folder: Path) -> None:
        """Write the paper; its source and every number are kept beside it."""
        with self.context.stage("paper", index=7, total=STAGES_TOTAL) as stage:
            self.context.emit(PaperStarted())
            stage.progress(0.0, "writing and rendering")
            paper = write_paper(record, pictures, folder)
            results = folder / "results.json"
            results.write_text(json.dumps(as_results(record), indent=1), encoding="utf-8")
            for path in (paper.pdf, paper.source, paper.data, results):
                self.context.keep(path, f"paper/{path.name}")
            self.context.emit(PaperGenerated(name=f"paper/{paper.pdf.name}", title=paper.title[:TITLE_MAX]))


def _own_folder(workspace: Path) -> Path:
    """Return a folder that is new: what another experiment left cannot be read as a result."""
    folder = workspace / "experiment"
    folder.mkdir(parents=True)
    return folder


def _means(measured: Sequence[tuple[Scores | None, Scores | None]]) -> dict[str, tuple[float, float]]:
    """Return the mean of each metric in both arms, over the seeds in which both were measured."""
    both = [(one, other) for one, other in measured if one is not None and other is not None]
    if not both:
        return {}
    return {
        name: (fmean(one[name] for one, _ in both), fmean(other[name] for _, other in both))
        for name in both[0][0]
    }
