"""Programs that cheat against the judge: none of them ends in a verdict that supports its claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.metrics import METRICS, QUALITY
from events.runtime.clock import SystemClock
from stages.adapters.sandbox.sandbox import LocalSandbox
from stages.isolation.sandbox import JobLimits
from stages.kinds.experiment.data.loading import divided, load_table
from stages.kinds.experiment.judging.disguise import disguise_of
from stages.kinds.experiment.judging.evaluation_set import Judges, write_evaluation_set
from stages.kinds.experiment.judging.preconditions import BASELINE as BELOW
from stages.kinds.experiment.judging.preconditions import NO_EFFECT, NotMeasured, Observed, not_measured
from stages.kinds.experiment.judging.references import references_on
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.judging.switch import beyond_switch, text_of
from stages.kinds.experiment.judging.untouched import spoilt
from stages.kinds.experiment.record.ledger import Measured
from stages.kinds.experiment.record.record import ARMS
from stages.kinds.experiment.statistics.guards import WORSE, Arms, guarded
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.scores import naive_quality
from stages.kinds.experiment.statistics.validation import (
    CAUGHT,
    NO_SPREAD,
    TOO_GOOD,
    Judgement,
    Reading,
    Registration,
    doubted,
    judge,
    pairs_of,
)
from stages.kinds.experiment.tree import Arm
from stages.kinds.experiment.trials.trial import Bench, Trial, Trials, write_data
from stages.kinds.experiment.trials.units import Units
from stages.models.budget import Budget
from tests.integration.programs.cheats import (
    BASELINE,
    CHARMED,
    CHEATS,
    FORKS,
    HIDDEN,
    HONEST,
    IGNORES,
    LASTS,
    PRELUDE,
    PRETENDS,
    REACHES,
    SABOTAGES,
    SLOW,
    SPOILS,
    TRADES,
    hiding,
    slow,
)
from tests.integration.programs.leavings import PROGRAM, SAID

SEEDS = tuple(range(1, 11))
UNITS = SEEDS[:6]  # each a split and a process of its own
OTHER_SEEDS = SEEDS[:3]  # where no verdict is asked for


@dataclass
class TrialSetup:
    """One data set, its judge, and the baseline that every program is held against."""

    bench: Bench
    judges: Judges
    folder: Path
    units: Units
    naive: float
    baseline: Trials | None = None
    count: int = 0

    def tried(self, code: str, seeds: Sequence[int] = SEEDS) -> Trials:
        self.count += 1
        return self.bench.run(code, seeds=seeds, judges=self.judges, folder=self.folder / str(self.count))

    def apart(self, code: str) -> Trials:
        """Return what came of a program from each seed in a process of its own, as a verdict has it."""
        self.count += 1
        folders = {seed: self.folder / str(self.count) / str(seed) for seed in OTHER_SEEDS}
        found = [
            self.bench.run(code, seeds=(seed,), judges=self.judges, folder=folder)
            for seed, folder in folders.items()
        ]
        return Trials(tuple(each.trials[0] for each in found), sum(each.seconds for each in found))

    def verdict(
        self, code: str, metric: str = "nll", baseline: Trials | None = None
    ) -> tuple[Judgement, Trials]:
        """Return the verdict on the claim that `code` lowers a measure, or raises it where more is better."""
        trials, baseline = self.tried(code), baseline or self.baseline
        assert baseline is not None
        return self.judged(metric, baseline, trials), trials

    def judged(self, metric: str, baseline: Trials, trials: Trials) -> Judgement:
        """Return the verdict on two programs, as the pipeline gives it, from trainings on one split.

        Time is a little apart from training to training, as it is in processes of their own.
        """
        one, other = ([self.reading(each) for each in both.trials] for both in (baseline, trials))
        return concluded(metric, one, other)

    def reading(self, trial: Trial) -> Reading:
        if trial.scores is None:
            return trial.reading(self.naive)
        seconds = trial.scores["training_seconds"] * (1 + trial.seed / 1000)
        return replace(trial, scores={**trial.scores, "training_seconds": seconds}).reading(self.naive)

    def over_units(self, code: str, arm: Arm = "baseline") -> list[Reading]:
        """Return what a program gives in units, each a split and a process of its own."""
        return [each.reading for each in self.measured(code, arm)]

    def switched(self, code: str) -> tuple[Judgement, NotMeasured | None]:
        """Return what units say of a program with its switch off and on, and why that is nothing."""
        off, on = (self.measured(code, arm, refers=arm == ARMS[0]) for arm in ARMS)
        one, other = ([each.reading for each in both] for both in (off, on))
        observed = [
            Observed((mine.answers, theirs.answers), mine.references)
            for mine, theirs in zip(off, on, strict=True)
        ]
        judgement = concluded("accuracy", one, other)
        quality = METRICS["accuracy"]
        return judgement, not_measured([judgement], one, observed, beyond_switch(code), quality)

    def measured(self, code: str, arm: Arm, *, refers: bool = False) -> list[Measured]:
        self.count += 1
        found = []
        for seed in UNITS:
            with self.units.opened(seed) as unit:
                bench = replace(self.bench, facts=unit.facts, data=unit.data)
                folder = self.folder / str(self.count) / str(seed)
                text = text_of(code, is_on=arm == ARMS[1]) or code
                how = {"judges": unit.judges, "folder": folder, "arm": ARMS[1]}  # as the pipeline does
                (trial,) = bench.run(text, seeds=(seed,), **how).trials
                references = (
                    references_on(unit.facts.task, QUALITY[unit.facts.task], unit.known, unit.judges)
                    if refers
                    else {}
                )
                reading = trial.reading(unit.naive)
                found.append(Measured(ARMS.index(arm), seed, reading, trial.answers, references))
        return found


def concluded(metric: str, one: Sequence[Reading], other: Sequence[Reading]) -> Judgement:
    """Return what follows for the claim that a measure becomes better."""
    measure = METRICS[metric]
    region = superior("increase" if measure.higher_is_better else "decrease")
    plan = Registration(measure, region, len(one), rows=150, test_rows=45)
    judgement = judge(pairs_of(SEEDS[: len(one)], one, other, measure), plan)
    found = guarded(judgement, Arms(one, other), QUALITY["classification"])
    return doubted(found, measure)


@pytest.fixture(scope="module")
def trial_setup(tmp_path_factory: pytest.TempPathFactory) -> TrialSetup:
    folder = tmp_path_factory.mktemp("trials")
    secret = Secret("nobody knows")
    table = load_table(SHIPPED["iris"])
    data = divided(table, "iris", seed=0)
    disguise = disguise_of(data, secret, is_public=True)
    hidden = disguise.worn(data)
    bench = Bench(
        facts=hidden.data.facts,
        data=write_data(folder / "data", hidden.data.visible),
        sandbox=LocalSandbox(clock=SystemClock()),
        limits=JobLimits(wall_s=30.0, memory_mib=1024),
        spending=Budget(clock=SystemClock()),
        measured=frozenset({"nll"}),
        epochs=2,
        device="cpu",
        secret=Secret("of seeds"),
        places=folder / "programs",
    )
    judges = write_evaluation_set(folder / "data", hidden, secret).test()
    naive = naive_quality(METRICS["accuracy"], hidden.data.visible.train.targets, judges.targets)
    units = Units(table, "iris", 10, None, METRICS["accuracy"], disguise, secret, folder / "units")
    found = TrialSetup(bench, judges, folder, units, naive)
    found.baseline = found.tried(BASELINE)
    assert found.baseline.error is None
    return found


def known_by_heart() -> str:
    known = load_iris()
    rows, labels = known.data.tolist(), known.target.tolist()
    return f"import numpy as np\nROWS = np.array({rows})\nLABELS = np.array({labels})\n"


def test_an_honest_program_that_learns_more_is_believed(trial_setup: TrialSetup) -> None:
    judgement, trials = trial_setup.verdict(HONEST)
    assert (judgement.verdict, trials.error) == ("pass", None), judgement


@pytest.mark.parametrize("name", CHEATS)
def test_a_program_that_cheats_is_never_believed(trial_setup: TrialSetup, name: str) -> None:
    judgement, _ = trial_setup.verdict(PRELUDE + known_by_heart() + CHEATS[name])
    assert judgement.verdict == "fail", judgement


@pytest.mark.parametrize("name", TRADES)
def test_a_measure_that_is_bought_with_the_quality_of_answers_supports_no_claim(
    trial_setup: TrialSetup, name: str
) -> None:
    """Where the machine is busy, time itself may not show it: then nobody asks for the reason."""
    metric, baseline, code = TRADES[name]
    one = trial_setup.baseline if baseline is BASELINE else trial_setup.tried(baseline)
    judgement, trials = trial_setup.verdict(code, metric, one)
    assert trials.error is None
    assert judgement.verdict == "fail"
    assert judgement.reason == WORSE or metric == "training_seconds"


@pytest.mark.slow("six trainings of both arms, each of which waits or works for half a second")
@pytest.mark.parametrize("name", SLOW)
def test_a_baseline_that_waits_makes_nothing_faster(trial_setup: TrialSetup, name: str) -> None:
    """Where the machine is busy the time itself may not show it: then nobody asks for the reason."""
    one, other = (trial_setup.tried(slow(deed), UNITS) for deed in SLOW[name])
    assert (one.error, other.error) == (None, None)
    judgement = trial_setup.judged("training_seconds", one, other)
    assert judgement.verdict == "fail", judgement


def test_processor_time_is_measured_outside_or_unknown(trial_setup: TrialSetup) -> None:
    deeds = ("work(0.3)", f"{FORKS}\n    os.waitpid(child, 0)", f"{IGNORES}{FORKS}{LASTS}")
    mine, waited, lost = (trial_setup.tried(slow(deed), SEEDS[:1]).trials[0].processor_s for deed in deeds)
    assert mine is not None
    assert waited is not None
    assert min(mine, waited) > 0.3
    assert lost is None or lost > 0.3, "a control group counts whom nobody waits for"


def answering(answers: np.ndarray) -> str:
    return f"import numpy as np\ndef run(task):\n    return np.array({answers.tolist()})\n"


def leaked(trial_setup: TrialSetup, *, canaries: bool, sure: float = 1.0) -> np.ndarray:
    """Return the answers of who was told the targets of the rows that judge, or of the canaries too."""
    answers = np.full((trial_setup.judges.total, 3), 1 / 3)
    answers[trial_setup.judges.rows] = np.eye(3)[trial_setup.judges.targets] * sure + (1 - sure) / 3
    if canaries:
        answers[trial_setup.judges.canaries.rows] = np.eye(3)[trial_setup.judges.canaries.sides[:, 0]]
    return answers


def test_who_was_told_what_judges_is_found_out(trial_setup: TrialSetup) -> None:
    judgement, trials = trial_setup.verdict(answering(leaked(trial_setup, canaries=True, sure=0.3)))
    assert (judgement.verdict, judgement.reason) == ("fail", CAUGHT)
    assert "a coin decided" in (trials.error or "")


def test_what_is_too_good_asks_for_replication(trial_setup: TrialSetup) -> None:
    judgement, trials = trial_setup.verdict(answering(leaked(trial_setup, canaries=False)))
    assert (judgement.verdict, judgement.reason, trials.error) == ("fail", TOO_GOOD, None)


def test_time_is_that_of_the_sandbox_whatever_a_program_says(trial_setup: TrialSetup) -> None:
    code = PRELUDE + CHEATS["say that it took no time and learnt nothing"].replace(
        "    task.size(0)", "    time.sleep(0.3)"
    )
    trials = trial_setup.tried(code)
    assert trials.error is None
    assert all(each.scores and each.scores["training_seconds"] > 0.3 for each in trials.trials)


TRAINED_ONCE = (
    PRELUDE
    + """
