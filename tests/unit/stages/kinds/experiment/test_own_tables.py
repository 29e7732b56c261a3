"""Experiments on tables of one's own: whole patients on one side, later rows judge, warnings are told."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from events import catalog as c
from events.kinds import read_spec
from events.kinds.experiment import ClaimRegistered, DataWarned
from stages.kinds.experiment import pipeline
from stages.kinds.experiment.data.columns import Table
from stages.kinds.experiment.data.loading import Data, divided
from stages.kinds.experiment.statistics import looks
from stages.kinds.experiment.steps import experiment_run
from stages.kinds.experiment.trials import units
from stages.pipeline import run_pipeline
from stages.ports import Tools
from stages.testing import RecordingReporter, make_context

pytestmark = pytest.mark.usefixtures("small_pictures", "short_trainings", "small_papers")
TINY = {"Stage_1": 1, "Stage_2": 1, "Stage_4": 1}
PATIENTS, VISITS = 40, 25
UNITS = 6


@pytest.fixture(autouse=True)
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "UNITS", UNITS)
    quick = replace(experiment_run.PRESETS["quick"], repeats=1, epochs=1)
    monkeypatch.setitem(experiment_run.PRESETS, "quick", quick)


def make_visits(path: Path) -> Path:
    """Write the visits of patients, a row each, and the month of each."""
    chance = np.random.default_rng(7)
    lines = []
    for patient in range(PATIENTS):
        own = chance.standard_normal(3)
        for _ in range(VISITS):
            seen = own + 0.6 * chance.standard_normal(3)
            is_ill = own[0] - own[1] + 0.7 * chance.standard_normal() > 0
            values = ",".join(f"{each:.3f}" for each in seen)
            lines.append(f"P{patient:03d},{chance.integers(17)},{values},{'yes' if is_ill else 'no'}")
    path.write_text("\n".join(["patient,month,age,dose,pulse,ill", *lines]) + "\n")
    return path


@dataclass
class Seen:
    """A run, the rows of each unit by part, and the table that they are of."""

    reporter: RecordingReporter
    units: list[tuple[int, Data]]
    table: Table

    def log(self) -> list[str]:
        return [each.message for each in self.reporter.of(c.RunLog)]

    def paper(self) -> str:
        """Return the paper's source without its marks."""
        (file,) = [each for each in self.reporter.files if each.name == "paper/paper.tex"]
        plain = re.sub(r"\\(?:val\{[^{}]*\}|said)\{([^{}]*)\}", r"\1", file.path.read_text())
        return " ".join(plain.split())


def failed(tools: Tools, folder: Path, idea: str, **spec: str) -> list[c.RunFailed]:
    """Return how a run fails that does not begin."""
    reporter = RecordingReporter()
    begin(tools, folder, idea, reporter, **spec)
    assert not reporter.of(c.StageStarted)
    return reporter.of(c.RunFailed)


def begin(tools: Tools, folder: Path, idea: str, reporter: RecordingReporter, **spec: str) -> None:
    make_visits(folder / "visits.csv")
    raw = {"idea": idea, "preset": "quick", "nodes": TINY, "dataset": "visits.csv#ill", "seed": 3, **spec}
    allowed = replace(tools, data_sets=(folder,))
    context = make_context(read_spec("experiment", raw), folder / "work", reporter=reporter, tools=allowed)
    run_pipeline(pipeline.run, context)


def experiment(tools: Tools, folder: Path, idea: str, **spec: str) -> Seen:
    seen: list[tuple[int, Data]] = []
    tables: list[Table] = []

    def noted(table: Table, name: str, **how: Any) -> Data:
        data = divided(table, name, **how)
        seen.append((how["unit"][0], data))
        tables.append(table)
        return data

    reporter = RecordingReporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "divided", noted)
        begin(tools, folder, idea, reporter, **spec)
    assert isinstance(reporter.facts[-1], c.RunCompleted), reporter.facts[-1]
    return Seen(reporter, seen, tables[0])


def sides(data: Data, values: Any) -> tuple[set[Any], set[Any]]:
    """Return the values of the rows that are learnt from, and of those that judge."""
    learnt = data.sizes["train"] + data.sizes["watch"]
    judging = learnt + data.sizes["validation"]
    places = data.places
    return {*values[places[:learnt]]}, {*values[places[judging : judging + data.sizes["test"]]]}


def test_no_patient_is_learnt_from_and_judges(tools: Tools, tmp_path: Path) -> None:
    seen = experiment(tools, tmp_path, "Dropout raises the recall of class yes", group="patient")
    assert seen.table.along is not None
    drawn = set()
    for _, data in seen.units:
        learnt, judging = sides(data, seen.table.along.values)
        assert not learnt & judging
        assert len(judging) == 12
        drawn.add(frozenset(judging))
    assert len(drawn) == UNITS
    (registered,) = seen.reporter.of(ClaimRegistered)
    assert registered.unit.startswith("a random split of the rows by whole groups of patient")
    assert (registered.metric, registered.units, registered.test_rows) == ("recall_of_yes", UNITS, 300)
    assert registered.seen_at_worst is None
    (verdict,) = seen.reporter.of(c.ValidationAutoCompleted)
    assert len(verdict.scores["baseline"]) == UNITS
    assert {"recall_of_yes", "balanced_accuracy", "accuracy"} <= verdict.scores["means"].keys()
    assert verdict.scores["numbers_untraced"] == []
    assert seen.reporter.of(DataWarned) == []
    assert "a random split by whole groups of patient of all 1000 rows" in seen.paper()


def test_later_months_judge_and_the_verdict_says_that_there_are_fewer_units(
    tools: Tools, tmp_path: Path
) -> None:
    seen = experiment(tools, tmp_path, "Dropout improves balanced accuracy", time="month")
    assert seen.table.along is not None
    months: dict[int, set[Any]] = {}
    for place, data in seen.units:
        learnt, judging = sides(data, seen.table.along.values)
        assert max(learnt) < min(judging)
        assert months.setdefault(place, judging) == judging
    assert sorted(months) == [*range(UNITS - 1)]
    assert sum(map(len, months.values())) == len(set().union(*months.values()))
    (registered,) = seen.reporter.of(ClaimRegistered)
    assert registered.unit.startswith("a window that rolls along month")
    assert registered.units == UNITS - 1
    (verdict,) = seen.reporter.of(c.ValidationAutoCompleted)
    assert verdict.scores["units_registered"] == UNITS - 1
    assert "fewer than were wanted, for the data have no more moments" in verdict.summary
    paper = seen.paper()
    assert "a window that rolls along month, whose latest rows judge" in paper
    warning = "Column 'patient' has 40 values of 25 rows each: say group: patient if rows of one"
    (warned,) = seen.reporter.of(DataWarned)
    assert warned.says.startswith(warning)
    assert any(each.startswith(warning) for each in seen.log())
    assert warning in paper


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"group": "person"}, "it has no column 'person'; its columns: 'patient', 'month', 'age'"),
        ({"time": "patient"}, "the column 'patient' holds no times"),
    ],
)
def test_a_run_that_names_no_such_column_ends_with_words_before_anything_is_tried(
    tools: Tools, tmp_path: Path, spec: dict[str, str], words: str
) -> None:
    (failure,) = failed(tools, tmp_path, "Dropout improves accuracy", **spec)
    assert (failure.code, failure.retryable) == ("CONFIG", False)
    assert words in failure.message
