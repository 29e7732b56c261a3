"""Queries on races: where the lanes of a round stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.members import newest
from control_plane.model.groups.race import Entrant
from control_plane.model.projection import LANES, lane_id
from control_plane.store.database import Database, Document, answers
from control_plane.store.queue.groups import MEMBERS
from events.lifecycle import Status

FIELDS: Final = ("slot", "status", "attempt", "createdAt", "startAt", "logOpen")


@dataclass(frozen=True, slots=True)
class Races:
    """Reads of races."""

    db: Database

    @answers()
    async def entrants(self, group_id: str, first: int) -> list[Entrant]:
        """Return the lanes from this slot on that have runs, in their order."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        runs = newest(await self.db[MEMBERS].find(wanted, dict.fromkeys(FIELDS, 1)).to_list())
        said = await self._said([lane_id(run["_id"], run["attempt"]) for run in runs.values()])
        return [
            _entrant(run, said.get(lane_id(run["_id"], run["attempt"]), {}))
            for _, run in sorted(runs.items())
        ]

    async def _said(self, ids: Sequence[str]) -> dict[str, Document]:
        found = await self.db[LANES].find({"_id": {"$in": list(ids)}}).to_list()
        return {each["_id"]: each for each in found}


def _entrant(run: Mapping[str, Any], said: Mapping[str, Any]) -> Entrant:
    return Entrant(
        slot=run["slot"],
        run_id=run["_id"],
        status=Status(run["status"]),
        created_at=run["createdAt"],
        start_at=run.get("startAt"),
        ready_at=said.get("readyAt"),
        started_at=said.get("startedAt"),
        hears_s=said.get("hearsS") or 0.0,
        late_s=said.get("lateS") or 0.0,
        ready_late_s=said.get("readyLateS") or 0.0,
        offset_s=said.get("offsetS"),
        bound_s=said.get("boundS"),
        log_open=bool(run.get("logOpen")),
    )
