"""Queries on races: where the lanes of a round stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.members import newest
from control_plane.model.groups.races.nodes import Member
from control_plane.model.groups.races.race import Entrant
from control_plane.model.projection import LANES, lane_id
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from control_plane.store.queue.groups import MEMBERS
from events.lifecycle import Status
from events.queue.rules import pod_name

RUNS_MAX: Final = 10_000  # of the races of a page: lanes are 16 at most, and each may be retried
WORKERS_MAX: Final = 500
FIELDS: Final = ("slot", "status", "attempt", "createdAt", "startAt", "logOpen", "claimedBy")
# What of a lane's run its page tells besides.
TOLD: Final = (*FIELDS, "finishedAt", "summary", "error.code", "error.message", "classKey")
OF_NODES: Final = (*FIELDS, "node", "preempt", "paused", "notBefore")
OF_LIST: Final = (*FIELDS, "groupId", "finishedAt", "summary", "classKey")
HIDDEN: Final = ("journal", "rounds", "pending")
_NEWEST: Final[Order] = (("createdAt", -1), ("_id", -1))


@dataclass(frozen=True, slots=True)
class LaneRun:
    """A lane with its run as it is stored."""

    entrant: Entrant
    run: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Races:
    """Reads of races."""

    db: Database

    @answers()
    async def entrants(self, group_id: str, first: int) -> list[Entrant]:
        """Return the lanes from this slot on that have runs, in their order."""
        return [each.entrant for each in await self._lanes({"$gte": first}, group_id, FIELDS)]

    @answers()
    async def nodes(self, group_id: str, first: int) -> list[Member]:
        """Return the nodes of a job from this slot on that have runs, in the order of their ranks."""
        lanes = await self._lanes({"$gte": first}, group_id, OF_NODES)
        said = await self._said([_id_of(each.run) for each in lanes])
        return [_member(each.run, said.get(_id_of(each.run), {}), first) for each in lanes]

    @answers()
    async def lanes(self, group_id: str, first: int, until: int | None) -> list[LaneRun]:
        """Return the lanes of a round with their runs; those before slot `until` where that is given."""
        slots = {"$gte": first} if until is None else {"$gte": first, "$lt": until}
        return await self._lanes(slots, group_id, TOLD)

    async def page(self, conditions: Mapping[str, Any], after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of the races that meet some conditions, the newest first."""
        residual = {"plan.kind": "race", **conditions}
        wanted = Wanted(
            collection="groups", residual=residual, order=_NEWEST, after=after, limit=limit, hidden=HIDDEN
        )
        return await read_page(self.db, wanted)

    @answers()
    async def newest(self, firsts: Mapping[str, int]) -> dict[str, list[tuple[Mapping[str, Any], Document]]]:
        """Return of each group the newest runs of its slots from the given one on that a pod has had.

        Each comes with what its present attempt said of the start.
        """
        rounds = [{"groupId": name, "slot": {"$gte": first}} for name, first in firsts.items()]
        if not rounds:
            return {}
        found = self.db[MEMBERS].find({"$or": rounds}, dict.fromkeys(OF_LIST, 1))
        runs: dict[str, list[Document]] = {name: [] for name in firsts}
        async for each in found.limit(RUNS_MAX):
            runs[each["groupId"]].append(each)
        last = {name: [*filter(_was_held, newest(each).values())] for name, each in runs.items()}
        said = await self._said([_id_of(run) for each in last.values() for run in each])
        return {name: [(run, said.get(_id_of(run), {})) for run in each] for name, each in last.items()}

    @answers()
    async def workers(self, names: Sequence[str]) -> dict[str, Document]:
        """Return of each pod of these names its newest worker: its id, equipment and labels."""
        if not names:
            return {}
        of_names = [{"_id": {"$gte": f"{name}/", "$lt": f"{name}0"}} for name in names]  # 0 follows the slash
        fields = dict.fromkeys(("capabilities", "labels", "state", "reportedAt"), 1)
        found = self.db.pods.find({"$or": [{"_id": {"$in": list(names)}}, *of_names]}, fields)
        newest_first = await found.sort("reportedAt", -1).limit(WORKERS_MAX).to_list()
        return {pod_name(each["_id"]): each for each in reversed(newest_first)}

    async def _lanes(self, slots: Mapping[str, int], group_id: str, fields: Sequence[str]) -> list[LaneRun]:
        wanted = {"groupId": group_id, "slot": slots}
        runs = newest(await self.db[MEMBERS].find(wanted, dict.fromkeys(fields, 1)).limit(RUNS_MAX).to_list())
        said = await self._said(map(_id_of, runs.values()))
        return [LaneRun(entrant_of(run, said.get(_id_of(run), {})), run) for _, run in sorted(runs.items())]

    async def _said(self, ids: Iterable[str]) -> dict[str, Document]:
        found = await self.db[LANES].find({"_id": {"$in": list(ids)}}).to_list()
        return {each["_id"]: each for each in found}


def _member(run: Mapping[str, Any], said: Mapping[str, Any], first: int) -> Member:
    return Member(
        rank=run["slot"] - first,
        run_id=run["_id"],
        status=Status(run["status"]),
        attempt=run["attempt"],
        ready_at=said.get("readyAt"),
        address=said.get("address") or "",
        told=(run.get("node") or {}).get("attempt", 0),
        preempted=(run.get("preempt") or {}).get("attempt", 0),
        is_paused=bool(run.get("paused")),
        not_before=run.get("notBefore"),
    )


def _was_held(run: Mapping[str, Any]) -> bool:
    attempt = run.get("attempt")
    return isinstance(attempt, int) and attempt > 0


def _id_of(run: Mapping[str, Any]) -> str:
    return lane_id(run["_id"], run["attempt"])


def entrant_of(run: Mapping[str, Any], said: Mapping[str, Any]) -> Entrant:
    """Return the lane of a stored run, by what it said of the start."""
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
        is_left=run["status"] == Status.CANCELED and run.get("claimedBy") is None,
    )
