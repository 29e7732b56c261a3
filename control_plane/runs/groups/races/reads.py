"""Reads races: a page of them, and one with what its lanes measured and who won."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from control_plane.model.groups.goals import Goal
from control_plane.model.groups.members import COUNTED_AS
from control_plane.model.groups.races.figures import (
    FINISH,
    LAPS,
    LAPS_MAX,
    Contender,
    Verdict,
    figure_of,
    laps_of,
    numbers_of,
    ranked,
    stored_measure,
    verdict,
)
from control_plane.model.groups.races.figures import METHOD as TEST
from control_plane.model.groups.races.machine import Machine, machine_of
from control_plane.model.groups.races.race import Entrant, Race, race_of, skew_s, state_of
from control_plane.model.groups.status import ACTIVE, GroupStatus
from control_plane.model.presentation import plain
from control_plane.model.views.live_pods import LivePod
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads import paging
from control_plane.reads.groups import shown
from control_plane.reads.reading import Reading, listing, moment_key, required
from control_plane.runs.groups.standing import lane_told, problems_of
from control_plane.runs.groups.starter import started_at
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.races import LaneRun, Races, entrant_of
from control_plane.store.results import ResultReads, WantedRows
from events.answers.answer import Listing
from events.answers.plans import races as told
from events.kinds import KINDS
from events.kinds.results import Column, is_measured
from events.lifecycle import Status
from events.queue.abilities import Abilities
from events.queue.requirements import read_class
from events.queue.rules import pod_name
from events.runtime.clock import timestamp
from events.runtime.errors import NotFound, Rejected
from events.text.truncation import brief

FAILURE_CHARS_MAX: Final = 300
SAMPLES_MAX: Final = 120  # of a machine, the latest
SAMPLES_FOR: Final = timedelta(minutes=3)  # a pod that somebody looks at reports every second
PODS_MAX: Final = 16  # by which a list is asked for
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a stored race: its slots from `first` on, up to `until` where another one follows."""

    number: int
    first: int
    until: int | None
    status: str
    since: datetime
    is_present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceFilters:
    """Which races are wanted: on any of some pods, of a kind, in a status."""

    pods: Sequence[str] = ()
    kind: str | None = None
    status: str | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on stored groups. Raises `Rejected`."""
        if self.status is not None and self.status not in GroupStatus.__members__:
            known = ", ".join(GroupStatus)
            raise Rejected("bad_status", f"unknown status {self.status!r}; known: {known}")
        if len(self.pods) > PODS_MAX:
            raise Rejected("bad_pods", f"pods: at most {PODS_MAX}, not {len(self.pods)}")
        found = {"run.kind": self.kind, "status": self.status}
        asked: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
        return {**asked, "plan.lanes.pod": {"$in": list(self.pods)}} if self.pods else asked


@dataclass(frozen=True, slots=True)
class RaceReads:
    """Bounded reads of races. Raises `NotFound`, `UnreadableDocument`."""

    reading: Reading
    groups: Groups
    results: ResultReads

    @property
    def races(self) -> Races:
        """The queries."""
        return Races(self.groups.db)

    async def page(
        self, filters: RaceFilters, limit: int = paging.LIMIT_DEFAULT, after: str | None = None
    ) -> Listing[told.RaceRow]:
        """Return a page of races, the newest first, each with who leads."""
        found = await self.races.page(filters.conditions(), moment_key("races", after), paging.limited(limit))
        firsts = {
            each["_id"]: each["first"] for each in found.documents if isinstance(each.get("first"), int)
        }
        runs = await self.races.newest(firsts)
        return listing("races", found, lambda group: _row(group, runs.get(group["_id"], ())))

    async def one(self, race_id: str, round_: int | None = None) -> told.Race:
        """Return a round of a race, by default its present one."""
        stored = await self.stored(race_id)
        with reading_of("race", race_id):
            race, rounds = race_of(stored["plan"]), _rounds(stored)
        chosen = _round(race_id, rounds, round_)
        with reading_of("race", race_id):
            lanes = await self.races.lanes(race_id, chosen.first, chosen.until)
            start_at = started_at(stored) if chosen.is_present else _start_of(lanes)
            pods = _pods(race, lanes, chosen)
            is_active = chosen.is_present and GroupStatus(chosen.status) in ACTIVE
            problems = await problems_of(self.reading, stored, race) if is_active else {}
            workers, rows = await asyncio.gather(self.races.workers(pods), self._laps(lanes))

            def made() -> told.Race:
                each = self._lanes(stored, race, chosen, pods, lanes, start_at, problems, rows, workers)
                goal, columns = _measure(stored, {name for lane in each for name in lane.figures})
                return typed(
                    _told(stored, race, chosen, each, start_at, lanes, goal, columns, is_over=not is_active)
                )

            return await asyncio.to_thread(made)  # beside the event loop: pods decide how much it is

    async def stored(self, race_id: str) -> Json:
        """Return the group of a race. Raises `NotFound`."""
        found = required(await self.groups.find(race_id), "race", race_id)
        plan = found.get("plan")
        if not isinstance(plan, Mapping) or plan.get("kind") != "race":
            message = f"there is no race {race_id!r}: the group of that name has another plan"
            raise NotFound("unknown_race", message)
        return found

    async def samples(self, race_id: str) -> told.RaceSamples:
        """Return what the machines of a race had in use in the last minutes."""
        stored = await self.stored(race_id)
        with reading_of("race", race_id):
            pods = [lane.pod for lane in race_of(stored["plan"]).lanes]
        workers = {pod: each["_id"] for pod, each in (await self.races.workers(pods)).items()}
        since = self.reading.clock.now() - SAMPLES_FOR
        found = await self.reading.samples(list(workers.values()), since)
        lately = {pod: found[worker][-SAMPLES_MAX:] for pod, worker in workers.items()}
        return told.RaceSamples(
            lanes=[told.LaneSamples(pod=pod, samples=lately.get(pod, [])) for pod in pods]
        )

    async def _laps(self, lanes: Sequence[LaneRun]) -> dict[str, Sequence[Json]]:
        wanted = [
            WantedRows(run_id=each.run["_id"], attempt=each.run["attempt"], set=LAPS, limit=LAPS_MAX)
            for each in lanes
        ]
        pages = await asyncio.gather(*map(self.results.page, wanted))
        return {each.run_id: page.rows for each, page in zip(wanted, pages, strict=True)}

    def _lanes(
        self,
        stored: Json,
        race: Race,
        chosen: Round,
        pods: Sequence[str],
        lanes: Sequence[LaneRun],
        start_at: datetime | None,
        problems: Mapping[str, str],
        rows: Mapping[str, Sequence[Json]],
        workers: Mapping[str, Json],
    ) -> list[told.RacedLane]:
        by_slot, now = {each.entrant.slot: each for each in lanes}, self.reading.clock.now()
        among, made = {each.name for each in columns_of(stored["run"]["kind"])}, []
        for place, pod in enumerate(pods):
            lane = by_slot.get(chosen.first + place)
            entrant = None if lane is None else lane.entrant
            state = state_of(entrant, start_at, now)
            standing = lane_told(chosen.first + place, pod, entrant, problems.get(pod), state)
            run = {} if lane is None else lane.run
            own = laps_of(rows.get(run.get("_id", ""), ()))
            finish = _finish_s(entrant, run, start_at)
            known = chosen.is_present and place < len(race.lanes)
            made.append(
                told.RacedLane(
                    **{name: getattr(standing, name) for name in told.RaceLane.__struct_fields__},
                    parameters=shown(race.lanes[place].parameters) if known else {},
                    attempt=run.get("attempt", 0),
                    finished_at=None if run.get("finishedAt") is None else timestamp(run["finishedAt"]),
                    finish_s=finish,
                    laps=[told.RaceLap(lap=number, values=dict(values)) for number, values in own],
                    figures=_figures(own, run.get("summary"), finish, among),
                    place=None,
                    failure=_failure(run),
                    machine=_machine(workers.get(pod)),
                )
            )
        return made


def _told(
    stored: Json,
    race: Race,
    chosen: Round,
    lanes: Sequence[told.RacedLane],
    start_at: datetime | None,
    runs: Sequence[LaneRun],
    goal: Goal,
    columns: Sequence[Column],
    *,
    is_over: bool,
) -> told.Race:
    """Return a race with the places of its lanes and its verdict."""
    contenders = [
        Contender(each.pod, _numbers(each, goal), each.state == "started" and _has_succeeded(each.status))
        for each in lanes
    ]
    places = {each.pod: place for place, each in enumerate(ranked(contenders, goal), 1)}
    found, measure = (
        verdict(contenders, goal, _unit(goal, columns), is_over=is_over),
        _told_measure(goal, columns),
    )
    skew = skew_s([each.entrant for each in runs])
    return told.Race(
        id=stored["_id"],
        kind=stored["run"]["kind"],
        status=chosen.status,
        round=chosen.number,
        rounds=[
            told.RaceRound(round=each.number, status=each.status, since=timestamp(each.since))
            for each in _rounds(stored)
        ],
        spec=plain(stored["run"].get("spec") or {}),
        measure=measure,
        ready_s=race.ready_s,
        limit_s=race.limit_s,
        start_at=None if start_at is None else timestamp(start_at),
        skew_s=None if skew is None else round(skew, 6),
        lanes=[msgspec.structs.replace(each, place=places.get(each.pod)) for each in lanes],
        verdict=_told_verdict(found),
        revision=stored["revision"],
        created_by=stored["createdBy"],
        created_at=timestamp(stored["createdAt"]),
        since=timestamp(chosen.since),
    )


def _row(group: Json, runs: Sequence[tuple[Json, Json]]) -> told.RaceRow:
    """Return a race as a list shows it, by its runs and what each said of the start.

    Raises `UnreadableDocument`.
    """
    with reading_of("race", group.get("_id")):
        start_at = started_at(group)
        measured = [
            (read_class(run["classKey"]).pod or "", _summary(entrant_of(run, said), run, start_at))
            for run, said in sorted(runs, key=lambda each: each[0]["slot"])  # of equals the first lane
            if _may_win(entrant_of(run, said))
        ]
        goal, columns = _measure(group, {name for _, values in measured for name in values})
        values = [(pod, each[goal.name]) for pod, each in measured if goal.name in each]
        best = min(values, key=lambda each: each[1] if goal.is_lower_better else -each[1], default=None)
        return typed(
            told.RaceRow(
                id=group["_id"],
                kind=group["run"]["kind"],
                status=group["status"],
                round=group["round"],
                pods=[lane.pod for lane in race_of(group["plan"]).lanes],
                measure=_told_measure(goal, columns),
                leader=None if best is None else told.RaceLeader(pod=best[0], value=best[1]),
                start_at=None if start_at is None else timestamp(start_at),
                created_by=group["createdBy"],
                created_at=timestamp(group["createdAt"]),
            )
        )


def _may_win(entrant: Entrant) -> bool:
    """Say whether a lane started in time, and has succeeded."""
    return entrant.started_at is not None and not entrant.is_late and _has_succeeded(entrant.status)


def _summary(entrant: Entrant, run: Json, start_at: datetime | None) -> dict[str, float]:
    """Return the numbers of a run, and how long after the start it ended."""
    found = {**(run.get("summary") or {}), FINISH.name: _finish_s(entrant, run, start_at)}
    return {name: value for name, value in found.items() if is_measured(value)}


def columns_of(kind: str) -> Sequence[Column]:
    """Return the headline numbers of a kind; none of one that is not installed here."""
    return KINDS[kind].headline if kind in KINDS else ()


def told_measure(goal: Goal, kind: str) -> told.RaceMeasure:
    """Return the measure of a race of this kind as answers tell it."""
    return _told_measure(goal, columns_of(kind))


def _measure(stored: Json, measured: Collection[str]) -> tuple[Goal, Sequence[Column]]:
    columns = columns_of(stored["run"]["kind"])
    return stored_measure(stored["plan"].get("measure"), columns, measured), columns


def _told_measure(goal: Goal, columns: Sequence[Column]) -> told.RaceMeasure:
    direction = "lower" if goal.is_lower_better else "higher"
    return told.RaceMeasure(name=goal.name, unit=_unit(goal, columns), direction=direction)


def _unit(goal: Goal, columns: Sequence[Column]) -> str:
    return next((each.unit for each in [*columns, FINISH] if each.name == goal.name), "")


def _told_verdict(found: Verdict) -> told.RaceVerdict:
    each = found.difference
    return told.RaceVerdict(
        method=TEST,
        decided=found.is_decided,
        says=found.says,
        winner=found.winner,
        second=found.second,
        value=None if each is None else each.value,
        low=None if each is None else each.low,
        high=None if each is None else each.high,
        percent=found.percent,
    )


def _rounds(stored: Json) -> list[Round]:
    """Return the known rounds of a stored race, the present one last."""
    found = [
        Round(each["round"], each["first"], each["next"], each["status"], each["since"], is_present=False)
        for each in stored["rounds"]
    ]
    last = Round(stored["round"], stored["first"], None, stored["status"], stored["since"], is_present=True)
    return [*found, last]


def _round(race_id: str, rounds: Sequence[Round], wanted: int | None) -> Round:
    found = next((each for each in rounds if each.number == wanted), None)
    if wanted is not None and found is None:
        known = ", ".join(str(each.number) for each in rounds)
        raise NotFound("unknown_round", f"the race {race_id} has no round {wanted}; it has {known}")
    return found or rounds[-1]


def _pods(race: Race, lanes: Sequence[LaneRun], chosen: Round) -> list[str]:
    """Return the pods of a round: of an earlier one those that its runs were pinned to."""
    if chosen.is_present:
        return [lane.pod for lane in race.lanes]
    pinned = {each.entrant.slot: read_class(each.run["classKey"]).pod or "" for each in lanes}
    assert chosen.until is not None
    return [pinned.get(slot, "") for slot in range(chosen.first, chosen.until)]


def _start_of(lanes: Sequence[LaneRun]) -> datetime | None:
    found = [each.entrant.start_at for each in lanes if each.entrant.start_at is not None]
    return max(found, default=None)


def _finish_s(entrant: Entrant | None, run: Json, start_at: datetime | None) -> float | None:
    """Return how long after the start a lane ended that did start."""
    ended = run.get("finishedAt")
    if entrant is None or entrant.started_at is None or start_at is None or ended is None:
        return None
    took: float = (ended - start_at).total_seconds()
    return round(max(0.0, took), 3)


def _figures(
    laps: Sequence[tuple[int, Mapping[str, float]]],
    summary: Any,
    finish_s: float | None,
    among: Collection[str],
) -> dict[str, told.RaceNumber]:
    """Return the figures of the headline numbers; of all numbers where the kind is not installed here."""
    measured = numbers_of(laps, summary if isinstance(summary, Mapping) else {})
    numbers = {name: each for name, each in measured.items() if name in among or not among}
    if finish_s is not None:
        numbers[FINISH.name] = [finish_s]
    figures = {name: figure_of(each) for name, each in numbers.items()}
    return {
        name: told.RaceNumber(mean=each.mean, sd=each.sd, n=each.n, low=each.low, high=each.high)
        for name, each in figures.items()
    }


def _numbers(lane: told.RacedLane, goal: Goal) -> list[float]:
    """Return the numbers of a lane by which the race is decided."""
    measured = [float(lap.values[goal.name]) for lap in lane.laps if goal.name in lap.values]
    if measured or goal.name not in lane.figures:
        return measured
    return [lane.figures[goal.name].mean]


def _has_succeeded(status: str | None) -> bool:
    return status is not None and COUNTED_AS[Status(status)] == "succeeded"


def _failure(run: Json) -> str | None:
    error = run.get("error")
    if not isinstance(error, Mapping):
        return None
    return str(brief(f"{error.get('code')}: {error.get('message')}", FAILURE_CHARS_MAX))


def _machine(document: Json | None) -> told.RaceMachine | None:
    if document is None:
        return None
    name = pod_name(document["_id"])
    pod = LivePod(id=document["_id"], state="", abilities=Abilities(frozenset(), 0.0, None, {}, name))
    found: Machine = machine_of(pod, document)
    return told.RaceMachine(
        worker=document["_id"],
        device=found.device,
        cpu=found.cpu,
        cpus=found.cpus,
        memory_mib=found.memory_mib,
        gpus=[gpu for gpu, _ in found.gpus],
        gpu_memory_mib=max((memory for _, memory in found.gpus), default=None),
        labels=dict(found.labels),
    )
