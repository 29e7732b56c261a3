"""The experiment from idea to verdict.

Order: the four stages of the search, the validation on units of its own, plots, paper, review. The
paper states what was measured, so the measurement comes before it; the verdict weighs both, so it
comes last. How the claim will be judged is registered before its intervention is tried. The targets of rows
that judge never leave this process.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from statistics import fmean
from typing import Final, NoReturn

import msgspec

from events.catalog import ValidationAutoCompleted, ValidationAutoStarted
from events.files.open_beneath import copy_beneath
from events.files.paths import SafeName
from events.kinds.experiment import (
    STAGES,
    ClaimRegistered,
    DataWarned,
    ExperimentSpec,
    PaperGenerated,
    PaperStarted,
)
from events.kinds.idea import idea_of
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import DataSet
from events.kinds.space.understanding import file_named_in
from events.kinds.spec import TITLE_MAX
from events.lifecycle import Fault
from events.queue.faults import blame_of
from events.runtime.errors import GivenBack, PipelineError
from stages.bounds import Scores
from stages.context import Context, Stage
from stages.experiment.consistency import (
    Course,
    begun_problem,
    finished_problem,
    paper_problem,
    units_problem,
)
from stages.experiment.data.columns import Key
from stages.experiment.data.data_warnings import warnings_of
from stages.experiment.data.divisions import pieces_of, unit_words
from stages.experiment.data.loading import Data, divided, find_data_set, load_table
from stages.experiment.data.reserve import reserve_of, without_reserve
from stages.experiment.judging.disguise import disguise_of
from stages.experiment.judging.evaluation_set import EvaluationSet, write_evaluation_set
from stages.experiment.judging.preconditions import Observed, not_measured, reference_means, unequal_effort
from stages.experiment.judging.references import references_on
from stages.experiment.judging.replication import PURPOSE, Replication, second_secret
from stages.experiment.judging.secret import Secret
from stages.experiment.judging.secret_source import secret_of
from stages.experiment.judging.switch import beyond_switch, difference_of, text_of
from stages.experiment.paper.recorder import Recorder
from stages.experiment.paper.renderer import Renderer, find_renderer, is_pdf
from stages.experiment.paper.tracing import trace
from stages.experiment.paper.typesetter import Paper, name_author, write_paper
from stages.experiment.paper.words import verdict_line
from stages.experiment.plots.drawing import draw_all, draw_shown, pictures_at_most
from stages.experiment.plots.picture import Picture
from stages.experiment.record.ledger import (
    Measured,
    PaperState,
    Past,
    ReviewState,
    SearchState,
    UnitsState,
    state_of,
)
from stages.experiment.record.numbers import Numbers, facts_to_say, numbers_of
from stages.experiment.record.record import (
    ARMS,
    Record,
    Setting,
    StageRecord,
    Verdicts,
    arms_with_switch,
    as_results,
)
from stages.experiment.record.reviews import ENSEMBLE
from stages.experiment.research.proposal import Proposal, Researcher
from stages.experiment.research.researcher_factory import ChosenResearcher, choose_researcher, state_of_claim
from stages.experiment.research.steering import Attentive
from stages.experiment.search.search import Search, StagePlan, naive_of
from stages.experiment.search.tree_file import TreeFile
from stages.experiment.search.worker_pool import TaskGroup, WorkerPool
from stages.experiment.seeds import unit_seeds
from stages.experiment.statistics.earlier import Rows, Use, earlier_of, fact_of, identity_of
from stages.experiment.statistics.estimate import LEVEL
from stages.experiment.statistics.foresight import Foresight, foreseen
from stages.experiment.statistics.guards import TIME, Arms, guarded
from stages.experiment.statistics.region import region_of
from stages.experiment.statistics.several import corrected, p_of_all, together
from stages.experiment.statistics.validation import (
    Judgement,
    Reading,
    Registration,
    doubted,
    judge,
    pairs_of,
    undecided,
)
from stages.experiment.tree import Node, Policy, Tree
from stages.experiment.trials.load import load_words
from stages.experiment.trials.trial import Bench, write_data
from stages.experiment.trials.units import Units
from stages.experiment.verdict import Verdict, weigh
from stages.isolation.sandbox import JobLimits
from stages.literature import LookUpFailed, Work
from stages.pipeline import classify

SEARCH_STAGES: Final = STAGES[:4]
STAGES_TOTAL: Final = len(STAGES)
DRAFTS: Final = 3
APPLIES: Final = "Stage_3"  # the first stage that tries the intervention
WORKS_MAX: Final = 8
# What is registered before that, in words for people.
ESTIMATOR: Final = (
    "the mean over the units of intervention minus baseline; a program that fails has the worst score"
)
TEST: Final = (
    "corrected t (Nadeau and Bengio 2003), its interval widened for skewness (Johnson 1978, Hall 1992), at a level "
    "calibrated by simulation; beside k - 1 earlier verdicts on the same rows its p-value counts k (k + 1) times"
)
STOPPING: Final = "after the registered number of units, whatever they show"
CPU_PER_WALL: Final = 2.0  # seconds of processor time that a program may use in a second
REPORTED_LIBRARIES: Final = ("torch", "scikit-learn", "numpy", "matplotlib", "typst")
# Failures that follow from what was tried and measured, in this attempt or in earlier ones; others have own causes.
OF_RECORDS: Final = frozenset({"ALL_NODES_BUGGY", "MAX_ITERATIONS", "RENDERER"})
SOURCE_BYTES_MAX: Final = 512 << 10  # of a paper's source that is traced: ours are a fifth of it


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a preset spends; `repeats` are the seeds of a re-evaluation, `units` those of the validation.

    The stage that applies the intervention has no limit of its own: it gets as many tries as the baseline had.
    """

    limits: Mapping[str, int]
    epochs: int
    repeats: int
    units: int


