"""Tasks as people and programs see them, with their experiments."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from control_plane.kinds.trial.bodies import TaskBody
from control_plane.kinds.trial.planning import (
    group_of,
    measurements,
    plan_of_task,
    runs_max,
    trials_max,
)
from control_plane.kinds.trial.service import body_of
from control_plane.kinds.trial.standing import (
    Tally,
    are_apart,
    experiments_of,
    failure_of,
    gain,
    standing_of,
    tally_of,
)
from control_plane.kinds.trial.store import Tasks
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.status import CLOSED
from control_plane.model.groups.study import study_of
from control_plane.model.groups.trials import trial_of
from control_plane.model.presentation import plain
from control_plane.model.views.document_mapping import from_document
from control_plane.model.views.readable import UnreadableDocument, reading_of, typed
from control_plane.reads import paging
from control_plane.reads.reading import Reading, listing, moment_key, required
from control_plane.store.database import Document
from control_plane.store.queue.groups import Groups
from events.answers.answer import Listing
from events.answers.groups import GroupCounts, GroupRound
from events.answers.kinds.tasks import Task, TaskEstimate, TaskFailure, TaskRow, TriedConfiguration
from events.formatting import seconds
from events.lifecycle import FINAL

KEPT_MAX: Final = 500  # closed rounds whose experiments are kept
PARTS_AT_ONCE: Final = 5


@dataclass(frozen=True, slots=True)
class Round:
    """The last round of a task: its experiments, and why they failed, where the task FAILED."""

    experiments: Sequence[TriedConfiguration] = ()
    failure: TaskFailure | None = None
    planned: int = 0

    @property
    def tally(self) -> Tally:
        """What a list tells of it."""
        successful = sum(each.status == "success" for each in self.experiments)
        if self.best is None:
            return Tally(len(self.experiments), successful)
        return Tally(len(self.experiments), successful, self.best.id, self.best.score)

    @property
    def best(self) -> TriedConfiguration | None:
        """The best experiment; None while there is none."""
        return next((each for each in self.experiments if each.is_best), None)

    @property
    def baseline(self) -> TriedConfiguration | None:
        """The first experiment with the engine's defaults; None without one."""
        return next((each for each in self.experiments if each.is_baseline), None)