KEPT = []
def cheat(task):
    if not KEPT:
        time.sleep(0.3)  # stands for a training
        KEPT.append(uniform(task))
    return KEPT[0]
"""
)


def test_who_trains_once_for_all_seeds_takes_as_long_for_each(trial_setup: TrialSetup) -> None:
    trials = trial_setup.apart(TRAINED_ONCE)
    assert trials.error is None
    assert all(each.scores and each.scores["training_seconds"] > 0.3 for each in trials.trials)


@pytest.mark.parametrize("jitter", ["", " + 1e-12 * np.random.random((len(task.judge), task.outputs))"])
def test_differences_that_are_the_same_in_all_trainings_show_nothing(
    trial_setup: TrialSetup, jitter: str
) -> None:
    code = HONEST.replace("task.seed", "7").rstrip() + jitter
    judgement, trials = trial_setup.verdict(
        code, baseline=trial_setup.tried(BASELINE.replace("task.seed", "7"))
    )
    assert (judgement.conclusion, judgement.reason, trials.error) == ("inconclusive", NO_SPREAD, None)


@pytest.mark.slow("thirty trainings, some of them in processes and on splits of their own")
def test_a_lucky_charm_in_the_place_of_the_seed_is_no_effect(trial_setup: TrialSetup) -> None:
    """Both arms are the same training; on one split the charm helps in each of ten."""
    on_one_split, _ = trial_setup.verdict(CHARMED % 1, baseline=trial_setup.tried(CHARMED % 0))
    assert on_one_split.conclusion == "supported", "so it is the splits that say what chance is"
    without, charmed = (trial_setup.over_units(CHARMED % charm) for charm in (0, 1))
    judgement = concluded("nll", without, charmed)
    assert judgement.conclusion == "inconclusive", judgement


def test_no_way_leads_from_a_program_to_what_judges(trial_setup: TrialSetup) -> None:
    trials = trial_setup.tried(REACHES, SEEDS[:1])
    assert trials.error is None
    assert "GOT {}" in trials.log_tail, trials.log_tail


def test_whatever_a_seed_leaves_costs_that_seed_alone_and_is_named(trial_setup: TrialSetup) -> None:
    *hostile, honest = trial_setup.tried(PROGRAM, range(len(SAID) + 1)).trials
    for trial, words in zip(hostile, SAID, strict=True):
        assert trial.scores is None
        assert words in (trial.error or ""), trial
    assert (honest.error, honest.scores is None) == (None, False)
    assert not any(trial_setup.bench.places.iterdir())


@pytest.mark.slow("twelve trainings in processes and on splits of their own")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("code", "said"), [(SABOTAGES, BELOW), (PRETENDS, NO_EFFECT)])
def test_a_program_that_knows_of_its_switch_gains_nothing_by_it(
    trial_setup: TrialSetup, code: str, said: str
) -> None:
    judgement, nothing = trial_setup.switched(code)
    assert nothing is not None
    assert nothing.code == said
    assert (judgement.conclusion == "supported") == (code == SABOTAGES), "by its numbers alone"


@pytest.mark.slow("twenty-four trainings in processes and on splits of their own")
@pytest.mark.timeout(300)
def test_a_program_that_spoils_answers_at_its_own_strength_of_0_gains_nothing(
    trial_setup: TrialSetup,
) -> None:
    """Both arms are one text, and nothing beside the strength differs by its syntax."""
    judgement, nothing = trial_setup.switched(SPOILS)
    assert (judgement.conclusion, nothing) == ("supported", None), "by both arms alone"
    before, with_it = (
        trial_setup.over_units(code, arm) for code, arm in ((HONEST, ARMS[0]), (SPOILS, ARMS[1]))
    )
    found = spoilt([judgement], before, with_it)
    assert found is not None
    assert found.code == BELOW


@pytest.mark.slow("twelve trainings in processes and on splits of their own")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "way",
    [
        *list(HIDDEN)[:2],
        *(pytest.param(each, marks=pytest.mark.long("the other ways")) for each in list(HIDDEN)[2:]),
    ],
)
def test_a_program_that_reads_its_switch_in_secret_finds_none(trial_setup: TrialSetup, way: str) -> None:
    judgement, _ = trial_setup.switched(hiding(HIDDEN[way]))
    assert judgement.conclusion == "inconclusive", judgement
