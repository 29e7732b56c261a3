"""Trials: a program is executed in the sandbox for several seeds, and its answers are scored here.

Law: a program is given the targets of the rows it learns from and watches, never of those that judge it. It
cannot distinguish the rows that count now: nothing that it is given names a stage, and its seeds follow
from the run's secret. Seeds of one request share a process, and a program may keep something from one for
the next. So each seed that decides a verdict is requested alone. Every answer is checked before it counts,
and time is the sandbox's own. What a program reports of itself (parameters, curve) is bounded, and marked
as its claim.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from events.files.tree_removal import remove_tree
from events.kinds.experiment import Arm
from events.runtime.errors import PipelineError
from stages.bounds import NUMBER_MAX
from stages.isolation.sandbox import Ended, Job, JobLimits, Sandbox
from stages.kinds.experiment.data.loading import Facts, Visible
from stages.kinds.experiment.judging.evaluation_set import Judges
from stages.kinds.experiment.judging.program_output import Known, Mistake, Report, read_answers, read_report
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.record.record import Point
from stages.kinds.experiment.statistics.scores import Floats, class_scores, scores_by_class, value_scores
from stages.kinds.experiment.statistics.validation import Reading

POINTS_KEPT: Final = 250  # more would only be drawn on top of each other
ERROR_CHARS: Final = 500
SCRIPT: Final = "runner.py"
LOST: Final = frozenset({"not_started", "lost"})  # ends that are the machine's doing
TIME_MIN_S: Final = 0.1
LOSSES_MAX: Final = 2  # of one execution, before another pod tries it


@dataclass(frozen=True, slots=True)
class Trial:
    """The measurements of a program from one seed; `error` in the place of scores.

    `is_caught` is whether it knew targets that it was not given, `is_lost` whether the machine did not begin it or
    ended it, `processor_s` its processor time, and `answers` a digest of the answers that count.
    """

    seed: int
    scores: Mapping[str, float] | None = None
    curve: tuple[Point, ...] = ()
    error: str | None = None
    is_caught: bool = False
    is_lost: bool = False
    processor_s: float | None = None
    answers: str = ""

    def reading(self, naive: float) -> Reading:
        """Return what the validation keeps of it, beside the quality of the best constant answer."""
        assert not self.is_lost, "a training that the machine lost measures nothing"
        return Reading(self.scores, naive, is_caught=self.is_caught, processor_s=self.processor_s)


class MachineLost(PipelineError):
    """The machine did not begin a program, or ended it, again and again: it is the fault of the pod."""

    def __init__(self, message: str) -> None:
        super().__init__("MACHINE_LOST", message, retryable=True)


@dataclass(frozen=True, slots=True)
class Trials:
    """What came of one execution: a trial a seed, how long it took, and the end of what was printed."""

    trials: tuple[Trial, ...]
    seconds: float
    log_tail: str = ""

    @property
    def error(self) -> str | None:
        """Return why the first seed that failed did so; None where none failed."""
        return next((each.error for each in self.trials if each.error is not None), None)


class Spending(Protocol):
    """What a run may still spend."""

    def time_left_s(self) -> float:
        """Return for how many seconds the pod's time may go on; infinite where nothing limits it."""
        ...

    def check(self) -> None:
        """Raises `PipelineError` BUDGET_EXCEEDED where more is spent than allowed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where programs are tried: the data that they see, the sandbox, and the limits of one seed."""

    facts: Facts
    data: Path
    sandbox: Sandbox
    limits: JobLimits
    spending: Spending
    measured: frozenset[str]  # the scores without which a trial is worth nothing
    epochs: int
    device: str
    secret: Secret = field(repr=False)
    places: Path  # where programs run, each in a folder of a name that says nothing

    def run(
        self,
        code: str,
        *,
        seeds: Sequence[int],
        judges: Judges,
        folder: Path,
        arm: Arm = "baseline",
        gpu: int | None = None,
    ) -> Trials:
        """Run `code` once a seed, in one process, with its switch as the arm has it; what is lost is run again.

        `folder`, which must be new, names the execution to us, and to no program. Raises `MachineLost` where
        the machine loses it `LOSSES_MAX` times: such an execution never counts, so that no program gains by
        an end that looks like one. Raises `PipelineError` BUDGET_EXCEEDED where the pod's time used the budget up.
        """
        assert seeds
        folder.mkdir(parents=True)  # fails where anything lies there: nothing is tried twice
        error: str | None = None
        for _ in range(LOSSES_MAX):
            trials = self._once(code, seeds, judges, arm, gpu)
            if not any(each.is_lost for each in trials.trials):
                return trials
            error = trials.error
        raise MachineLost(f"this pod lost a program {LOSSES_MAX} times: {error}")

    def _once(self, code: str, seeds: Sequence[int], judges: Judges, arm: Arm, gpu: int | None) -> Trials:
        place = self.places / token_hex(8)
        place.mkdir(parents=True)
        try:
            self._lay_out(place, code, seeds, judges, arm)
            return self._run(place, seeds, judges, gpu)
        finally:
            remove_tree(place)  # its results are read, and a pod's disk is small

    def _run(self, folder: Path, seeds: Sequence[int], judges: Judges, gpu: int | None) -> Trials:
        wall_s = min(self.limits.wall_s * len(seeds), max(TIME_MIN_S, self.spending.time_left_s()))
        limits = replace(self.limits, wall_s=wall_s, cpu_s=self.limits.cpu_s * len(seeds))
        ended = self.sandbox.run(
            Job(folder=folder, script=SCRIPT, readable=(self.data, judges.features), limits=limits, gpu=gpu)
        )
        self.spending.check()  # a program that the budget ended has failed by nothing of its own
        trials = tuple(self._trial(folder, seed, judges, ended, len(seeds)) for seed in seeds)
        return Trials(trials, ended.seconds, ended.log_tail)

    def _lay_out(self, folder: Path, code: str, seeds: Sequence[int], judges: Judges, arm: Arm) -> None:
        job = {
            "seeds": list(map(self.secret.seed, seeds)),
            "kind": self.facts.task,
            "outputs": self.facts.outputs,
            "image_side": self.facts.image_side,
            "blank": self.facts.blank,
            "epochs": self.epochs,
            "device": self.device,
            "intervention": arm == "intervention",
            "data": str(self.data),
            "judge": str(judges.features),
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        (folder / "program.py").write_text(code, encoding="utf-8", errors="replace")
        runner = files("stages.kinds.experiment.trials").joinpath(SCRIPT).read_text(encoding="utf-8")
        (folder / SCRIPT).write_text(runner, encoding="utf-8")

    def _trial(self, folder: Path, seed: int, judges: Judges, ended: Ended, seeds: int) -> Trial:
        """Return what the program gave for one of so many seeds, which share its time evenly."""
        seed_value = self.secret.seed(seed)
        try:
            report = _report(folder / f"report-{seed_value}.json", ended)
            if report.error is not None:
                return Trial(seed, error=_shown(report.error))
            answers = read_answers(
                folder / f"answers-{seed_value}.npy", self.facts.task, judges.total, self.facts.outputs
            )
            judged = judges.judged(answers)
            scores = _scores(self.facts, judged, judges.targets, self.measured)
            scores["training_seconds"] = ended.seconds / seeds
            if report.parameters is not None:
                scores["parameters"] = float(report.parameters)
            if missing := self.measured - scores.keys():
                raise Mistake(f"the program did not report {', '.join(sorted(missing))}")
        except Mistake as mistake:
            is_lost = ended.how in LOST
            is_caught = isinstance(mistake, Known)
            return Trial(seed, error=_shown(str(mistake)), is_caught=is_caught, is_lost=is_lost)
        processor_s = None if ended.processor_s is None else ended.processor_s / seeds
        digest = sha256(np.ascontiguousarray(judged).tobytes()).hexdigest()
        return Trial(seed, scores, curve_of(report), processor_s=processor_s, answers=digest)


def write_data(folder: Path, visible: Visible) -> Path:
    """Write the rows that programs may learn from and watch; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "data.npz"
    np.savez(
        file,
        train_features=visible.train.features,
        train_targets=visible.train.targets,
        watch_features=visible.watch.features,
        watch_targets=visible.watch.targets,
    )
    return file


def _report(file: Path, ended: Ended) -> Report:
    if ended.how != "finished" and not os.path.lexists(file):
        raise Mistake(_how(ended))
    return read_report(file)


def _how(ended: Ended) -> str:
    """Return how a program ended that left no report, with its own last words where it failed by itself."""
    words = ended.message or f"the program {ended.how.replace('_', ' ')}"
    last = ended.log_tail.strip().rpartition("\n")[2].strip()
    return f"{words}: {last}" if ended.how == "exited" and last else words


def _scores(
    facts: Facts, answers: Floats, targets: NDArray[Any], measured: frozenset[str]
) -> dict[str, float]:
    if facts.task == "regression":
        scores = value_scores(answers, targets)
    else:
        scores = class_scores(answers, targets) | scores_by_class(answers, targets, facts.classes, measured)
    if not all(math.isfinite(score) for score in scores.values()):
        raise Mistake("a score is not a finite number")
    return scores


def curve_of(report: Report) -> tuple[Point, ...]:
    """Return the learning curve that a program reported, thinned evenly where it is long.

    Losses that no checkpoint takes are left out: whoever reads it would refuse the whole.
    """
    points = [
        Point(each.epoch, each.train_loss, each.watch_loss)
        for each in report.curve
        if abs(each.train_loss) <= NUMBER_MAX and abs(each.watch_loss) <= NUMBER_MAX
    ]
    step = math.ceil(len(points) / POINTS_KEPT) or 1
    return tuple(points[::step])


def _shown(text: str) -> str:
    clean = "".join(letter if letter.isprintable() else " " for letter in text[:ERROR_CHARS])
    return clean or "no reason given"