@dataclass(frozen=True, slots=True)
class Told:
    """What a list tells of the last round of a task, while its group and its runs stay."""

    tally: Tally
    planned: int
    failure: TaskFailure | None = None
    revision: int = 0
    stands: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class TaskReads:
    """Bounded reads of tasks. Raises `NotFound`, `UnreadableDocument`."""

    reading: Reading
    store: Tasks
    groups: Groups
    # what a closed group is does not change without its revision
    _kept: OrderedDict[tuple[str, int], Round] = field(default_factory=OrderedDict)
    # of each group the last that a list was told
    _told: OrderedDict[str, Told] = field(default_factory=OrderedDict)

    async def page(self, limit: int = paging.LIMIT_DEFAULT, after: str | None = None) -> Listing[TaskRow]:
        """Return a page of tasks, newest first, each with how its last round stands."""
        found = await self.store.page(moment_key("tasks", after), paging.limited(limit))
        groups = await self.store.groups([group_of(each["_id"]) for each in found.documents])
        turns = asyncio.Semaphore(PARTS_AT_ONCE)

        async def told(task: Document) -> TaskRow | UnreadableDocument:
            async with turns:
                try:
                    return await self._row(task, groups.get(group_of(task["_id"])))
                except UnreadableDocument as error:
                    return error

        rows = await asyncio.gather(*map(told, found.documents))
        by_id = {each["_id"]: row for each, row in zip(found.documents, rows, strict=True)}
        return listing("tasks", found, lambda task: _row_or_raise(by_id[task["_id"]]))

    async def one(self, task_id: str) -> Task:
        """Return one task with its best experiment and its earlier rounds."""
        task, group = await self._found(task_id)
        round_ = await self._round(task, group)
        best, baseline = round_.best, round_.baseline
        with reading_of("task", task_id):
            body = body_of(task)
            command = None if best is None else best.summary.get("command")
            is_lower_better = body.optimization.objective.direction == "minimize"
            made = self._made(task, group, Told(round_.tally, round_.planned, round_.failure))
            return typed(
                from_document(
                    Task,
                    task,
                    **made,
                    best=best,
                    baseline=baseline,
                    gain=gain(best, baseline, is_lower_better=is_lower_better),
                    best_command=command if isinstance(command, str) else None,
                    rounds=_rounds(group),
                )
            )

    async def body(self, task_id: str) -> TaskBody:
        """Return the configuration of a task."""
        return body_of(required(await self.store.find(task_id), "task", task_id))

    async def experiments(self, task_id: str) -> Sequence[TriedConfiguration]:
        """Return the experiments of the last round, in their order."""
        task, group = await self._found(task_id)
        return (await self._round(task, group)).experiments

    async def page_of_experiments(
        self, task_id: str, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[TriedConfiguration]:
        """Return a page of the experiments of the last round, in their order."""
        last = 0 if after is None else int(paging.decode("experiments", after, int)[0])
        most = paging.limited(limit)
        rest = [each for each in await self.experiments(task_id) if each.number > last]
        more = paging.encode("experiments", rest[most - 1].number) if len(rest) > most else None
        return Listing(items=rest[:most], next=more)

    async def estimate(self, body: TaskBody, trial_s: float | None) -> TaskEstimate:
        """Return what a task would take, if a trial takes `trial_s`."""
        experiments, repeats = trials_max(study_of(plan_of_task(body))), body.optimization.repeats
        runs = experiments * repeats + runs_max(body) - body.optimization.max_iterations * repeats
        total = None if trial_s is None else trial_s * -(-runs // min(runs, body.optimization.parallel))
        time = "a time that is not known: no trial came to its end lately"
        if total is not None:
            time = f"about {seconds(total)}, as the last trials"
        times = f", each {repeats} times" if repeats > 1 else ""
        one = measurements(body)
        return TaskEstimate(
            experiments=experiments,
            runs=runs,
            measurements=one,
            seconds=total,
            words=f"at most {experiments} experiments{times}, of {one} measurements each; {time}",
        )

    async def _found(self, task_id: str) -> tuple[Mapping[str, Any], Document | None]:
        task = required(await self.store.find(task_id), "task", task_id)
        return task, await self.store.find_group(group_of(task_id))

    async def _row(self, task: Document, group: Document | None) -> TaskRow:
        told = await self._tallied(task, group)
        with reading_of("task", task["_id"]):
            body_of(task)  # pages show parts of the configuration, whatever types their answer declares
            return typed(from_document(TaskRow, task, **self._made(task, group, told)))

    def _made(self, task: Mapping[str, Any], group: Document | None, told: Told) -> dict[str, Any]:
        standing, tally = standing_of(task, group), told.tally
        moments = {"started_at": standing.started_at, "completed_at": standing.completed_at}
        return {
            "status": standing.status,
            "group": group_of(task["_id"]),
            "round": standing.round,
            "planned_experiments": told.planned,
            "total_experiments": tally.total,
            "successful_experiments": tally.successful,
            "best_experiment_id": tally.best_id,
            "best_score": tally.best_score,
            "elapsed_time": standing.elapsed_s(self.reading.clock.now()),
            "failure": told.failure,
            **{name: plain(each) for name, each in moments.items()},
        }

    async def _tallied(self, task: Mapping[str, Any], group: Document | None) -> Told:
        """Return what a list tells of a task: read again where its group, or what its runs are, changed."""
        if group is None:
            round_ = await self._round(task, group)
            return Told(round_.tally, round_.planned)
        with reading_of("group", group["_id"]):
            name, first, revision = str(group["_id"]), int(group["first"]), int(group["revision"])
        # a run that has ended stays as it is: where as many have each status, nothing has changed
        stands = None if group.get("status") in CLOSED else await self.store.stands(name, first)
        kept = self._told.get(name)
        if kept is not None and (kept.revision, kept.stands) == (revision, stands):
            return kept
        told, is_whole = await self._read_tally(group, first)
        self._told.pop(name, None)
        if is_whole:
            self._told[name] = replace(told, revision=revision, stands=stands)
        while len(self._told) > KEPT_MAX:
            self._told.popitem(last=False)
        return told

    async def _read_tally(self, group: Document, first: int) -> tuple[Told, bool]:
        """Return what a list tells of a group, and whether its ended runs have said all that they will."""
        with reading_of("group", group["_id"]):
            study = study_of(group["plan"])
        runs = await self.store.measured(group["_id"], first, study.measures)
        # where nothing runs twice, each slot is an experiment, whatever its values
        values: dict[str, Values] = {each["_id"]: {"slot": each["slot"]} for each in runs}
        if not are_apart(study):
            values = await self.groups.values([*values], study.names)

        def told() -> Told:
            with reading_of("group", group["_id"]):
                trials = [trial_of(run, values[run["_id"]], study.metrics, study.constraints) for run in runs]
                tally = tally_of(study, int(group["round"]), trials)
                return Told(tally, trials_max(study), failure_of(runs))

        is_whole = not any(run.get("logOpen") and run["status"] in FINAL for run in runs)
        return await asyncio.to_thread(told), is_whole

    async def _round(self, task: Mapping[str, Any], group: Document | None) -> Round:
        if group is None:
            with reading_of("task", task["_id"]):
                return Round(planned=trials_max(study_of(plan_of_task(body_of(task)))))
        with reading_of("group", group["_id"]):
            key = (str(group["_id"]), int(group["revision"]))
        if key in self._kept:
            return self._kept[key]
        found = await self._read(group)
        if group.get("status") in CLOSED:
            self._kept[key] = found
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return found

    async def _read(self, group: Document) -> Round:
        with reading_of("group", group["_id"]):
            study = study_of(group["plan"])
            first = int(group["first"])
        runs = await self.store.runs(group["_id"], first)
        values = await self.groups.values([each["_id"] for each in runs], study.names)

        def told() -> list[TriedConfiguration]:
            with reading_of("group", group["_id"]):
                return experiments_of(study, group, runs, values)

        # beside the event loop: experiments are thousands
        experiments = await asyncio.to_thread(told)
        return Round(experiments, failure_of(runs), trials_max(study))


def _row_or_raise(row: TaskRow | UnreadableDocument) -> TaskRow:
    if isinstance(row, UnreadableDocument):
        raise row
    return row


def _rounds(group: Document | None) -> list[GroupRound]:
    found = [] if group is None else group["rounds"]
    return [
        from_document(GroupRound, each, counts=from_document(GroupCounts, each["counts"])) for each in found
    ]
