"""What a program may answer, and what is believed of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from events.files.tree_removal import remove_tree
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.recipe import Recipe
from events.runtime.clock import SystemClock
from events.runtime.errors import PipelineError
from stages.isolation.sandbox import JobLimits
from stages.kinds.experiment.data.loading import prepare
from stages.kinds.experiment.judging.disguise import disguise_of
from stages.kinds.experiment.judging.evaluation_set import Judges, write_evaluation_set
from stages.kinds.experiment.judging.program_output import Report, ReportedPoint
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.seeds import seed_for, unit_seeds
from stages.kinds.experiment.trials.template import program_for
from stages.kinds.experiment.trials.trial import Bench, Trials, curve_of, write_data
from stages.models.budget import Budget
from stages.ports import Tools

GOOD = """
import numpy as np
def run(task):
    task.point(1, 0.5, 0.4)
    task.size(7)
    return np.full((len(task.judge), task.outputs), 1.0 / task.outputs)
"""


class Workplace:
    """A bench over one data set, and a new folder for each program."""

    def __init__(
        self,
        home: Path,
        tools: Tools,
        name: str = "iris",
        *,
        wall_s: float = 30.0,
        budget: Budget | None = None,
    ) -> None:
        secret = Secret("of a test")
        hidden = disguise_of(data := prepare(SHIPPED[name], seed=0), secret, is_public=True).worn(data)
        data = hidden.data
        self.home, self.count = home, 0
        self.bench = Bench(
            facts=data.facts,
            data=write_data(home / "data", data.visible),
            sandbox=tools.sandbox,
            limits=JobLimits(wall_s=wall_s),
            spending=budget or Budget(clock=SystemClock()),
            measured=frozenset({"accuracy"} if data.facts.task == "classification" else {"rmse"}),
            epochs=2,
            device="cpu",
            secret=Secret("of seeds"),
            places=home / "programs",
        )
        self.judges: Judges = write_evaluation_set(home / "data", hidden, secret).validation

    def run(self, code: str, *seeds: int) -> Trials:
        self.count += 1
        folder = self.home / str(self.count)
        return self.bench.run(code, seeds=seeds or (1,), judges=self.judges, folder=folder)


def test_answers_are_scored_outside_and_reports_are_kept(tools: Tools, tmp_path: Path) -> None:
    trials = Workplace(tmp_path, tools).run(GOOD, 1, 2)
    assert trials.error is None
    assert [each.seed for each in trials.trials] == [1, 2]
    scores = trials.trials[0].scores
    assert scores is not None
    assert scores["parameters"] == 7
    assert 0.2 < scores["accuracy"] < 0.5
    assert [point.watch_loss for point in trials.trials[0].curve] == [0.4]


def test_a_program_goes_on_as_long_as_the_pods_time_is_paid_for(tools: Tools, tmp_path: Path) -> None:
    budget = Budget(clock=SystemClock(), max_cost_usd=3.0, pod_usd_per_hour=3600.0)
    endless = "import time\n\ndef run(task):\n    time.sleep(60)\n"
    with pytest.raises(PipelineError, match="3 USD") as raised:
        Workplace(tmp_path, tools, budget=budget).run(endless)
    assert raised.value.code == "BUDGET_EXCEEDED", "it is no failure of the program"
    assert 3.0 < budget.spent().pod_usd < 20.0


# what the program does, and a part of what is said of it
BAD = [
    ("def run(task): raise KeyError('no such column')", "no such column"),
    ("import sys\ndef run(task): sys.exit(3)", "exited"),
    ("def walk(task): return 1", "no function run"),
    ("def run(task) return 1", "exited"),
    ("import numpy as np\ndef run(task): return np.ones((3, 2))", "shape"),
    (
        "import numpy as np\ndef run(task): return np.full((len(task.judge), task.outputs), np.nan)",
        "not finite",
    ),
    ("import numpy as np\ndef run(task): return np.ones((len(task.judge), task.outputs))", "add up to 1"),
    (
        "import numpy as np\ndef run(task): return np.eye(task.outputs)[[0] * len(task.judge)] * 2 - 0.5",
        "add up",
    ),
    ("def run(task): return 'everything is right'", "could not convert"),
    ("def run(task): return None", "could not convert|not finite|shape"),
    (GOOD.replace("task.size(7)", "task.point(1, float('nan'), 1)"), "report"),
]


@pytest.mark.parametrize(("code", "said"), BAD)
def test_a_program_that_does_wrong_has_no_scores_and_a_reason(
    tools: Tools, tmp_path: Path, code: str, said: str
) -> None:
    trials = Workplace(tmp_path, tools).run(code)
    (trial,) = trials.trials
    assert trial.scores is None
    assert any(each in (trial.error or "") for each in said.split("|")), trial.error


def test_answers_are_not_written_through_a_link_of_the_program(tools: Tools, tmp_path: Path) -> None:
    other = tmp_path / "of another"
    other.write_text("as it was")
    Workplace(tmp_path, tools).run(
        GOOD.replace("task.size(7)", f"import os; os.symlink({str(other)!r}, 'answers-1.npy')")
    )
    assert other.read_text() == "as it was"


def test_a_seed_that_fails_does_not_take_the_others_along(tools: Tools, tmp_path: Path) -> None:
    place = Workplace(tmp_path, tools)
    odd = place.bench.secret.seed(2)
    code = GOOD.replace("task.point", f"assert task.seed != {odd}, 'an odd seed'\n    task.point")
    trials = place.run(code, 1, 2, 3)
    assert [each.scores is None for each in trials.trials] == [False, True, False]
    assert "an odd seed" in (trials.error or "")


def test_a_program_that_hangs_is_ended_and_says_so(tools: Tools, tmp_path: Path) -> None:
    trials = Workplace(tmp_path, tools, wall_s=1.0).run("def run(task):\n    while True: pass")
    assert "timed out" in (trials.error or "")


def test_what_judges_a_program_is_not_told_to_it(tools: Tools, tmp_path: Path) -> None:
    code = (
        "def run(task):\n    assert task.judge.targets is None\n    print(task.__dict__)\n"
        "    raise ValueError('seen')"
    )
    place = Workplace(tmp_path, tools)
    assert "seen" in (place.run(code).error or "")
    for file in (tmp_path / "data").iterdir():
        with np.load(file) if file.suffix == ".npz" else _one(file) as arrays:
            lengths = {name: len(arrays[name]) for name in arrays}
        assert len(place.judges.targets) not in {n for name, n in lengths.items() if name.endswith("targets")}


class _one(dict[str, np.ndarray]):
    def __init__(self, file: Path) -> None:
        super().__init__(features=np.load(file))

    def __enter__(self) -> _one:
        return self

    def __exit__(self, *_: object) -> None:
        return None


KEEPING = """
import os, time
assert not os.path.exists("kept")
KEPT = []
def run(task):
    KEPT.append("what was learnt")
    open("kept", "w").close()
    time.sleep(0.1)
    task.size(len(KEPT))
    return [[1.0 / task.outputs] * task.outputs] * len(task.judge)
