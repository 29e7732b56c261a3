"""Starts the nodes of jobs together, and lets them give their pods back where one is missing.

Law: a start is decided by one compare-and-set on the group, which names the attempts that it starts. Whoever
looks next tells it to those that were not told: a replica that dies in between changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from control_plane.model.groups.matrix import Matrix
from control_plane.model.groups.plan import Group
from control_plane.model.groups.races.nodes import Begin, GiveBack, LetGo, Member, Stop, next_move
from control_plane.model.groups.status import Action, GroupStatus
from control_plane.runs.decisions import Decider
from control_plane.runs.options import OptionChanges
from control_plane.store.database import Document
from control_plane.store.queue.groups import Entry, Groups
from control_plane.store.queue.races import Races
from events.queue.journal import ServerTime
from events.runtime.errors import Conflict
from events.text.attempt_id import AttemptId

log = logging.getLogger(__name__)

BY: Final = "advancer"


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Carries on with one job of several nodes; nothing begins before all of them are submitted."""

    groups: Groups
    races: Races
    decider: Decider

    async def step(self, stored: Document, group: Group, plan: Matrix) -> bool:
        """Go as far as a turn goes; return whether the nodes that still run are given up."""
        members = await self.races.nodes(group.id, group.first)
        is_paused = group.status is GroupStatus.PAUSED
        if len(members) < plan.nodes and not is_paused:
            return False
        start = _start_of(stored)
        now, by = self.decider.clock.now(), f"group:{group.id}"
        match next_move(members, _attempts(start), now, plan.ready_s, group.id, is_paused=is_paused):
            case Begin() as begin:
                start = await self._begin(stored, group, begin)
            case GiveBack(leaving, wait_s, waiting):
                log.info(
                    "nodes.give_back", extra={"group": group.id, "nodes": len(leaving), "wait_s": wait_s}
                )
                for each in leaving:
                    await self.decider.preempt(AttemptId(each.run_id, each.attempt), wait_s, by=by)
                later = OptionChanges(not_before=now + timedelta(seconds=wait_s))
                await self._change(waiting, later, by)
            case LetGo(held):
                await self._change(held, OptionChanges(not_before=None), by)
            case Stop(reason):
                log.info("nodes.given_up", extra={"group": group.id, "why": reason})
                return True
        await self._tell(members, start, plan, by)
        return False

    async def _begin(self, stored: Document, group: Group, begin: Begin) -> Mapping[str, Any]:
        start = {
            "round": stored["round"],
            "at": ServerTime(),
            "missing": [],
            "attempts": {str(rank): attempt for rank, attempt in begin.attempts.items()},
            "address": begin.address,
        }
        entry = Entry(Action.START, GroupStatus(group.status), BY, f"{len(begin.attempts)} nodes are ready")
        decided = await self.groups.decide(stored, entry, {"start": start})
        return {} if decided is None else _start_of(decided)

    async def _change(self, waiting: Sequence[Member], changes: OptionChanges, by: str) -> None:
        for each in waiting:
            with suppress(Conflict):  # a pod has it by now: the next turn looks again
                await self.decider.change(each.run_id, changes, by=by)

    async def _tell(self, members: list[Member], start: Mapping[str, Any], plan: Matrix, by: str) -> None:
        attempts = _attempts(start)
        for each in members:
            if attempts.get(each.rank) == each.attempt != each.told:
                node = {
                    "attempt": each.attempt,
                    "rank": each.rank,
                    "nodes": plan.nodes,
                    "address": start["address"],
                }
                await self.decider.begin(each.run_id, start["at"], node, by=by)


def _start_of(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the last start of the present round; empty while there is none."""
    start: Mapping[str, Any] = group.get("start") or {}
    return start if start.get("round") == group["round"] and "attempts" in start else {}


def _attempts(start: Mapping[str, Any]) -> dict[int, int]:
    return {int(rank): attempt for rank, attempt in (start.get("attempts") or {}).items()}