PRESETS: Final[Mapping[str, Effort]] = {
    "quick": Effort(limits={"Stage_1": 3, "Stage_2": 5, "Stage_4": 8}, epochs=20, repeats=3, units=10),
    "standard": Effort(
        limits={"Stage_1": 20, "Stage_2": 12, "Stage_4": 18},
        epochs=30,
        repeats=5,
        units=20,
    ),
}


@dataclass(frozen=True, slots=True)
class TrialSetup:
    """Where programs are tried, what judges them in the search and later, and who does the work."""

    bench: Bench
    evaluation_set: EvaluationSet
    units: Units
    pool: WorkerPool


@dataclass(frozen=True, slots=True)
class Round:
    """Both arms in the same units: the validation, or its replication; results by arm and seed of a unit."""

    setup: TrialSetup
    arms: tuple[Node, Node]
    seeds: tuple[int, ...]
    purpose: str
    plans: tuple[Registration, ...]
    tries: tuple[int, int]  # of programs without the intervention, and with it
    results: dict[tuple[int, int], Measured] = field(default_factory=dict)
    earlier: int | None = None  # verdicts on the rows that judge, as they are known

    @property
    def codes(self) -> tuple[str, str]:
        return self.arms[0].code, self.arms[1].code

    @property
    def wanted(self) -> list[tuple[int, int]]:
        """Return what is not measured by now: both arms of a unit beside each other, in turns the first."""
        wanted = (
            (arm, seed)
            for place, seed in enumerate(self.seeds)
            for arm in ((0, 1) if place % 2 == 0 else (1, 0))
        )
        return [each for each in wanted if each not in self.results]

    @property
    def pool(self) -> WorkerPool:
        """Return how many programs run at once: one alone where the claim is about time."""
        pool = self.setup.pool
        return replace(pool, slots=1) if any(each.metric == TIME for each in self.plans) else pool

    def take(self, measured: Sequence[Measured]) -> None:
        """Take the results of an earlier attempt that are of these units."""
        taken = (each for each in measured if each.seed in self.seeds)
        self.results.update({(each.arm, each.seed): each for each in taken})

    def readings(self, arm: int) -> list[Reading]:
        """Return what an arm gave, unit by unit."""
        return [self.results[arm, seed].reading for seed in self.seeds]

    def use_of(self, data: DataSet, judgements: Sequence[Judgement]) -> Use:
        """Return for which verdict rows of the data set are used."""
        part: Rows = "test" if self.setup.units.reserve is None else "reserve"
        return Use(
            data.title, identity_of(data), part, self.plans[0].test_rows, self.earlier, together(judgements),
            p_of_all(judgements),
        )  # fmt: skip

    def observed(self) -> list[Observed]:
        """Return what the judge saw beside that, unit by unit."""
        pairs = [(self.results[0, seed], self.results[1, seed]) for seed in self.seeds]
        return [Observed((one.answers, other.answers), one.references) for one, other in pairs]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one arm gave in one unit, and why its program failed where it did."""

    measured: Measured
    error: str | None


def run(context: Context) -> str:
    """Run the whole experiment; return one line that sums it up."""
    witness = Recorder(context.reporter)
    context = replace(context, reporter=witness)
    spec = context.spec
    assert isinstance(spec, ExperimentSpec)
    folder = _own_folder(context.workspace)
    renderer = find_renderer(folder)
    data_set = find_data_set(
        spec.dataset or file_named_in(idea_of(spec.idea)), context.tools.data_sets, _key_of(spec)
    )
    effort = effort_of(spec)
    past = Past(context)
    try:
        chosen = choose_researcher(context, spec, data_set, effort.epochs, past)
        context = replace(context, reporter=Attentive(witness, chosen.steering))
        return Experiment(context, witness, spec, effort, chosen, past, folder, renderer).run()
    except Exception as error:  # whatever it is, an earlier attempt may be its cause
        _begin_anew(past, error)
        raise


def _begin_anew(past: Past, error: Exception) -> None:
    """Give the run back where an end may be the work of earlier attempts, so that the next one does without.

    Raises `GivenBack`.
    """
    code, is_retryable = classify(error)
    is_own = (
        isinstance(error, GivenBack)
        or blame_of(code).fault is not Fault.RUN
        or code == "OUT_OF_MEMORY"  # of this pod, whatever earlier attempts left
        or (isinstance(error, PipelineError) and code not in OF_RECORDS)
    )
    if is_own or is_retryable or not past.is_used or not past.set_aside(STAGES):
        return
    why = f"this attempt went on from earlier ones and ended by {code}"
    past.context.log(f"{why}, so the next one begins anew: {error}", "error")
    raise GivenBack(why) from error


def effort_of(spec: ExperimentSpec) -> Effort:
    """Return the preset's effort with the limits that the specification names."""
    preset = PRESETS[spec.preset]
    named: Mapping[str, int | None] = msgspec.structs.asdict(spec.nodes)
    return replace(preset, limits={name: named[name] or limit for name, limit in preset.limits.items()})


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run of the experiment by one researcher."""

    context: Context
    witness: Recorder
    spec: ExperimentSpec
    effort: Effort
    chosen: ChosenResearcher
    past: Past
    folder: Path
    renderer: Renderer

    @property
    def claim(self) -> Claim:
        return self.researcher.claim

    @property
    def researcher(self) -> Researcher:
        return self.chosen.researcher

    def run(self) -> str:
        """Search, validate, draw, write and review."""
        isolation = self.context.tools.sandbox.isolation()
        gaps = f", which leaves open: {'; '.join(isolation.gaps)}" if isolation.gaps else ""
        self.context.log(f"programs run isolated by {isolation.name}{gaps}")
        secret = secret_of(self.context, self.spec.seed)
        setup = self._set_up(secret)
        data = setup.evaluation_set.disguised.data
        warnings = warnings_of(setup.units.table, data) if self.claim.data.location else ()
        self._announce(data, warnings)
        search = self._searcher(setup)
        with search.forest.kept(self.context, self.folder):
            stages = self._search(search, self._registrations(setup))
        verdicts = self._validate(setup, stages, search.used_seeds)
        record = Record(
            idea=idea_of(self.spec.idea),
            claim=self.claim,
            setting=self._setting(data, warnings),
            stages=stages,
            verdicts=verdicts,
            others=tuple(sorted(self.past.others)),
        )
        paper = self._write(
            record, self._draw(record, self.folder / "paper" / "plots"), self.folder / "paper"
        )
        verdict = self._review(record, paper)
        return f"{verdict.conclusion}: {self.claim.sentence} {verdict.summary}"

    def _set_up(self, secret: Secret, *, by_reserve: bool = False) -> TrialSetup:
        """Hide the data by a secret, and return where programs are tried and judged.

        Only what is `by_reserve` sees the reserve of the data set, where there is one.
        """
        tools, claim = self.context.tools, self.claim
        table, few = load_table(claim.data), claim.train_examples
        kept = reserve_of(table, identity_of(claim.data))
        reserve = kept.rows if by_reserve and len(kept.rows) else None
        if reserve is None:
            table = without_reserve(table, kept)
        wanted = self.effort.units
        plain = divided(
            table,
            claim.data.name,
            seed=self.spec.seed,
            train_examples=few,
            unit=(0, wanted),
            reserve=reserve,
        )
        disguise = disguise_of(plain, secret, is_public=not claim.data.location)
        hidden = disguise.worn(plain)
        folder = self.folder / "data" / token_hex(8)  # programs see its name, which says nothing
        limit_s = self.spec.program_limit_s
        bench = Bench(
            facts=hidden.data.facts,
            data=write_data(folder, hidden.data.visible),
            sandbox=tools.sandbox,
            limits=JobLimits(wall_s=limit_s, cpu_s=limit_s * CPU_PER_WALL),
            measured=claim.metrics | {claim.selection.name, claim.quality.name},
            epochs=self.effort.epochs,
            device="cuda" if tools.gpus else "cpu",
            secret=secret,
            places=self.folder / "programs",
        )
        return TrialSetup(
            bench,
            write_evaluation_set(folder, hidden, secret),
            Units(
                table,
                claim.data.name,
                wanted,
                few,
                claim.quality,
                disguise,
                secret,
                self.folder / "data",
                reserve,
            ),
            WorkerPool(tools.slots, tools.gpus),
        )

    def _registrations(self, setup: TrialSetup) -> tuple[Registration, ...]:
        """Return how each effect of the claim is judged."""
        data, table = setup.evaluation_set.disguised.data, setup.units.table
        counts = setup.units.possible, len(table), data.sizes["test"], pieces_of(table)
        return tuple(
            Registration(
                each.metric, region_of(each), *counts, data.counted_by(each.metric), wanted=self.effort.units
            )
            for each in self.claim.effects
        )

    def _register(self, plans: Sequence[Registration], tuned: StageRecord | None) -> None:
        """Report how each effect of the claim will be judged; `tuned` is the stage that made the baseline."""
        test = TEST if len(plans) == 1 else f"{TEST}; corrected for {len(plans)} claims (Holm 1979)"
        for effect, plan in zip(self.claim.effects, plans, strict=True):
            seen = self._foreseen(plan, tuned)
            bounds = [each if math.isfinite(each) else None for each in (plan.region.low, plan.region.high)]
            self.context.emit(
                ClaimRegistered(
                    metric=plan.metric.name, direction=effect.direction, unit=unit_words(self.claim.data), units=plan.units,
                    rows=plan.rows, test_rows=plan.test_rows, estimator=ESTIMATOR, test=test, level=LEVEL,
                    stopping=STOPPING, above=bounds[0], below=bounds[1], claimed=effect.kind,
                    is_default_margin=effect.is_default, seen_at_best=seen.at_best, seen_at_worst=seen.at_worst,
                )
            )  # fmt: skip

    def _foreseen(self, plan: Registration, tuned: StageRecord | None) -> Foresight:
        """Return what the tuned baseline foretells of a measure: its finalists are ranked by one only."""
        if tuned is None:
            return Foresight()
        is_ranked = plan.metric.name == self.claim.selection.name
        by_seed = [each.values for each in tuned.finalists] if is_ranked else []
        return foreseen(plan, tuned.best.scores.get(plan.metric.name), by_seed)

    def _announce(self, data: Data, warnings: Sequence[str]) -> None:
        self.context.log(f"research by {self.researcher.name}; seed {self.spec.seed}")
        self.context.log(f"claim: {self.claim.sentence}")
        for note in (*self.claim.notes, *data.notes):
            self.context.log(note)
        for warning in warnings:
            self.context.log(warning, "warning")
            self.context.emit(DataWarned(says=warning))

    # --- search -----------------------------------------------------------------------------

    def _searcher(self, setup: TrialSetup) -> Search:
        bench, judges, data = (
            setup.bench,
            setup.evaluation_set.validation,
            setup.evaluation_set.disguised.data,
        )
        return Search(
            context=self.context,
            bench=bench,
            judges=judges,
            pool=setup.pool,
            researcher=self.researcher,
            metric=self.claim.selection,
            quality=self.claim.quality,
            naive=naive_of(self.claim.quality, data.visible.train.targets, judges),
            seed=self.spec.seed,
            repeats=self.effort.repeats,
            folder=self.folder / "nodes",
            check=self.chosen.check,
            forest=TreeFile(),
            claim=state_of_claim(self.claim),
            judge=setup.evaluation_set.mark,
            keeps_proposals=self.chosen.is_costly,
        )

    def _search(self, search: Search, judged_by: Sequence[Registration]) -> tuple[StageRecord, ...]:
        """Run the four stages; each starts from the best node of the one before."""
        records: list[StageRecord] = []
        for index, plan in enumerate(self._plans(), start=1):
            if plan.name == APPLIES:
                plan = _with_effort(plan, sum(len(record.nodes) for record in records))
            before = records[-1] if records else None
            if plan.name == APPLIES:
                self._register(judged_by, before)
            earlier = self._made_before(search.course(plan, before), search)
            if isinstance(earlier, StageRecord):
                records.append(earlier)
                continue
            with self.context.stage(plan.name, index=index, total=STAGES_TOTAL) as stage:
                records.append(search.run(plan, stage, before, earlier))
        return tuple(records)

    def _made_before(self, course: Course, search: Search) -> StageRecord | SearchState | None:
        """Return what earlier attempts made of a stage: its record where they finished it."""
        finished = self.past.finished(course.stage)
        if finished is None:
            begun = self.past.left(course.stage)
            return self.past.read(begun, SearchState, lambda state: begun_problem(state, course))
        state = self.past.read(
            finished, SearchState, lambda state: finished_problem(state, course, search.claim)
        )
        if state is None or state.record is None:
            return None
        search.take_over(state.record, finished.attempt)
        return state.record

    def _plans(self) -> tuple[StagePlan, ...]:
        researcher, limits = self.researcher, self.effort.limits

        def nothing(tree: Tree) -> None:
            """Start nothing anew: the baseline is tuned from the node handed over."""

        def applied(tree: Tree) -> Proposal | None:
            assert tree.root is not None
            return researcher.improve(tree.root, tree)

        def ablated(tree: Tree) -> Proposal | None:
            assert tree.root is not None
            return researcher.ablate(tree.root, tree)

        def done(parent: Node, tree: Tree) -> None:
            """Refine nothing: an ablation is read, not improved."""

        first = Policy(limit=limits["Stage_1"], drafts=DRAFTS, ends_when_working=True)
        second = Policy(limit=limits["Stage_2"], drafts=0, keeps_root=True, is_optional=True)
        third = Policy(limit=0, drafts=DRAFTS)  # as many as the baseline had
        fourth = Policy(limit=limits["Stage_4"], drafts=limits["Stage_4"], is_optional=True)
        return (
            StagePlan("Stage_1", first, researcher.draft, researcher.tune),
            StagePlan("Stage_2", second, nothing, researcher.tune),
            StagePlan("Stage_3", third, applied, researcher.improve),
            StagePlan("Stage_4", fourth, ablated, done),
        )

    # --- validation -------------------------------------------------------------------------

    def _validate(self, setup: TrialSetup, stages: Sequence[StageRecord], used: set[int]) -> Verdicts:
        """Run both arms in units that the search never had, each judged by test data of its own.

        What an earlier attempt found too good is measured anew, whatever else earlier attempts left. Whatever
        is measured here makes all anew that rests on it.
        """
        arms = arms_with_switch(stages[2].best)
        plans = self._registrations(setup)
        seeds = unit_seeds(self.spec.seed, plans[0].units, used)
        tries = (len(stages[0].nodes) + len(stages[1].nodes), len(stages[2].nodes))
        first = Round(setup, arms, seeds, "validation", plans, tries, earlier=self._earlier("test"))
        left = self.past.left("validation")
        was_asked = self.context.replication_asked  # a run goes back once at most
        first = self._with_units_left(first)
        is_doubted = not first.wanted and self._verdicts(first).is_too_good
        if not is_doubted and not first.wanted and self.past.finished("validation") is not None:
            self.context.emit(ValidationAutoStarted())
            return self._judged(Stage("validation", self.context), first)
        self.past.is_whole = False
        with self.context.stage("validation", index=5, total=STAGES_TOTAL) as stage:
            self.context.emit(ValidationAutoStarted())
            pods = left.pods if left is not None else ()
            if not is_doubted:
                pods = (*pods, self.context.pod)
                self._measure(first, stage, lambda: self._keep_units(first, is_complete=False))
                verdicts = self._verdicts(first)
                stage.progress(1.0, f"the measurement says: {verdicts.reason}")
                is_too_good = verdicts.is_too_good
                if is_too_good and not was_asked:
                    self._tell_of_doubt(verdicts)
                is_safe = self._keep_units(first, is_complete=True)
                if not is_too_good:
                    return self._judged(stage, first)
                if is_safe and not was_asked:  # or no other pod would find it, or none could read it
                    self._judged(stage, first)  # of two measurements in one attempt only the second is said
                    self._give_back()
            return self._replicated(first, stage, Replication(pods, self.context.pod), used)

    def _measure(self, measured: Round, stage: Stage, keep: Callable[[], object]) -> None:
        """Run what is not measured by now; `keep` is called after each training.

        Raises `MachineLost` where the machine loses a training again and again.
        """
        results = measured.results
        total = len(measured.arms) * len(measured.seeds)
        if measured.pool != measured.setup.pool:
            self.context.log(f"one program runs at a time, as the claim is about time; {load_words()}")
        with TaskGroup[Outcome](measured.pool) as tasks:
            for arm, seed in measured.wanted:
                tasks.start(f"{arm}-{seed}", self._measurement(measured, arm, seed))
            say = f"running both arms in {len(measured.seeds)} units, judged by test data"
            if measured.purpose == PURPOSE:
                say = f"{say}, again: the first measurement was too good"
            stage.progress(len(results) / total, say)
            for name, outcome in tasks.finished(lambda _: stage.progress(len(results) / total, say)):
                arm, seed = map(int, name.split("-"))
                results[arm, seed] = outcome.measured
                if outcome.error is not None:
                    self.context.log(
                        f"the unit of seed {seed}, {measured.arms[arm].id}: {outcome.error}", "warning"
                    )
                keep()
                stage.progress(len(results) / total, say)
        if measured.pool != measured.setup.pool:
            self.context.log(f"both arms are timed; {load_words()}")

    def _measurement(self, measured: Round, arm: int, seed: int) -> Callable[[int | None], Outcome]:
        node, setup = measured.arms[arm], measured.setup
        # Each arm is a program of its own, and both are told the same: nothing hidden can tell them apart.
        text = text_of(node.code, is_on=arm == 1)

        def measure(gpu: int | None) -> Outcome:
            self.chosen.check()
            with setup.units.opened(seed, measured.seeds.index(seed)) as unit:
                bench = replace(setup.bench, facts=unit.facts, data=unit.data)
                folder = self.folder / measured.purpose / f"{arm}-{seed}"
                tried = bench.run(
                    text or node.code,
                    seeds=(seed,),
                    judges=unit.judges,
                    folder=folder,
                    arm="intervention",
                    gpu=gpu,
                )
                trial = tried.trials[0]
                references = (
                    references_on(unit.facts.task, self.claim.quality, unit.known, unit.judges)
                    if arm == 0
                    else {}
                )
                reading = trial.reading(unit.naive)
                return Outcome(Measured(arm, seed, reading, trial.answers, references), trial.error)

        return measure

    def _tell_of_doubt(self, verdicts: Verdicts) -> None:
        """Report the request for a replication, before any other pod can find the measurement."""
        line = verdict_line(verdicts)
        self.context.log(line, "warning")
        self.context.emit(
            ValidationAutoCompleted(
                verdict="fail",
                conclusion="inconclusive",
                summary=line,
                scores=verdicts.scores(self.claim),
                replication="asked for",
            )
        )

    def _give_back(self) -> NoReturn:
        """Give the run back, so that another pod measures again."""
        self.context.log("the run goes back to the queue, for another pod if there is one")
        raise GivenBack(
            f"replication asked for: a result that is too good, from {self.context.pod or 'a pod'}"
        )

    def _replicated(self, first: Round, stage: Stage, replication: Replication, used: set[int]) -> Verdicts:
        """Measure both arms once more, all of it here, in other units and with rows hidden by another secret."""
        self.context.log(f"the first measurement was too good: it is replicated {replication.place}")
        seeds = unit_seeds(self.spec.seed, len(first.seeds), used | set(first.seeds), PURPOSE)
        secret = second_secret(self.context.tools.judge_secret, self.spec.seed)
        setup = self._set_up(secret, by_reserve=True)
        plans, earlier, reserve = first.plans, first.earlier, setup.units.reserve
        if reserve is not None:
            judging = setup.evaluation_set.disguised.data.sizes["test"]
            plans = tuple(replace(each, rows=len(reserve), test_rows=judging) for each in plans)
            earlier = self._earlier("reserve")
        second = Round(setup, first.arms, seeds, PURPOSE, plans, first.tries, earlier=earlier)
        self._measure(second, stage, lambda: None)
        replication = replace(replication, by_reserve=reserve is not None)
        verdicts = replace(self._judged(stage, second), replication=replication)
        stage.progress(1.0, f"the replication says: {verdicts.reason}")
        return verdicts

    def _earlier(self, part: Rows) -> int | None:
        """Return how many verdicts on these rows the attempt was told of."""
        return earlier_of(self.context.told, identity_of(self.claim.data), part)

    def _with_units_left(self, first: Round) -> Round:
        """Take what earlier attempts measured for these very programs, and what they knew of earlier verdicts.

        There cannot have been more of those than there are by now.
        """
        mark = first.setup.evaluation_set.mark
        found = self.past.read(
            self.past.left("validation"),
            UnitsState,
            lambda state: units_problem(state, first.codes, mark, first.plans[0], first.setup.bench.measured),
        )
        if found is None:
            return first
        first.take(found.measured)
        known = [each for each in (found.earlier, first.earlier) if each is not None]
        return replace(first, earlier=min(known, default=None))

    def _keep_units(self, first: Round, *, is_complete: bool) -> bool:
        plan, mark = first.plans[0], first.setup.evaluation_set.mark
        state = UnitsState(
            first.codes, plan.rows, plan.test_rows, tuple(first.results.values()), mark, first.earlier
        )
        return self.context.checkpoint("validation", state_of(state, is_complete=is_complete))

    def _judged(self, stage: Stage, measured: Round) -> Verdicts:
        """Report every score of every unit, and judge the difference of the claim's metric."""
        for number, seed in enumerate(measured.seeds, start=1):
            for arm, name in enumerate(ARMS):
                reading = measured.results[arm, seed].reading
                for metric, value in (reading.scores or {}).items():
                    stage.metric(f"test_{metric}_{name}", value, number)
                if (busy_s := reading.processor_s) is not None:
                    stage.metric(f"test_processor_seconds_{name}", busy_s, number)
        verdicts = self._verdicts(measured)
        assert verdicts.use is not None, "whoever judges has one"
        stage.context.emit(fact_of(verdicts.use, measured.setup.evaluation_set.mark, verdicts.judgements))
        return verdicts

    def _verdicts(self, measured: Round) -> Verdicts:
        seeds = measured.seeds
        baseline, intervention = (measured.readings(arm) for arm in range(len(ARMS)))
        observed = measured.observed()
        means = _means(
            [(one.scores, other.scores) for one, other in zip(baseline, intervention, strict=True)]
        )
        plain = [judge(pairs_of(seeds, baseline, intervention, plan.metric), plan) for plan in measured.plans]
        differences = (
            *beyond_switch(measured.arms[1].code, self.researcher.switched),
            *unequal_effort(*measured.tries),
        )
        nothing = not_measured(plain, baseline, observed, differences, self.claim.quality)
        plain = [undecided(each, nothing.reason if nothing else None) for each in plain]
        arms = Arms(baseline, intervention)
        found = tuple(guarded(each, arms, self.claim.quality) for each in corrected(plain))
        # what is not supported anyhow needs no replication: its size is doubted last
        if measured.purpose != PURPOSE:
            found = tuple(doubted(each, each.plan.metric) for each in found)
        return Verdicts(
            found,
            means,
            references=reference_means(observed),
            nothing=nothing,
            switch=difference_of(measured.arms[1].code),
            tries=measured.tries,
            use=measured.use_of(self.claim.data, found),
        )

    # --- plots, paper, review ---------------------------------------------------------------

    def _setting(self, data: Data, warnings: Sequence[str]) -> Setting:
        tools = self.context.tools
        return Setting(
            run_id=self.context.run_id,
            attempt=self.context.attempt,
            seed=self.spec.seed,
            preset=self.spec.preset,
            repeats=self.effort.repeats,
            epochs=self.effort.epochs,
            researcher=self.researcher.name,
            isolation=tools.sandbox.isolation().name,
            device=f"{tools.gpus} GPU" if tools.gpus else "CPU, 1 thread for each program",
            versions={
                "python": platform.python_version(),
                **{name: version(name) for name in REPORTED_LIBRARIES},
            },
            split=data.sizes,
            features=data.visible.train.features.shape[1],
            outputs=data.facts.outputs,
            notes=(*data.notes, *warnings),
        )

    def _looked_up(self) -> tuple[Work, ...]:
        """Return earlier publications on the claim, where there is an index that answers."""
        literature = self.context.tools.literature
        if literature is None:
            return ()
        try:
            found = literature.search(f"{self.claim.subject} {self.claim.metric.title}", WORKS_MAX)
        except LookUpFailed as failure:
            self.context.log(f"no literature was looked up: {failure}", "warning")
            return ()
        self.context.log(f"the literature look-up found {len(found)} works")
        return tuple(found)

    def _draw(self, record: Record, folder: Path) -> tuple[Picture, ...]:
        """Draw every figure, each kept with the data that drew it.

        Where an earlier attempt drew and kept them, those of the whole run are drawn again, from the record: a
        picture of another pod may show anything, or be one that no renderer sets.
        """
        finished = self.past.finished("plots")
        if finished is None:
            return self._draw_anew(record, folder)
        pictures = tuple(draw_shown(record, folder))
        if finished.from_run is not None:  # whose artifacts are not this run's
            self._keep_files(pictures, folder)
        return pictures

    def _draw_anew(self, record: Record, folder: Path) -> tuple[Picture, ...]:
        with self.context.stage("plots", index=6, total=STAGES_TOTAL) as stage:
            pictures: list[Picture] = []
            total = pictures_at_most(record)
            for picture in draw_all(record, folder):
                stage.progress(len(pictures) / total, f"drew {picture.name}")
                self._keep_files([picture], folder)
                pictures.append(picture)
            self.context.checkpoint("plots", state_of(None, is_complete=True))
        return tuple(pictures)

    def _keep_files(self, pictures: Sequence[Picture], folder: Path) -> None:
        for path in (path for picture in pictures for path in picture.files):
            self.context.keep(path, f"plots/{path.relative_to(folder).as_posix()}")

    def _write(self, record: Record, pictures: Sequence[Picture], folder: Path) -> Paper:
        """Write the paper; its source and every number are kept beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        finished = self.past.finished("paper")
        files = finished.files if finished is not None else {}
        sizes = {name: path.stat().st_size for name, path in files.items()}

        def problem_of(state: PaperState) -> str | None:
            problem = paper_problem(state, sizes)
            return "paper.pdf is no PDF" if not problem and not is_pdf(files["paper.pdf"]) else problem

        state = self.past.read(finished, PaperState, problem_of)
        if finished is not None and state is not None:
            record = replace(record, setting=state.setting, works=state.works)
            self._say_numbers(record)
            paper = _paper_taken_over(state, numbers_of(record), files, folder)
            if finished.from_run is not None:
                self._keep_paper(record, paper, folder)
            self._tell_paper(paper)  # whoever wrote it may have been lost before saying so
            return paper
        with self.context.stage("paper", index=7, total=STAGES_TOTAL) as stage:
            self.context.emit(PaperStarted())
            record = replace(record, works=self._looked_up())
            self._say_numbers(record)
            stage.progress(0.0, f"{self.researcher.name} writes")
            prose = self.researcher.write(record)
            stage.progress(0.5, "setting the pages")
            paper = write_paper(record, prose, numbers_of(record), pictures, folder, self.renderer)
            for warning in paper.warnings:
                self.context.log(warning, "warning")
            self._keep_paper(record, paper, folder)
            files = {path.name: path for path in paper.files}
            state = PaperState(
                paper.title, paper.author, paper.text, paper.pages, paper.level, record.setting, record.works,
                tuple(SafeName(name) for name in files),
            )  # fmt: skip
            self.context.checkpoint("paper", state_of(state, is_complete=True), files)
            self._tell_paper(paper)
        return paper

    def _keep_paper(self, record: Record, paper: Paper, folder: Path) -> None:
        """Keep the paper's files, and beside them everything that was measured."""
        results = folder / "results.json"
        results.write_text(json.dumps(as_results(record), indent=1), encoding="utf-8")
        for path in (*paper.files, results):
            self.context.keep(path, f"paper/{path.relative_to(folder).as_posix()}")

    def _tell_paper(self, paper: Paper) -> None:
        name = f"paper/{paper.pdf.name}"
        self.context.emit(PaperGenerated(name=name, title=paper.title[:TITLE_MAX], pages=paper.pages))

    def _say_numbers(self, record: Record) -> None:
        """Report the sources of the paper's numbers that were not reported yet."""
        for fact in facts_to_say(record):
            if not self.witness.has_heard(fact):
                self.context.emit(fact)

    def _review(self, record: Record, paper: Paper) -> Verdict:
        """Trace the paper's numbers, have it reviewed where there is a model, and report the verdict."""
        state = self.past.read(self.past.finished("review"), ReviewState)
        if state is not None:
            verdict = weigh(record, state.untraced, state.traced, state.reviews, sorted(self.past.others))
            self._tell(verdict)
            return verdict
        with self.context.stage("review", index=8, total=STAGES_TOTAL) as stage:
            stage.progress(0.0, "tracing every number of the paper to its event")
            traced = trace(_source_of(paper), paper.numbers, self.witness)
            stage.metric("numbers_traced", float(traced.count))
            for each in traced.untraced:
                self.context.log(f"the paper states {each}, which no event says", "error")
            stage.progress(0.3, f"{self.researcher.name} reviews the paper")
            reviews = tuple(self.researcher.review(paper.text, ENSEMBLE))
            verdict = weigh(record, traced.untraced, traced.count, reviews, sorted(self.past.others))
            state = ReviewState(traced.count, traced.untraced, reviews)
            self.context.checkpoint("review", state_of(state, is_complete=True))
            self._tell(verdict)
        return verdict

    def _tell(self, verdict: Verdict) -> None:
        self.context.emit(
            ValidationAutoCompleted(
                verdict=verdict.verdict,
                conclusion=verdict.conclusion,
                summary=verdict.summary,
                code=verdict.code,
                scores=verdict.scores,
                replication=verdict.replication,
            )
        )


