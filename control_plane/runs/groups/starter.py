"""Starts races: decides the moment once, tells every lane, gives up those that are gone or over the limit.

Law: the moment is decided by one compare-and-set on the group, by the store's clock. Whoever looks next tells
it to the runs that were not told: a replica that dies in between changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from control_plane.model.groups.plan import Group
from control_plane.model.groups.races.race import Entrant, Race, is_over, next_start, state_of
from control_plane.model.groups.status import Action, GroupStatus
from control_plane.reads.reading import SILENT_AFTER
from control_plane.runs.decisions import Decider
from control_plane.store.database import Document
from control_plane.store.queue.groups import Entry, Groups
from control_plane.store.queue.races import Races
from events.queue.journal import ServerTime
from events.runtime.errors import Conflict

log = logging.getLogger(__name__)

BY: Final = "advancer"


@dataclass(frozen=True, slots=True)
class Starter:
    """Carries on with one race whose lanes are submitted."""

    groups: Groups
    races: Races
    decider: Decider

    async def step(self, stored: Document, group: Group, race: Race) -> bool:
        """Go as far as a turn goes; return whether the lanes that still run are given up."""
        entrants = await self.races.entrants(group.id, group.first)
        start_at = started_at(stored)
        if start_at is None:
            start_at = await self._decide(stored, group, race, entrants)
        if start_at is None:
            return False
        for each in entrants:
            if not each.has_moment:
                await self._tell(group, each, start_at)
        now = self.decider.clock.now()
        if not is_over(race, start_at, now):
            dead = [each for each in entrants if state_of(each, start_at, now) == "dead"]
            await self._give_up(group, race, [each for each in dead if not each.has_ended], now)
            return False
        if group.status is GroupStatus.OPEN:
            entry = Entry(
                Action.STOP, GroupStatus.CLOSING, BY, f"{race.limit_s:g} s after its start are over"
            )
            await self.groups.decide(stored, entry, {})
        return True

    async def _give_up(self, group: Group, race: Race, waiting: Sequence[Entrant], now: datetime) -> None:
        """Cancel the lanes whose pod is gone: a run that is pinned to it waits for nobody else."""
        lanes = {race.lanes[each.slot - group.first].pod: each for each in waiting}
        workers = await self.races.workers([*lanes])
        for pod, each in lanes.items():
            seen_at = workers.get(pod, {}).get("reportedAt")
            if not isinstance(seen_at, datetime) or seen_at < now - SILENT_AFTER:
                log.info("race.lane_given_up", extra={"group": group.id, "run": each.run_id, "pod": pod})
                with suppress(Conflict):  # it ended by itself
                    await self.decider.cancel(each.run_id, by=f"group:{group.id}")

    async def _decide(
        self, stored: Document, group: Group, race: Race, entrants: list[Entrant]
    ) -> datetime | None:
        wanted = next_start(race, entrants, self.decider.clock.now())
        if wanted is None:
            return None
        entry = Entry(Action.START, GroupStatus(group.status), BY, wanted.reason)
        start = {"round": stored["round"], "at": ServerTime(wanted.lead_s), "missing": list(wanted.missing)}
        until = wanted.waits_until
        guard = None if until is None else {"$expr": {"$gte": ["$$NOW", until]}}
        decided = await self.groups.decide(stored, entry, {"start": start}, guard)
        if decided is None:
            return None  # somebody decided something else, or it is too early: the next turn looks again
        log.info("race.starts", extra={"group": group.id, "missing": len(wanted.missing)})
        return started_at(decided)

    async def _tell(self, group: Group, entrant: Entrant, start_at: datetime) -> None:
        try:
            await self.decider.start(entrant.run_id, start_at, by=f"group:{group.id}")
        except Conflict:
            log.info("race.lane_ended", extra={"group": group.id, "run": entrant.run_id})


def started_at(group: Mapping[str, Any]) -> datetime | None:
    """Return the start of the present round of a stored race, None while it is not decided."""
    start = group.get("start")
    if start is None or start["round"] != group["round"]:
        return None
    moment: datetime = start["at"]
    return moment
