"""The tuned baseline runs beside both arms, where a model wrote the program and a gain would be concluded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from events import catalog as c
from events.kinds import read_spec
from events.kinds.space.claim import Claim
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.effect import Effect
from events.kinds.space.metrics import METRICS
from events.kinds.space.recipe import Recipe
from stages.context import Stage
from stages.kinds.experiment.judging.preconditions import BASELINE
from stages.kinds.experiment.record.ledger import UNTOUCHED, Measured, UnitsState
from stages.kinds.experiment.record.record import arms_with_switch
from stages.kinds.experiment.search.worker_pool import WorkerPool
from stages.kinds.experiment.statistics.region import superior
from stages.kinds.experiment.statistics.validation import Reading, Registration
from stages.kinds.experiment.steps.validating import Outcome, Round, Validating
from stages.kinds.experiment.testing import make_node
from stages.kinds.experiment.trials.template import is_own, program_for
from stages.testing import RecordingReporter, make_context

SEEDS = tuple(range(10))
SPOILT = "def run(task):\n    return trained(task, 0.3 if task.intervention else None)"
PLAN = Registration(METRICS["accuracy"], superior("increase"), len(SEEDS), rows=1797, test_rows=540)
OF_ARM = (0.85, 0.93)


class Measuring(Validating):
    """A validation whose trainings give what the test says, and are counted."""

    reached: Sequence[float]
    trained: Counter[int]

    def _measurement(self, measured: Round, arm: int, seed: int) -> Callable[[int | None], Outcome]:
        accuracy = self.reached[arm] + (seed * (arm + 3) % 7) / 5000

        def measure(_: int | None) -> Outcome:
            self.trained[arm] += 1
            return Outcome(Measured(arm, seed, Reading({"accuracy": accuracy}, 0.1), f"{arm}"), None)

        return measure


def validation(folder: Path, before: float, *, is_built_in: bool = False) -> tuple[Measuring, Any]:
    reporter = RecordingReporter()
    context = make_context(read_spec("experiment", {"idea": "x"}), folder, reporter=reporter)
    claim = Claim(subject="x", effects=(Effect(METRICS["accuracy"], "increase"),), data=SHIPPED["digits"])
    researcher = SimpleNamespace(switched=frozenset({"dropout"}) if is_built_in else None)
    found = Measuring(SimpleNamespace(claim=claim, researcher=researcher, context=context))  # type: ignore[arg-type]  # what it asks of a run
    object.__setattr__(found, "reached", (*OF_ARM, before))
    object.__setattr__(found, "trained", Counter())
    return found, reporter


def first_round(code: str, validating: Measuring) -> Round:
    setup: Any = SimpleNamespace(
        pool=WorkerPool(1),
        units=SimpleNamespace(reserve=None),
        evaluation_set=SimpleNamespace(mark="of a secret"),
    )
    with_switch = make_node("Stage_3", 1, 0.9, code=code)
    nodes = [*(make_node(f"Stage_{number}", 1, 0.9) for number in (1, 2)), with_switch]
    stages: Any = [SimpleNamespace(best=each) for each in nodes]
    untouched = validating._untouched(stages)
    return Round(
        setup, arms_with_switch(with_switch), SEEDS, "validation", (PLAN,), (1, 1), untouched=untouched
    )


def measured(folder: Path, before: float) -> tuple[Measuring, Any, Any]:
    validating, reporter = validation(folder, before)
    first = first_round(SPOILT, validating)
    stage = Stage("validation", validating.run.context)
    validating._measure(first, stage, lambda: None)
    return validating, reporter, validating._judged(stage, first)


def test_who_answers_worse_at_an_own_strength_of_0_has_measured_nothing(tmp_path: Path) -> None:
    validating, reporter, verdicts = measured(tmp_path, before=0.93)
    assert validating.trained == Counter({0: 10, 1: 10, UNTOUCHED: 10})
    assert verdicts.conclusion == "inconclusive"
    assert verdicts.nothing.code == BASELINE
    assert "tuned baseline" in verdicts.reason
    told = {each.name for each in reporter.of(c.StageMetric)}
    assert "test_accuracy_untouched" in told


def test_a_gain_over_both_programs_without_the_intervention_is_one(tmp_path: Path) -> None:
    _, _, verdicts = measured(tmp_path, before=0.86)
    assert verdicts.conclusion == "supported"
    assert verdicts.untouched == {"accuracy": pytest.approx(0.86, abs=0.01)}


def test_where_no_gain_would_be_concluded_the_tuned_baseline_is_not_run(tmp_path: Path) -> None:
    validating, _ = validation(tmp_path, before=0.93)
    object.__setattr__(validating, "reached", (0.93, 0.85, 0.93))
    first = first_round(SPOILT, validating)
    validating._measure(first, Stage("validation", validating.run.context), lambda: None)
    assert validating.trained == Counter({0: 10, 1: 10})


def test_a_program_of_the_products_own_is_its_recipe_where_the_switch_is_off(tmp_path: Path) -> None:
    code = program_for(Recipe(), {"dropout": 0.3})
    assert is_own(code)
    for other in (f"{code}\nspoilt()", code.replace("task.size(", "task.size(1 + "), SPOILT, "RECIPE = {"):
        assert not is_own(other)
    built_in, _ = validation(tmp_path, before=0.93, is_built_in=True)
    assert first_round(code, built_in).untouched is None
    assert first_round(SPOILT, built_in).untouched is not None, "another pod left it"
    modelled, _ = validation(tmp_path, before=0.93)
    assert first_round(code, modelled).untouched is not None


def test_results_of_another_tuned_baseline_are_not_taken(tmp_path: Path) -> None:
    validating, _ = validation(tmp_path, before=0.93)
    first = first_round(SPOILT, validating)
    assert first.untouched is not None
    reading = Reading({"accuracy": 0.1})
    left = tuple(Measured(arm, 3, reading, "digest") for arm in (0, 1, UNTOUCHED))
    state = UnitsState(first.codes, PLAN.rows, PLAN.test_rows, left, untouched=first.untouched.code)
    for kept, arms in ((state, {0, 1, UNTOUCHED}), (replace(state, untouched="another"), {0, 1})):
        again = first_round(SPOILT, validating)
        again.take_from(kept)
        assert {arm for arm, _ in again.results} == arms
