"""Tasks as the HTTP interface shows them: what is tuned, how the trials stand, and which is the best."""

from __future__ import annotations

from typing import Any, Literal

from events.answers.answer import Amount, Answer, Count, Moment
from events.answers.groups import GroupRound

TaskStatus = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
ExperimentStatus = Literal["pending", "deploying", "benchmarking", "success", "failed", "cancelled"]


class TaskFailure(Answer, frozen=True, kw_only=True):
    """Why most of the experiments of a task failed: `run_id` is the newest of these `count`."""

    code: str | None
    message: str | None
    count: Count
    run_id: str


class ExperimentRun(Answer, frozen=True, kw_only=True):
    """A run of an experiment, which may be repeated; its log and its files are there."""

    id: str
    status: str
    score: Amount | None


class TriedConfiguration(Answer, frozen=True, kw_only=True):
    """A configuration that a round of a task tries; `number` begins with 1 in each round.

    `score` is the mean of the objective over its runs, `low` and `high` are the ends of what they measured.
    `infeasible` names the constraints that it breaks, `failure` says why it failed, or was ended early.
    `summary` are the headline numbers of its newest run that has some.
    """

    id: str
    number: Count
    status: ExperimentStatus
    parameters: dict[str, Any]
    score: Amount | None
    low: Amount | None
    high: Amount | None
    is_best: bool
    is_baseline: bool
    infeasible: str | None
    failure: str | None
    outcome: str | None
    summary: dict[str, Any]
    runs: list[ExperimentRun]


class TaskRow(Answer, frozen=True, kw_only=True):
    """A task as lists show it: its configuration as it was posted, and how its last round stands.

    `group` runs its experiments. `total_experiments` are submitted, of `planned_experiments` at most.
    `elapsed_time` are the seconds of the round, `failure` is why experiments failed, of a task that FAILED.
    """

    id: str
    name: str
    description: str
    model: dict[str, Any]
    base_runtime: str
    runtime_image_tag: str
    deployment_mode: str
    command: str
    parameters: dict[str, Any]
    optimization: dict[str, Any]
    benchmark: dict[str, Any]
    placement: dict[str, Any]
    status: TaskStatus
    group: str
    round: Count
    planned_experiments: Count
    total_experiments: Count
    successful_experiments: Count
    best_experiment_id: str | None
    best_score: Amount | None
    started_at: Moment | None
    completed_at: Moment | None
    elapsed_time: Amount | None
    failure: TaskFailure | None
    revision: Count
    created_by: str
    created_at: Moment
    updated_by: str
    updated_at: Moment


class Task(TaskRow, frozen=True, kw_only=True):
    """A task with its best experiment, the command that serves it, the baseline, and its earlier rounds.

    `gain` is by how much the best is better than the baseline, as a share of the baseline.
    """

    best: TriedConfiguration | None
    baseline: TriedConfiguration | None
    gain: Amount | None
    best_command: str | None
    rounds: list[GroupRound]


class TaskEstimate(Answer, frozen=True, kw_only=True):
    """What a task would take: experiments, the measurements of each, and the time where it is known."""

    experiments: Count
    runs: Count
    measurements: Count
    seconds: float | None
    words: str


class TaskExport(Answer, frozen=True, kw_only=True):
    """A task as text that can be imported: `format` is json or yaml."""

    format: str
    text: str
