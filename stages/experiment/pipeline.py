"""The experiment from idea to paper.

Order: the four stages of the search, then validation, plots and paper; the paper states the
verdict, so the measurement that decides comes before it. Test data stay sealed until validation.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Final

import torch

from events.catalog import PaperGenerated, PaperStarted, ValidationAutoCompleted, ValidationAutoStarted
from events.runs import TITLE_MAX, ExperimentSpec, NodeLimits, idea_of
from stages.checkpoints import Restored
from stages.context import Context, Stage
from stages.experiment.claim import Claim, understand
from stages.experiment.data import Data, Part, prepare
from stages.experiment.device import device_name, prepare_device
from stages.experiment.ledger import FigureState, FreshState, Measured, Past, Scores, SearchState, state_of
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
    return Experiment(context, spec, claim, budget, researcher, Past(context)).run()


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
    past: Past

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
            finished = self.past.read(self.past.finished(plan.name), SearchState)
            if finished is not None and finished.record is not None:
                search.take_over(finished.record)
                records.append(finished.record)
                continue
            begun = self.past.read(self.context.restored(plan.name), SearchState) or SearchState()
            with self.context.stage(plan.name, index=index, total=STAGES_TOTAL) as stage:
                before = records[-1] if records else None
                records.append(search.run(plan, stage, before, begun.tried))
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
        arms = (stages[1].best, stages[2].best)
        seeds = fresh_seeds(self.spec.seed, self.budget.fresh_seeds, used)
        fresh = self._fresh(arms)
        if self.past.finished("validation") is not None and all(seed in fresh for seed in seeds):
            self.context.emit(ValidationAutoStarted())
            return self._judged(seeds, fresh)
        with self.context.stage("validation", index=5, total=STAGES_TOTAL) as stage:
            self.context.emit(ValidationAutoStarted())
            test = data.sealed.open()
            for number, seed in enumerate(seeds):
                stage.progress(number / len(seeds), f"fresh seed {number + 1} of {len(seeds)}, test data")
                if seed not in fresh:
                    one, two = (self._measured(bench, arm, test, seed) for arm in arms)
                    fresh[seed] = (one, two)
                    self._keep_fresh(arms, fresh, is_complete=False)
                self._report(stage, fresh[seed], number + 1)
            stage.progress(1.0, "judging the difference")
            verdicts = self._judged(seeds, fresh)
            self._keep_fresh(arms, fresh, is_complete=True)
        return verdicts

    def _fresh(self, arms: tuple[Node, Node]) -> dict[int, Measured]:
        """Return what earlier attempts measured for these very recipes, by fresh seed."""
        found = self.past.read(self.context.restored("validation"), FreshState)
        if found is None or found.arms != (arms[0].params, arms[1].params):
            return {}
        return dict(found.measured)

    def _keep_fresh(
        self, arms: tuple[Node, Node], fresh: Mapping[int, Measured], *, is_complete: bool
    ) -> None:
        state = FreshState((arms[0].params, arms[1].params), tuple(fresh.items()))
        self.context.checkpoint("validation", state_of(state, is_complete=is_complete))

    def _judged(self, seeds: Sequence[int], fresh: Mapping[int, Measured]) -> Verdicts:
        """Judge both arms over the fresh seeds, and say the verdict."""
        name = self.claim.metric.name
        pairs = [
            Pair(seed, one[name] if one else None, two[name] if two else None)
            for seed, (one, two) in ((seed, fresh[seed]) for seed in seeds)
        ]
        measured = [fresh[seed] for seed in seeds]
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

    def _report(self, stage: Stage, pair: Measured, step: int) -> None:
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
        finished = self.past.finished("plots")
        figures = self.past.read(finished, list[FigureState])
        if finished is not None and figures is not None:
            return tuple(_taken_over(each, finished, folder) for each in figures)
        with self.context.stage("plots", index=6, total=STAGES_TOTAL) as stage:
            pictures: list[Picture] = []
            for number, picture in enumerate(draw_all(record, folder), start=1):
                stage.progress(number / PICTURES, f"drew {picture.name}")
                self.context.keep(picture.image, f"plots/{picture.image.name}")
                self.context.keep(picture.table, f"plots/{picture.table.name}")
                pictures.append(picture)
            files = {path.name: path for each in pictures for path in (each.image, each.table)}
            states = [FigureState(p.name, p.image.name, p.table.name, p.caption) for p in pictures]
            self.context.checkpoint("plots", state_of(states, is_complete=True), files)
        return tuple(pictures)

    def _write(self, record: Record, pictures: tuple[Picture, ...], folder: Path) -> None:
        """Write the paper; its source and every number are kept beside it."""
        if self.past.finished("paper") is not None:
            return
        with self.context.stage("paper", index=7, total=STAGES_TOTAL) as stage:
            self.context.emit(PaperStarted())
            stage.progress(0.0, "writing and rendering")
            paper = write_paper(record, pictures, folder)
            results = folder / "results.json"
            results.write_text(json.dumps(as_results(record), indent=1), encoding="utf-8")
            for path in (paper.pdf, paper.source, paper.data, results):
                self.context.keep(path, f"paper/{path.name}")
            self.context.emit(PaperGenerated(name=f"paper/{paper.pdf.name}", title=paper.title[:TITLE_MAX]))
            self.context.checkpoint("paper", state_of([], is_complete=True))


def _taken_over(figure: FigureState, finished: Restored, folder: Path) -> Picture:
    """Return a figure that an earlier attempt drew, its files where the paper looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    image, table = (
        Path(shutil.copy(finished.files[name], folder / name)) for name in (figure.image, figure.table)
    )
    return Picture(figure.name, image, table, figure.caption)


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
