"""How a task stands: its status and its experiments, from its group and the runs of its round, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.kinds.trial.planning import PREFIX
from control_plane.model.groups.constraints import broken
from control_plane.model.groups.members import COUNTED_AS, Trial
from control_plane.model.groups.parameters import Values, in_json
from control_plane.model.groups.pruning import Stop
from control_plane.model.groups.status import Action, GroupStatus
from control_plane.model.groups.study import Study
from control_plane.model.groups.trials import outcome_of, trial_of
from control_plane.model.presentation import plain
from events.answers.kinds.tasks import (
    ExperimentRun,
    ExperimentStatus,
    TaskFailure,
    TaskStatus,
    TriedConfiguration,
)
from events.lifecycle import Status
from events.text.truncation import brief

Json = Mapping[str, Any]

DEPLOY: Final = "deploy"  # the first stage of a trial
VALUE_CHARS_MAX: Final = 200
FAILURE_CHARS_MAX: Final = 300
MESSAGE_CHARS_MAX: Final = 500
STATUSES: Final[Mapping[GroupStatus, TaskStatus]] = {
    GroupStatus.OPEN: "RUNNING",
    GroupStatus.PAUSED: "RUNNING",
    GroupStatus.CLOSING: "RUNNING",
    GroupStatus.CANCELING: "RUNNING",
    GroupStatus.COMPLETED: "COMPLETED",
    GroupStatus.FAILED: "FAILED",
    GroupStatus.CANCELED: "CANCELLED",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """How a task stands; `round` is the last one that its group has begun, 0 before the first."""

    status: TaskStatus
    round: int
    started_at: datetime | None = None
    completed_at: datetime | None = None

    def elapsed_s(self, now: datetime) -> float | None:
        """Return the seconds of the round so far; None before it began."""
        if self.started_at is None:
            return None
        return max(0.0, round(((self.completed_at or now) - self.started_at).total_seconds(), 3))


def is_starting(task: Json, group: Json | None) -> bool:
    """Say whether a round was decided that the group has not begun: somebody begins it now, or died then."""
    return int(task["begun"]) > (0 if group is None else int(group["round"]))


def standing_of(task: Json, group: Json | None) -> Standing:
    """Return how a task stands, from its document and that of its group."""
    if is_starting(task, group):
        return Standing("RUNNING", 0 if group is None else int(group["round"]))
    if group is None:
        return Standing("PENDING", 0)
    status = STATUSES[GroupStatus(group["status"])]
    ended = None if status == "RUNNING" else _closed_at(group)
    return Standing(status, int(group["round"]), group["since"], ended)


def _closed_at(group: Json) -> datetime:
    closed = [each["at"] for each in group["journal"] if each["action"] == Action.CLOSE.value]
    found = closed[-1] if closed else group["updatedAt"]
    if not isinstance(found, datetime):
        raise TypeError(f"it was closed at {found!r}")
    return found


def experiments_of(
    study: Study, group: Json, runs: Sequence[Json], values: Mapping[str, Values]
) -> list[TriedConfiguration]:
    """Return the experiments of the round: `runs` are the newest of its slots, `values` what each varies."""
    trials = [trial_of(run, values[run["_id"]], study.metrics, study.constraints) for run in runs]
    by_slot = {run["slot"]: run for run in runs}
    best, found = best_place(study, trials), list[TriedConfiguration]()
    baseline = None if study.baseline is None else in_json(study.baseline)
    for place, (tried, slots) in enumerate(study.tried(trials)):
        outcome = outcome_of(slots, study.repeats)
        own = [by_slot[each.slot] for each in slots]
        measured = [each.objective for each in slots if each.objective is not None]
        summaries = [each for run in own if isinstance(each := run.get("summary"), Mapping) and each]
        summary = plain(summaries[-1]) if summaries else {}
        status = status_of(own, study.repeats, is_measured=bool(measured))
        if outcome.stop is not None:
            status = "cancelled"  # whatever its other runs have measured: it is never the best
        found.append(
            TriedConfiguration(
                id=f"{group['round']}-{place + 1}",
                number=place + 1,
                status=status,
                parameters={
                    name.removeprefix(PREFIX): brief(value, VALUE_CHARS_MAX) for name, value in tried.items()
                },
                score=sum(measured) / len(measured) if measured else None,
                low=min(measured, default=None),
                high=max(measured, default=None),
                is_best=place == best,
                is_baseline=baseline is not None and in_json(tried) == baseline,
                infeasible=None if outcome.objective is None else _broken(study, own),
                failure=_failure(own, outcome.stop) if status in ("failed", "cancelled") else None,
                outcome=_text(summary.get("outcome")),
                summary=summary,
                runs=[
                    ExperimentRun(id=run["_id"], status=run["status"], score=trial.objective)
                    for run, trial in zip(own, slots, strict=True)
                ],
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Tally:
    """What a list tells of a round: how many experiments, and the best."""

    total: int
    successful: int
    best_id: str | None = None
    best_score: float | None = None


def tally_of(study: Study, round_: int, trials: Sequence[Trial]) -> Tally:
    """Return what `experiments_of` says of the same trials, without making all that a page shows of each."""
    best, successful = best_place(study, trials), 0
    tried = [slots for _, slots in study.tried(trials)]
    for slots in tried:
        is_measured = any(each.objective is not None for each in slots)
        has_ended = sum(each.has_ended for each in slots) >= study.repeats
        successful += is_measured and has_ended and outcome_of(slots, study.repeats).stop is None
    if best is None:
        return Tally(len(tried), successful)
    measured = [each.objective for each in tried[best] if each.objective is not None]
    return Tally(len(tried), successful, f"{round_}-{best + 1}", sum(measured) / len(measured))


def failure_of(runs: Sequence[Json]) -> TaskFailure | None:
    """Return why most of the failed ones of these runs did; None where none has failed."""
    failed: dict[Any, list[Json]] = {}
    for run in sorted(runs, key=lambda each: str(each["_id"]), reverse=True):
        if COUNTED_AS[Status(run["status"])] == "failed":
            error = run.get("error")
            code = plain(error.get("code")) if isinstance(error, Mapping) else None
            failed.setdefault(code if isinstance(code, str) else None, []).append(run)
    if not failed:
        return None
    code, most = max(failed.items(), key=lambda each: len(each[1]))
    error = most[0].get("error")
    message = plain(error.get("message")) if isinstance(error, Mapping) else None
    return TaskFailure(
        code=code,
        message=brief(message, MESSAGE_CHARS_MAX) if isinstance(message, str) else None,
        count=len(most),
        run_id=most[0]["_id"],
    )


def are_apart(study: Study) -> bool:
    """Say whether each slot is an experiment of its own: nothing runs twice."""
    return study.repeats == 1 and not study.reruns.top and not study.reruns.every


def best_place(study: Study, trials: Sequence[Trial]) -> int | None:
    """Return the place of the best experiment, None without any; of two goals the first of the front."""
    best = next((in_json(each.values) for each in study.best(trials)), None)
    return next(
        (place for place, (tried, _) in enumerate(study.tried(trials)) if in_json(tried) == best), None
    )


def status_of(runs: Sequence[Json], repeats: int, *, is_measured: bool) -> ExperimentStatus:
    """Return how an experiment stands by its runs."""
    stands = [COUNTED_AS[Status(run["status"])] for run in runs]
    if is_measured and sum(each not in ("waiting", "running") for each in stands) >= repeats:
        return "success"  # also where it runs again
    if "running" in stands:
        return "deploying" if all(map(_deploys, runs)) and not is_measured else "benchmarking"
    if "waiting" in stands or len(runs) < repeats:
        return "benchmarking" if is_measured else "pending"
    if is_measured:
        return "success"
    return "cancelled" if "failed" not in stands and "canceled" in stands else "failed"


def gain(
    best: TriedConfiguration | None, baseline: TriedConfiguration | None, *, is_lower_better: bool
) -> float | None:
    """Return by how much the best is better than the baseline, as a share of it; None where not known."""
    if best is None or baseline is None or best.score is None or not baseline.score:
        return None
    difference = baseline.score - best.score if is_lower_better else best.score - baseline.score
    return difference / abs(baseline.score)


def _deploys(run: Json) -> bool:
    stage = run.get("currentStage")
    name = stage.get("name") if isinstance(stage, Mapping) else None
    return name is None or name == DEPLOY


def _broken(study: Study, runs: Sequence[Json]) -> str | None:
    found = (broken(study.constraints, run.get("summary") or {}) for run in runs)
    return next((each for each in found if each is not None), None)


def _failure(runs: Sequence[Json], stop: Stop | None) -> str | None:
    if stop is not None:
        return str(brief(f"pruned: {stop}", FAILURE_CHARS_MAX))
    for run in reversed(runs):
        error = run.get("error")
        if isinstance(error, Mapping):
            return str(brief(f"{error.get('code')}: {error.get('message')}", FAILURE_CHARS_MAX))
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