"""


def test_what_a_program_keeps_of_one_seed_helps_it_with_none_that_is_asked_for_alone(
    tools: Tools, tmp_path: Path
) -> None:
    """Else it trains once for all: in a share of the time, or for longer than the time that it has."""
    place = Workplace(tmp_path, tools)
    for seed in (1, 2):
        (trial,) = place.run(KEEPING, seed).trials
        assert trial.scores is not None, trial.error
        assert trial.scores["parameters"] == 1
        assert trial.scores["training_seconds"] > 0.1


def test_a_folder_is_used_once(tools: Tools, tmp_path: Path) -> None:
    place = Workplace(tmp_path, tools)
    place.run(GOOD)
    place.count = 0
    with pytest.raises(FileExistsError):
        place.run(GOOD)


def mean_of(programs: Sequence[str]) -> str:
    """Return a program that runs all of these, and answers the mean of what they answer."""
    return (
        f"PROGRAMS = {list(programs)!r}\n"
        "def answers(number, task):\n"
        "    names = {}\n"
        "    exec(PROGRAMS[number], names)\n"
        "    try:\n"
        "        return names['run'](task)\n"
        "    except Exception as error:\n"
        "        raise RuntimeError(f'program {number}') from error\n"
        "def run(task):\n"
        "    return sum(answers(number, task) for number in range(len(PROGRAMS))) / len(PROGRAMS)\n"
    )


@pytest.mark.parametrize("data", ["iris", "digits"])
def test_every_intervention_is_a_program_that_runs(tools: Tools, tmp_path: Path, data: str) -> None:
    tried = [
        (name, changes)
        for name, each in INTERVENTIONS.items()
        if (data == "digits") == ("images" in each.needs)
        for changes in (each.off, *each.strengths)
    ]
    programs = [
        program_for(Recipe(epochs=2).changed(INTERVENTIONS[name].off).changed(changes))
        for name, changes in tried
    ]
    assert len(programs) > 2
    trials = Workplace(tmp_path, tools, data).run(mean_of(programs))
    assert trials.error is None, (tried, trials.log_tail)


def test_the_same_program_and_seed_answer_the_same(tools: Tools, tmp_path: Path) -> None:
    place = Workplace(tmp_path, tools, "diabetes")
    code = program_for(Recipe(epochs=2, dropout=0.2, noise=0.1, mix_up=0.2, members=2))
    one, two = (place.run(code, 5).trials[0] for _ in range(2))
    assert one.scores is not None
    assert two.scores is not None
    assert {**one.scores, "training_seconds": 0} == {**two.scores, "training_seconds": 0}
    assert one.curve == two.curve


def test_no_seed_tells_a_program_the_stage_for_which_it_runs(tools: Tools, tmp_path: Path) -> None:
    """Whoever knows how seeds follow from the run's can be bad on the day that counts."""
    search, fresh = [seed_for(7, "Stage_1/1", 0)], unit_seeds(7, 2, ())
    bad = f"    assert task.seed not in {[*search, *fresh]}, 'the day that counts'\n"
    place = Workplace(tmp_path, tools)
    trials = place.run(GOOD.replace("    task.size", f"{bad}    task.size"), *search, *fresh)
    assert trials.error is None
    assert [each.seed for each in trials.trials] == [*search, *fresh]


def test_a_program_that_leaves_folders_without_end_costs_its_own_trial_nothing_else(
    tools: Tools, tmp_path: Path
) -> None:
    deep = """
import os
at = os.open(".", os.O_RDONLY)
for _ in range(2_000):
    os.mkdir("d", dir_fd=at)
    at, above = os.open("d", os.O_RDONLY, dir_fd=at), at
    os.close(above)
"""
    place = Workplace(tmp_path, tools)
    try:
        assert place.run(deep + GOOD).error is None
        assert list(place.bench.places.iterdir()) == []
    finally:
        remove_tree(tmp_path)  # what is left of it would end who cleans up after all tests


@pytest.mark.parametrize("loss", [math.nan, math.inf, 1e200, -1e200])
def test_a_loss_that_no_checkpoint_takes_is_left_out(loss: float) -> None:
    points = [ReportedPoint(1, 0.5, 0.4), ReportedPoint(2, loss, 0.4), ReportedPoint(3, 0.5, loss)]
    (kept,) = curve_of(Report(curve=points))
    assert (kept.epoch, kept.train_loss, kept.watch_loss) == (1, 0.5, 0.4)
