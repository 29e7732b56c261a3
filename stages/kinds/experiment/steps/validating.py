"""The validation: both arms in units that the search never had, and a replication of what is too good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Final, NoReturn

from events.catalog import ValidationAutoCompleted, ValidationAutoStarted
from events.kinds.space.data_sets import DataSet
from events.runtime.errors import GivenBack
from stages.bounds import Scores
from stages.context import Stage
from stages.kinds.experiment.consistency import (
    units_problem,
)
from stages.kinds.experiment.judging.preconditions import (
    Observed,
    not_measured,
    reference_means,
    unequal_effort,
)
from stages.kinds.experiment.judging.references import references_on
from stages.kinds.experiment.judging.replication import PURPOSE, Replication, second_secret
from stages.kinds.experiment.judging.switch import beyond_switch, difference_of, text_of
from stages.kinds.experiment.judging.untouched import gains, spoilt
from stages.kinds.experiment.paper.words import verdict_line
from stages.kinds.experiment.record.ledger import (
    UNTOUCHED,
    Measured,
    UnitsState,
    state_of,
)
from stages.kinds.experiment.record.record import (
    ARMS,
    StageRecord,
    Verdicts,
    arms_with_switch,
)
from stages.kinds.experiment.search.worker_pool import TaskGroup, WorkerPool
from stages.kinds.experiment.seeds import unit_seeds
from stages.kinds.experiment.statistics.earlier import Rows, Use, earlier_of, fact_of, identity_of
from stages.kinds.experiment.statistics.guards import TIME, Arms, guarded
from stages.kinds.experiment.statistics.several import corrected, is_open, p_of_all, together
from stages.kinds.experiment.statistics.validation import (
    Judgement,
    Reading,
    Registration,
    doubted,
    judge,
    pairs_of,
    undecided,
)
from stages.kinds.experiment.steps.experiment_run import STAGES_TOTAL, ExperimentRun
from stages.kinds.experiment.steps.trial_setup import TrialSetup, registrations, set_up
from stages.kinds.experiment.tree import Node
from stages.kinds.experiment.trials.load import load_words
from stages.kinds.experiment.trials.template import is_own

BESIDE: Final = "untouched"  # as what the tuned baseline's scores are told


@dataclass(frozen=True, slots=True)
class Round:
    """Both arms in the same units: the validation, or its replication; results by arm and seed of a unit.

    `drawn` are the seeds of all looks, of which the plans take the first ones. `untouched` is the tuned baseline
    that both were made from, if a gain counts only over that as well.
    """

    setup: TrialSetup
    arms: tuple[Node, Node]
    drawn: tuple[int, ...]
    purpose: str
    plans: tuple[Registration, ...]
    tries: tuple[int, int]  # of programs without the intervention, and with it
    results: dict[tuple[int, int], Measured] = field(default_factory=dict)
    earlier: int | None = None  # verdicts on the rows that judge, as they are known
    untouched: Node | None = None

    def node(self, arm: int) -> Node:
        """Return what is run as an arm, or beside both."""
        nodes: tuple[Node | None, ...] = (*self.arms, self.untouched)
        node = nodes[arm]
        assert node is not None, "only where there is one it is wanted"
        return node

    @property
    def codes(self) -> tuple[str, str]:
        return self.arms[0].code, self.arms[1].code

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the units by which is judged now."""
        return self.drawn[: self.plans[0].units]

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
    def wanted_beside(self) -> list[tuple[int, int]]:
        """Return where the tuned baseline is not measured by now."""
        wanted = [(UNTOUCHED, seed) for seed in self.seeds] if self.untouched is not None else []
        return [each for each in wanted if each not in self.results]

    @property
    def pool(self) -> WorkerPool:
        """Return how many programs run at once: one alone where the claim is about time."""
        pool = self.setup.pool
        return replace(pool, slots=1) if any(each.metric == TIME for each in self.plans) else pool

    def take(self, measured: Sequence[Measured]) -> None:
        """Take the results of an earlier attempt that are of these units."""
        taken = (each for each in measured if each.seed in self.drawn)
        self.results.update({(each.arm, each.seed): each for each in taken})

    def take_from(self, left: UnitsState) -> None:
        """Take what an earlier attempt left, of a tuned baseline only where it was this one."""
        is_same = self.untouched is not None and left.untouched == self.untouched.code
        self.take([each for each in left.measured if each.arm < UNTOUCHED or is_same])

    def readings(self, arm: int) -> list[Reading]:
        """Return what an arm gave, unit by unit."""
        return [self.results[arm, seed].reading for seed in self.seeds]

    def use_of(self, data: DataSet, judgements: Sequence[Judgement]) -> Use:
        """Return for which verdict rows of the data set are used."""
        part: Rows = "test" if self.setup.units.reserve is None else "reserve"
        return Use(
            data.title, identity_of(data), part, self.plans[0].test_rows, self.earlier, together(judgements),
            p_of_all(judgements), self.plans[0].level,
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


@dataclass(frozen=True, slots=True)
class Validating:
    """Measures both arms of the claim, and judges their difference."""

    run: ExperimentRun

    def validate(self, setup: TrialSetup, stages: Sequence[StageRecord], used: set[int]) -> Verdicts:
        """Run both arms in units that the search never had, each judged by test data of its own.

        What an earlier attempt found too good is measured anew, whatever else earlier attempts left. Whatever
        is measured here makes all anew that rests on it.
        """
        arms = arms_with_switch(stages[2].best)
        plans = registrations(self.run, setup)
        most = plans[0].looks[-1].units if plans[0].looks else plans[0].units
        drawn = unit_seeds(self.run.spec.seed, most, used)
        tries = (len(stages[0].nodes) + len(stages[1].nodes), len(stages[2].nodes))
        earlier, untouched = self._earlier("test"), self._untouched(stages)
        first = Round(setup, arms, drawn, "validation", plans, tries, earlier=earlier, untouched=untouched)
        left = self.run.past.left("validation")
        was_asked = self.run.context.replication_asked  # a run goes back once at most
        first = self._at_its_look(self._with_units_left(first))
        is_measured = not self._wanted(first)
        is_doubted = is_measured and self._verdicts(first).is_too_good
        if is_measured and not is_doubted and self.run.past.finished("validation") is not None:
            self.run.context.emit(ValidationAutoStarted())
            return self._judged(Stage("validation", self.run.context), first)
        self.run.past.is_whole = False
        with self.run.context.stage("validation", index=5, total=STAGES_TOTAL) as stage:
            self.run.context.emit(ValidationAutoStarted())
            pods = left.pods if left is not None else ()
            if not is_doubted:
                pods = (*pods, self.run.context.pod)
                first = self._looked_at(first, stage)
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
            return self._replicated(first, stage, Replication(pods, self.run.context.pod), used)

    def _looked_at(self, first: Round, stage: Stage) -> Round:
        """Measure more units, up to the last look, while those that there are decide nothing."""
        self._measure(first, stage, lambda: self._keep_units(first, is_complete=False))
        later = self._at_its_look(first)
        if later is first:
            return first
        units, found = len(later.seeds), self._verdicts(first)
        self.run.context.log(
            f"{verdict_line(found)} Nothing is decided: it is judged again after {units} units."
        )
        return self._looked_at(later, stage)

    def _at_its_look(self, measured: Round) -> Round:
        """Return it at the look that comes next, or at the one that ends the validation."""
        further = tuple(each for plan in measured.plans if (each := plan.further) is not None)
        if measured.wanted or not further or not is_open(self._verdicts(measured).judgements):
            return measured
        return self._at_its_look(replace(measured, plans=further))

    def _measure(self, measured: Round, stage: Stage, keep: Callable[[], object]) -> None:
        """Run what is not measured by now; `keep` is called after each training.

        Raises `MachineLost` where the machine loses a training again and again.
        """
        if measured.pool != measured.setup.pool:
            self.run.context.log(f"one program runs at a time, as the claim is about time; {load_words()}")
        while wanted := self._wanted(measured):
            self._measure_these(wanted, measured, stage, keep)
        if measured.pool != measured.setup.pool:
            self.run.context.log(f"both arms are timed; {load_words()}")

    def _measure_these(
        self, wanted: Sequence[tuple[int, int]], measured: Round, stage: Stage, keep: Callable[[], object]
    ) -> None:
        results, total = measured.results, len(measured.results) + len(wanted)
        with TaskGroup[Outcome](measured.pool) as tasks:
            for arm, seed in wanted:
                tasks.start(f"{arm}-{seed}", self._measurement(measured, arm, seed))
            say = f"running both arms in {len(measured.seeds)} units, judged by test data"
            if (UNTOUCHED, measured.seeds[0]) in wanted:
                say = f"running the tuned baseline in {len(measured.seeds)} units, beside both arms"
            if measured.purpose == PURPOSE:
                say = f"{say}, again: the first measurement was too good"
            stage.progress(len(results) / total, say)
            for name, outcome in tasks.finished(lambda _: stage.progress(len(results) / total, say)):
                arm, seed = map(int, name.split("-"))
                results[arm, seed] = outcome.measured
                if outcome.error is not None:
                    self.run.context.log(
                        f"the unit of seed {seed}, {measured.node(arm).id}: {outcome.error}", "warning"
                    )
                keep()
                stage.progress(len(results) / total, say)

    def _measurement(self, measured: Round, arm: int, seed: int) -> Callable[[int | None], Outcome]:
        node, setup = measured.node(arm), measured.setup
        # Each arm is a program of its own, and both are told the same: nothing hidden can tell them apart.
        text = text_of(node.code, is_on=arm == 1)

        def measure(gpu: int | None) -> Outcome:
            self.run.chosen.spending.check()
            with setup.units.opened(seed, measured.seeds.index(seed)) as unit:
                bench = replace(setup.bench, facts=unit.facts, data=unit.data)
                folder = self.run.folder / measured.purpose / f"{arm}-{seed}"
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
                    references_on(unit.facts.task, self.run.claim.quality, unit.known, unit.judges)
                    if arm == 0
                    else {}
                )
                reading = trial.reading(unit.naive)
                return Outcome(Measured(arm, seed, reading, trial.answers, references), trial.error)

        return measure

    def _tell_of_doubt(self, verdicts: Verdicts) -> None:
        """Report the request for a replication, before any other pod can find the measurement."""
        line = verdict_line(verdicts)
        self.run.context.log(line, "warning")
        self.run.context.emit(
            ValidationAutoCompleted(
                verdict="fail",
                conclusion="inconclusive",
                summary=line,
                scores=verdicts.scores(self.run.claim),
                replication="asked for",
            )
        )

    def _give_back(self) -> NoReturn:
        """Give the run back, so that another pod measures again."""
        self.run.context.log("the run goes back to the queue, for another pod if there is one")
        raise GivenBack(
            f"replication asked for: a result that is too good, from {self.run.context.pod or 'a pod'}"
        )

    def _replicated(self, first: Round, stage: Stage, replication: Replication, used: set[int]) -> Verdicts:
        """Measure both arms once more, all of it here, in other units and with rows hidden by another secret."""
        self.run.context.log(f"the first measurement was too good: it is replicated {replication.place}")
        seeds = unit_seeds(self.run.spec.seed, len(first.seeds), used | set(first.drawn), PURPOSE)
        secret = second_secret(self.run.context.tools.judge_secret, self.run.spec.seed)
        setup = set_up(self.run, secret, by_reserve=True)
        plans, earlier, reserve = first.plans, first.earlier, setup.units.reserve
        if reserve is not None:
            judging = setup.evaluation_set.disguised.data.sizes["test"]
            plans = tuple(replace(each, rows=len(reserve), test_rows=judging) for each in plans)
            earlier = self._earlier("reserve")
        second = replace(
            first, setup=setup, drawn=seeds, purpose=PURPOSE, plans=plans, results={}, earlier=earlier
        )
        self._measure(second, stage, lambda: None)
        replication = replace(replication, by_reserve=reserve is not None)
        verdicts = replace(self._judged(stage, second), replication=replication)
        stage.progress(1.0, f"the replication says: {verdicts.reason}")
        return verdicts

    def _untouched(self, stages: Sequence[StageRecord]) -> Node | None:
        """Return the tuned baseline that the switch was put into; None where no model wrote that program.

        In a program of the product's own the switch at 0 is the recipe without the intervention.
        """
        is_ours = self.run.researcher.switched is not None and is_own(stages[2].best.code)
        return None if is_ours else stages[1].best

    def _wanted(self, measured: Round) -> list[tuple[int, int]]:
        """Return what is not measured by now; the tuned baseline only where a gain would be concluded."""
        if measured.wanted or not measured.wanted_beside:
            return measured.wanted
        return measured.wanted_beside if gains(self._verdicts(measured).judgements) else []

    def _earlier(self, part: Rows) -> int | None:
        """Return how many verdicts on these rows the attempt was told of."""
        return earlier_of(self.run.context.told, identity_of(self.run.claim.data), part)

    def _with_units_left(self, first: Round) -> Round:
        """Take what earlier attempts measured for these very programs, and what they knew of earlier verdicts.

        There cannot have been more of those than there are by now.
        """
        mark = first.setup.evaluation_set.mark
        found = self.run.past.read(
            self.run.past.left("validation"),
            UnitsState,
            lambda state: units_problem(state, first.codes, mark, first.plans[0], first.setup.bench.measured),
        )
        if found is None:
            return first
        first.take_from(found)
        known = [each for each in (found.earlier, first.earlier) if each is not None]
        return replace(first, earlier=min(known, default=None))

    def _keep_units(self, first: Round, *, is_complete: bool) -> bool:
        plan, mark = first.plans[0], first.setup.evaluation_set.mark
        state = UnitsState(
            first.codes, plan.rows, plan.test_rows, tuple(first.results.values()), mark, first.earlier,
            first.untouched.code if first.untouched is not None else "",
        )  # fmt: skip
        return self.run.context.checkpoint("validation", state_of(state, is_complete=is_complete))

    def _judged(self, stage: Stage, measured: Round) -> Verdicts:
        """Report every score of every unit, and judge the difference of the claim's metric."""
        for number, seed in enumerate(measured.seeds, start=1):
            for arm, name in enumerate((*ARMS, BESIDE)):
                if (arm, seed) not in measured.results:
                    continue  # nothing is gained that the tuned baseline would have to be held against
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
            *beyond_switch(measured.arms[1].code, self.run.researcher.switched),
            *unequal_effort(*measured.tries),
        )
        nothing = not_measured(plain, baseline, observed, differences, self.run.claim.quality)
        plain = [undecided(each, nothing.reason if nothing else None) for each in plain]
        arms = Arms(baseline, intervention)
        found = tuple(guarded(each, arms, self.run.claim.quality) for each in corrected(plain))
        untouched = measured.readings(UNTOUCHED) if not measured.wanted_beside and measured.untouched else []
        if untouched and (below := spoilt(found, untouched, intervention)) is not None:
            nothing = below
            found = tuple(undecided(each, below.reason) for each in found)
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
            use=measured.use_of(self.run.claim.data, found),
            untouched=_shared_means([each.scores for each in untouched]),
        )


def _shared_means(scores: Sequence[Scores | None]) -> dict[str, float]:
    """Return the mean of each metric over the units in which it was measured."""
    known = [each for each in scores if each is not None]
    shared = [name for name in known[0] if all(name in each for each in known)] if known else []
    return {name: fmean(each[name] for each in known) for name in shared}


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
