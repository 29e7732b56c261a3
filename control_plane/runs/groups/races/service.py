"""The race service: chooses the pods of the lanes, checks them before the start, and makes the group."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from control_plane.model.groups.parameters import Values, assigned
from control_plane.model.groups.races.choosing import Wish, chosen
from control_plane.model.groups.races.figures import measure_of
from control_plane.model.groups.races.fit import Fit, worst
from control_plane.model.groups.races.machine import Machine, machine_of
from control_plane.model.groups.races.preflight import Check, Wanted, checks_of, grade_of
from control_plane.model.groups.races.race import Lane, race_of
from control_plane.model.views.readable import reading_of
from control_plane.reads.groups import shown
from control_plane.reads.reading import Reading, required
from control_plane.runs.explainer import live_documents
from control_plane.runs.groups.races.reads import told_measure
from control_plane.runs.groups.service import GroupService, WantedGroup
from events.answers.plans.races import FitNumbers, LaneChecks, RaceCheck, RaceChecks
from events.kinds import RUN_KINDS, kind_of, normal_of, read_spec, weights_of
from events.models.engines import ENGINES
from events.queue.requirements import class_key, read_requirements
from events.runtime.clock import Clock, Ids

KEY_CHARS: Final = 16
CHANCE_CHARS: Final = 6
SERVERS: Final = frozenset({"comfyui"})  # backends that are servers of a pod, as an endpoint is


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRace:
    """A race as its author wants it; `run` is what every lane does, as it is posted."""

    run: Mapping[str, Any]
    wishes: Sequence[Wish]
    ready_s: float
    limit_s: float
    by: str
    name: str | None = None
    measure: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class RaceService:
    """Makes and checks races. Raises `Rejected`, `NotFound`, `Conflict`, `Transient`."""

    groups: GroupService
    reading: Reading
    clock: Clock
    ids: Ids

    async def create(self, wanted: WantedRace) -> tuple[str, bool]:
        """Make a race, and return its name and whether it is new; the same key and content find it."""
        group = WantedGroup(
            id=wanted.name or self._name(wanted),
            run=wanted.run,
            plan={},
            by=wanted.by,
            idempotency_key=wanted.idempotency_key,
            asked=(wanted.run, wanted.wishes, wanted.ready_s, wanted.limit_s, wanted.measure),
        )
        if await self.groups.is_known(group):  # lanes are chosen once: the fleet may be another one by now
            return group.id, False
        plan = await self._plan(wanted, await self._machines())
        return group.id, await self.groups.create(replace(group, plan=plan))

    async def check(self, wanted: WantedRace) -> RaceChecks:
        """Return the checks of every lane before the race; nothing is stored."""
        machines = await self._machines()
        plan = await self._plan(wanted, machines)
        await self.groups.require_valid("race", wanted.run, plan, by=wanted.by)
        lanes = [Lane(each["pod"], each.get("parameters") or {}) for each in plan["lanes"]]
        found: list[list[Check]] = []

        def checked() -> None:
            found.extend(checks_of(lane.pod, machines, needs(wanted.run, lane)) for lane in lanes)

        await self.groups.beside(checked)  # a kind decides how long a specification takes
        kind = kind_of(wanted.run["kind"], among=RUN_KINDS)
        return RaceChecks(
            grade=worst(grade_of(each) for each in found),
            measure=told_measure(measure_of(wanted.measure, kind.headline), kind.name),
            lanes=[_lane_checks(lane, each) for lane, each in zip(lanes, found, strict=True)],
        )

    async def checks_of_race(self, race_id: str) -> list[LaneChecks]:
        """Return the checks of the lanes of a race as the fleet stands now; none of a kind that is gone."""
        stored = required(await self.groups.groups.find(race_id), "race", race_id)
        machines = await self._machines()

        def checked() -> list[LaneChecks]:
            lanes = race_of(stored["plan"]).lanes
            return [
                _lane_checks(lane, checks_of(lane.pod, machines, needs(stored["run"], lane)))
                for lane in lanes
            ]

        with reading_of("race", race_id):
            return await asyncio.to_thread(checked) if stored["run"]["kind"] in RUN_KINDS else []

    async def machines(self, kind: str, chosen: Collection[str] = ()) -> list[LaneChecks]:
        """Return every live pod, and those that are chosen, with its checks for a kind alone."""
        machines = await self._machines()
        names = sorted({*(each.name for each in machines), *chosen})
        wanted = Wanted(class_key(kind, read_requirements({})), kind)
        return [_lane_checks(Lane(name, {}), checks_of(name, machines, wanted)) for name in names]

    async def _machines(self) -> list[Machine]:
        return [machine_of(pod, document) for pod, document in await live_documents(self.reading)]

    async def _plan(self, wanted: WantedRace, machines: Sequence[Machine]) -> dict[str, Any]:
        """Return the plan with the chosen pods. Raises `Rejected`."""
        kind = kind_of(wanted.run["kind"], among=RUN_KINDS)
        requires = read_requirements(wanted.run.get("requires") or {})
        goal = None if wanted.measure is None else measure_of(wanted.measure, kind.headline)
        lanes = chosen(wanted.wishes, machines, kind.name, requires)
        return {
            "kind": "race",
            "lanes": [
                {"pod": lane.pod, **({"parameters": dict(lane.parameters)} if lane.parameters else {})}
                for lane in lanes
            ],
            "ready_s": wanted.ready_s,
            "limit_s": wanted.limit_s,
            **({} if goal is None else {"measure": str(goal)}),
        }

    def _name(self, wanted: WantedRace) -> str:
        """Return a name for a race without one: by its key, or by the moment and chance."""
        if wanted.idempotency_key is not None:
            digest = hashlib.sha256(f"{wanted.by}\n{wanted.idempotency_key}".encode()).hexdigest()
            return f"race-{digest[:KEY_CHARS]}"
        return f"race-{self.clock.now():%Y-%m-%d-%H%M%S}-{self.ids.ulid()[-CHANCE_CHARS:].lower()}"


def needs(run: Mapping[str, Any], lane: Lane) -> Wanted:
    """Return what a lane needs, by its specification as the run will have it."""
    values: Values = lane.parameters
    kind = kind_of(run["kind"], among=RUN_KINDS)
    spec = normal_of(kind, read_spec(kind.name, assigned(run.get("spec") or {}, values)))
    requires = read_requirements({**(run.get("requires") or {}), "pod": lane.pod})
    engine, backend = getattr(spec, "engine", ""), getattr(spec, "backend", "")
    return Wanted(
        class_key(kind.name, requires),
        kind.name,
        model=weights_of(kind.name, spec),
        engine=engine if engine in ENGINES else "",
        in_image=engine in ENGINES and bool(getattr(spec, "image", "")),
        server=getattr(spec, "endpoint", None) or (backend if backend in SERVERS else ""),
        is_offline=bool(getattr(spec, "offline", False)),
    )


def _lane_checks(lane: Lane, checks: Sequence[Check]) -> LaneChecks:
    return LaneChecks(
        pod=lane.pod,
        parameters=shown(lane.parameters),
        grade=grade_of(checks),
        checks=list(map(_told, checks)),
    )


def _told(check: Check) -> RaceCheck:
    numbers = {} if check.fit is None else {"numbers": _numbers(check.fit)}
    return RaceCheck(name=check.name, grade=check.grade, says=check.says, **numbers)


def _numbers(fit: Fit) -> FitNumbers:
    return FitNumbers(
        memory_bytes=fit.memory_bytes,
        usable_bytes=fit.usable_bytes,
        peak_bytes=fit.peak_bytes,
        ratio=None if fit.ratio is None else round(fit.ratio, 3),
    )
