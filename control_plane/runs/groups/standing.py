"""Reads how a race stands: the start, each lane, and why no pod takes one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from control_plane.model.groups.races.race import Entrant, LaneState, Race, race_of, skew_s, state_of
from control_plane.model.views.readable import reading_of, typed
from control_plane.reads.reading import Reading, required
from control_plane.runs.explainer import live_pods
from control_plane.runs.groups.starter import started_at
from control_plane.runs.placement import placed
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.races import Races
from events.answers.groups import Group
from events.answers.plans.races import RaceLane, RaceStanding
from events.queue.requirements import class_key, read_requirements
from events.runtime.clock import timestamp


async def with_race(reading: Reading, groups: Groups, group: Group) -> Group:
    """Return a group with the standing of its race; one of another plan as it is.

    Raises `NotFound`, `UnreadableDocument`.
    """
    if group.plan.get("kind") != "race":
        return group
    stored = required(await groups.find(group.id), "group", group.id)
    with reading_of("group", group.id):
        return typed(msgspec.structs.replace(group, race=await _standing(reading, groups, stored)))


async def _standing(reading: Reading, groups: Groups, stored: Mapping[str, Any]) -> RaceStanding:
    race, start_at = race_of(stored["plan"]), started_at(stored)
    entrants = await Races(groups.db).entrants(stored["_id"], stored["first"])
    problems = await problems_of(reading, stored, race)
    by_slot, first, now = {each.slot: each for each in entrants}, stored["first"], reading.clock.now()
    return RaceStanding(
        start_at=_shown(start_at),
        skew_s=_rounded(skew_s(entrants)),
        lanes=[
            lane_told(
                slot,
                lane.pod,
                each := by_slot.get(slot),
                problems.get(lane.pod),
                state_of(each, start_at, now),
            )
            for slot, lane in enumerate(race.lanes, first)
        ],
    )


async def problems_of(reading: Reading, stored: Mapping[str, Any], race: Race) -> dict[str, str]:
    """Return of each pod of the race that cannot take its lane why it cannot."""
    run: dict[str, Any] = stored["run"]
    pods = await live_pods(reading)
    found = {}
    for lane in race.lanes:
        asked = {**(run.get("requires") or {}), "pod": lane.pod}
        where = placed(class_key(run["kind"], read_requirements(asked)), pods)
        if not where.serving:
            found[lane.pod] = where.why
    return found


def lane_told(
    slot: int, pod: str, entrant: Entrant | None, problem: str | None, state: LaneState
) -> RaceLane:
    """Return a lane as answers tell it."""
    if entrant is None:
        return RaceLane(
            slot=slot, pod=pod, run_id=None, status=None, state=state, ready_at=None, started_at=None,
            late_s=None, offset_s=None, bound_s=None, problem=problem,
        )  # fmt: skip
    is_waited_for = state == "waiting" or (state == "dead" and not entrant.has_ended)
    return RaceLane(
        slot=slot,
        pod=pod,
        run_id=entrant.run_id,
        status=entrant.status.value,
        state=state,
        ready_at=_shown(entrant.ready_at),
        started_at=_shown(entrant.started_at),
        late_s=None if entrant.started_at is None else _rounded(entrant.late_s),
        offset_s=entrant.offset_s,
        bound_s=entrant.bound_s,
        problem=problem if is_waited_for else None,
    )


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
