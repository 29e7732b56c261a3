"""The four stages of the search; the claim is registered before the stage that applies its intervention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from events.kinds.experiment import (
    ClaimRegistered,
)
from stages.kinds.experiment.consistency import (
    Course,
    begun_problem,
    finished_problem,
)
from stages.kinds.experiment.data.divisions import unit_words
from stages.kinds.experiment.record.ledger import (
    SearchState,
)
from stages.kinds.experiment.record.record import (
    StageRecord,
)
from stages.kinds.experiment.research.proposal import Proposal
from stages.kinds.experiment.research.researcher_factory import state_of_claim
from stages.kinds.experiment.search.search import Search, StagePlan, naive_of
from stages.kinds.experiment.search.tree_file import TreeFile
from stages.kinds.experiment.statistics.estimate import LEVEL
from stages.kinds.experiment.statistics.foresight import Foresight, foreseen
from stages.kinds.experiment.statistics.validation import (
    Registration,
)
from stages.kinds.experiment.steps.experiment_run import STAGES_TOTAL, ExperimentRun
from stages.kinds.experiment.steps.trial_setup import TrialSetup
from stages.kinds.experiment.tree import Node, Policy, Tree

DRAFTS: Final = 3
APPLIES: Final = "Stage_3"  # the first stage that tries the intervention
# What is registered before that, in words for people.
ESTIMATOR: Final = (
    "the mean over the units of intervention minus baseline; a program that fails has the worst score"
)
TEST: Final = (
    "corrected t (Nadeau and Bengio 2003), its interval widened for skewness (Johnson 1978, Hall 1992), at a level "
    "calibrated by simulation; beside k - 1 earlier verdicts on the same rows its p-value counts k (k + 1) times"
)
STOPPING: Final = "after the registered number of units, whatever they show"
STOPPING_EARLY: Final = "at the first look that decides the claim, else after the last one"


@dataclass(frozen=True, slots=True)
class Searching:
    """Searches for the programs of both arms."""

    run: ExperimentRun

    def searcher(self, setup: TrialSetup) -> Search:
        bench, judges, data = (
            setup.bench,
            setup.evaluation_set.validation,
            setup.evaluation_set.disguised.data,
        )
        return Search(
            context=self.run.context,
            bench=bench,
            judges=judges,
            pool=setup.pool,
            researcher=self.run.researcher,
            metric=self.run.claim.selection,
            quality=self.run.claim.quality,
            naive=naive_of(self.run.claim.quality, data.visible.train.targets, judges),
            seed=self.run.spec.seed,
            repeats=self.run.effort.repeats,
            folder=self.run.folder / "nodes",
            check=self.run.chosen.spending.check,
            forest=TreeFile(),
            claim=state_of_claim(self.run.claim),
            judge=setup.evaluation_set.mark,
            keeps_proposals=self.run.chosen.is_costly,
        )

    def search(self, search: Search, judged_by: Sequence[Registration]) -> tuple[StageRecord, ...]:
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
            with self.run.context.stage(plan.name, index=index, total=STAGES_TOTAL) as stage:
                records.append(search.run(plan, stage, before, earlier))
        return tuple(records)

    def _made_before(self, course: Course, search: Search) -> StageRecord | SearchState | None:
        """Return what earlier attempts made of a stage: its record where they finished it."""
        finished = self.run.past.finished(course.stage)
        if finished is None:
            begun = self.run.past.left(course.stage)
            return self.run.past.read(begun, SearchState, lambda state: begun_problem(state, course))
        state = self.run.past.read(
            finished, SearchState, lambda state: finished_problem(state, course, search.claim)
        )
        if state is None or state.record is None:
            return None
        search.take_over(state.record, finished.attempt)
        return state.record

    def _plans(self) -> tuple[StagePlan, ...]:
        researcher, limits = self.run.researcher, self.run.effort.limits

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

    def _register(self, plans: Sequence[Registration], tuned: StageRecord | None) -> None:
        """Report how each effect of the claim will be judged; `tuned` is the stage that made the baseline."""
        test = TEST if len(plans) == 1 else f"{TEST}; corrected for {len(plans)} claims (Holm 1979)"
        for effect, plan in zip(self.run.claim.effects, plans, strict=True):
            seen = self._foreseen(plan, tuned)
            bounds = [each if math.isfinite(each) else None for each in (plan.region.low, plan.region.high)]
            self.run.context.emit(
                ClaimRegistered(
                    metric=plan.metric.name, direction=effect.direction, unit=unit_words(self.run.claim.data),
                    units=plan.looks[-1].units if plan.looks else plan.units,
                    rows=plan.rows, test_rows=plan.test_rows, estimator=ESTIMATOR, test=test, level=plan.level if not plan.looks else LEVEL,
                    stopping=STOPPING_EARLY if plan.looks else STOPPING, looks=tuple(each.units for each in plan.looks),
                    levels=tuple(each.level for each in plan.looks), above=bounds[0], below=bounds[1], claimed=effect.kind,
                    is_default_margin=effect.is_default, seen_at_best=seen.at_best, seen_at_worst=seen.at_worst,
                )
            )  # fmt: skip

    def _foreseen(self, plan: Registration, tuned: StageRecord | None) -> Foresight:
        """Return what the tuned baseline foretells of a measure: its finalists are ranked by one only."""
        if tuned is None:
            return Foresight()
        is_ranked = plan.metric.name == self.run.claim.selection.name
        by_seed = [each.values for each in tuned.finalists] if is_ranked else []
        return foreseen(plan, tuned.best.scores.get(plan.metric.name), by_seed)


def _with_effort(plan: StagePlan, tries: int) -> StagePlan:
    """Return the plan of the stage that applies the intervention, with as many tries as the baseline had."""
    return replace(plan, policy=replace(plan.policy, limit=tries))