def _key_of(spec: ExperimentSpec) -> Key | None:
    """Return by which column of its file a run is split."""
    if spec.group is not None:
        return Key(spec.group, "group")
    return None if spec.time is None else Key(spec.time, "time")


def _with_effort(plan: StagePlan, tries: int) -> StagePlan:
    """Return the plan of the stage that applies the intervention, with as many tries as the baseline had."""
    return replace(plan, policy=replace(plan.policy, limit=tries))


def _source_of(paper: Paper) -> str:
    """Return the beginning of the paper's source, which may be an earlier attempt's."""
    with paper.source.open("rb") as file:
        return file.read(SOURCE_BYTES_MAX).decode("utf-8", "replace")


def _paper_taken_over(state: PaperState, numbers: Numbers, left: Mapping[str, Path], folder: Path) -> Paper:
    """Return a paper that an earlier attempt wrote, with its files."""
    name_author(numbers, state.author)
    files = {str(name): copy_beneath(left[name], folder, name) for name in state.files}
    return Paper(
        title=state.title,
        pdf=files["paper.pdf"],
        source=files["paper.tex"],
        text=state.text,
        pages=state.pages,
        level=state.level,
        author=state.author,
        numbers=numbers,
        files=tuple(files.values()),
    )


def _own_folder(workspace: Path) -> Path:
    """Return a folder that is new: what another experiment left cannot be read as a result."""
    folder = workspace / "experiment"
    folder.mkdir(parents=True)
    return folder


def _means(measured: Sequence[tuple[Scores | None, Scores | None]]) -> dict[str, tuple[float, float]]:
    """Return the mean of each metric in both arms, over the units in which both were measured."""
    both = [(one, other) for one, other in measured if one is not None and other is not None]
    if not both:
        return {}
    shared = [name for name in both[0][0] if all(name in one and name in other for one, other in both)]
    return {
        name: (fmean(one[name] for one, _ in both), fmean(other[name] for _, other in both))
        for name in shared
    }
