"""Queries on groups of runs, and on their members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from control_plane.concurrency.turns import in_turns
from control_plane.model.groups.constraints import Constraint
from control_plane.model.groups.members import COUNTED_AS, Members, Trial, counted, newest
from control_plane.model.groups.parameters import Values
from control_plane.model.groups.status import ACTIVE, CLOSED, Action, GroupStatus
from control_plane.model.groups.study import Study
from control_plane.model.groups.trials import trial_of
from control_plane.model.presentation import plain
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.kinds.declaring.queues import RUNS
from events.kinds.declaring.spec import value_at
from events.lifecycle import FINAL, Status
from events.queue.fair.shares import DEFAULT
from events.queue.journal import ServerTime, expression
from events.runtime.errors import Transient

TRIES_MAX: Final = 50
RETRY_S: Final = 60.0  # so long a group stays open for a retry that is on its way
JOURNAL_MAX: Final = 100  # decisions that a group keeps, the newest
FAILURES_MAX: Final = 1_000  # looked at for their causes, the newest
CAUSES_MAX: Final = 20
BEST_MAX: Final = 5
READ_AT_ONCE: Final = 100  # documents that are decoded in one turn of the event loop
MEMBERS: Final = RUNS.collection

_NEWEST: Final[Order] = (("createdAt", -1), ("_id", -1))
_BY_SLOT: Final[Order] = (("_id", 1),)
_LIVE: Final = sorted(status.value for status in Status if status not in FINAL)
SUCCEEDED: Final = sorted(status.value for status in Status if COUNTED_AS[status] == "succeeded")
_ROW: Final = ("plan.rows", "plan.values", "journal", "rounds")


@dataclass(frozen=True, slots=True)
class Entry:
    """A decision about a group, as its journal keeps it."""

    action: Action
    to: GroupStatus
    by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """Reads of groups, and their changes: decisions are compare-and-sets on `revision`."""

    db: Database

    @answers()
    async def create(self, group_id: str, fields: Document) -> Document | None:
        """Store a new group and return it; None where the name is taken."""
        stamps = {"createdAt": True, "updatedAt": True, "since": True}
        try:
            return await self.db.groups.find_one_and_update(
                {"_id": group_id, "revision": {"$exists": False}},
                {"$setOnInsert": {**fields, "revision": 1}, "$currentDate": stamps},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None

    @answers()
    async def find(self, group_id: str) -> Document | None:
        """Return one group."""
        return await self.db.groups.find_one({"_id": group_id})

    async def page(self, after: Sequence[Any] | None, limit: int, project: str | None = None) -> Slice:
        """Return a page of groups, or of those of a project, newest first, without what is long."""
        is_default = project == DEFAULT  # which those from before there were projects do not name
        of_project = {} if project is None else {"run.project": {"$in": [project, *([None] * is_default)]}}
        wanted = Wanted(
            collection="groups", residual=of_project, order=_NEWEST, after=after, limit=limit, hidden=_ROW
        )
        return await read_page(self.db, wanted)

    @answers()
    async def active(self, after: str, limit: int) -> list[Document]:
        """Return groups that are not closed, in the order of their names after `after`."""
        wanted = {"status": {"$in": sorted(ACTIVE)}, "_id": {"$gt": after}}
        return await self.db.groups.find(wanted).sort("_id", 1).limit(limit).to_list()

    @answers()
    async def decide(
        self, group: Document, entry: Entry, sets: Mapping[str, Any], guard: Mapping[str, Any] | None = None
    ) -> Document | None:
        """Make a decision about the group that was read, and return it; None where it changed since."""
        revision = group["revision"] + 1
        line = {
            "n": revision,
            "action": entry.action.value,
            "by": {"$literal": entry.by},
            "at": "$$NOW",
            "from": "$status",
            "to": entry.to.value,
            "reason": {"$literal": entry.reason},
        }
        lines = {"$slice": [{"$concatArrays": ["$journal", [line]]}, -JOURNAL_MAX]}
        fields = {name: expression(value) for name, value in sets.items()}
        return await self.db.groups.find_one_and_update(
            {"_id": group["_id"], "revision": group["revision"], **(guard or {})},
            [
                {
                    "$set": {
                        **fields,
                        "status": entry.to.value,
                        "revision": revision,
                        "journal": lines,
                        "updatedAt": "$$NOW",
                    }
                }
            ],
            return_document=ReturnDocument.AFTER,
        )

    async def reopen(self, group_id: str, slot: int, *, by: str) -> None:
        """Keep a group from closing, or open a closed one, for a retry of a member of its round.

        The retry comes within `RETRY_S`.
        """
        for _ in range(TRIES_MAX):
            if await self._hold(group_id):
                return
            group = await self.find(group_id)
            if group is None or group["status"] not in CLOSED or slot < group["first"]:
                return
            entry = Entry(Action.RETRY, GroupStatus.CLOSING, by, f"slot {slot} is retried")
            if await self.decide(group, entry, {"holdUntil": ServerTime(RETRY_S)}) is not None:
                return
        raise Transient("contended", f"group {group_id} is changing concurrently; try again")

    @answers()
    async def _hold(self, group_id: str) -> bool:
        """Keep a group from closing for `RETRY_S`; False where none is open."""
        changed = await self.db.groups.update_one(
            {"_id": group_id, "status": {"$in": sorted(ACTIVE)}},
            [{"$set": {"holdUntil": expression(ServerTime(RETRY_S))}}],
        )
        return changed.matched_count == 1

    @answers()
    async def close(self, group: Document, entry: Entry, members: Members) -> Document | None:
        """Close the group that was read, unless a retry is on its way into it."""
        arrived = {"$or": [{"holdUntil": None}, {"$expr": {"$lt": ["$holdUntil", "$$NOW"]}}]}
        return await self.decide(group, entry, {"counts": members.counts(), "holdUntil": None}, arrived)

    @answers()
    async def reserve(
        self, group: Document, count: int, members: Members, pending: Document | None = None
    ) -> Document | None:
        """Decide that the next `count` slots are submitted, if the group is still as it was read.

        `pending` has their values, where no plan says them.
        """
        wanted = {
            "_id": group["_id"],
            "revision": group["revision"],
            "status": GroupStatus.OPEN.value,
            "next": group["next"],
            "filled": group["next"],
        }
        sets = {"next": group["next"] + count, "counts": members.counts(), "pending": pending}
        return await self.db.groups.find_one_and_update(
            wanted, {"$set": sets}, return_document=ReturnDocument.AFTER
        )

    @answers()
    async def fill(self, group: Document, until: int) -> Document | None:
        """Note that every slot before `until` has its run; None where another replica did."""
        return await self.db.groups.find_one_and_update(
            {"_id": group["_id"], "filled": group["filled"], "next": {"$gte": until}},
            {"$set": {"filled": until}},
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def abandon(self, group: Document) -> Document | None:
        """Take back the decision about slots that have no runs; None where the group changed since."""
        return await self.db.groups.find_one_and_update(
            {"_id": group["_id"], "filled": group["filled"], "next": group["next"]},
            {"$set": {"next": group["filled"]}},
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def note(self, group: Document, members: Members) -> None:
        """Store the counters of a group that has decided nothing since."""
        if group["counts"] != members.counts():
            await self.db.groups.update_one(
                {"_id": group["_id"], "revision": group["revision"], "next": group["next"]},
                {"$set": {"counts": members.counts()}},
            )

    @answers()
    async def members(self, group_id: str, first: int) -> Members:
        """Count the slots from `first` on by where the newest run of each stands, from the keys alone.

        A run that was deleted counts as it ended.
        """
        deleted = await self._deleted(group_id, first)
        if deleted:
            return await self._members_with(deleted, group_id, first)
        pipeline: list[Document] = [
            {"$match": {"groupId": group_id, "slot": {"$gte": first}}},
            {"$sort": {"_id": -1}},
            {"$group": {"_id": "$slot", "status": {"$first": "$status"}}},
            {"$group": {"_id": "$status", "count": {"$sum": 1}}},
        ]
        cursor = await self.db[MEMBERS].aggregate(pipeline, hint="by_group")
        return counted({each["_id"]: each["count"] for each in await cursor.to_list()})

    async def _deleted(self, group_id: str, first: int) -> dict[int, tuple[str, str]]:
        """Return of each slot that lost runs the newest of these: its id, and its status."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        found = self.db.tombstones.find(wanted, {"slot": 1, "status": 1}).sort("_id", 1)
        return {each["slot"]: (each["_id"], each["status"]) async for each in found}

    async def _members_with(
        self, deleted: Mapping[int, tuple[str, str]], group_id: str, first: int
    ) -> Members:
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        places = dict(deleted)
        found = self.db[MEMBERS].find(wanted, {"slot": 1, "status": 1}).hint("by_group")
        async for each in found:
            place = (each["_id"], each["status"])
            places[each["slot"]] = max(place, places.get(each["slot"], place))
        return counted(Counter(status for _, status in places.values()))

    async def trials(self, group_id: str, first: int, study: Study) -> tuple[Trial, ...]:
        """Return the slots of a study: the values of each, and what its newest run measured."""
        places = {f"summary.{name}": 1 for name in study.measures}
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        fields = {"slot": 1, "status": 1, "cancelRequested.pruned": 1, "error.fault": 1, **places}
        async with answers():
            found = self.db[MEMBERS].find(wanted, fields).batch_size(READ_AT_ONCE)
            runs = sorted(newest([run async for run in found]).items())
        values = await self.values([run["_id"] for _, run in runs], study.names)
        return tuple(
            [
                trial_of(run, values[run["_id"]], study.metrics, study.constraints)
                async for _, run in in_turns(runs)
            ]
        )

    @answers()
    async def spent(self, group_id: str, first: int, name: str) -> float:
        """Return the sum of a headline number over the runs from slot `first` on: what is an amount."""
        pipeline: list[Document] = [
            {"$match": {"groupId": group_id, "slot": {"$gte": first}}},
            {"$match": {f"summary.{name}": {"$type": "number", "$gt": 0}}},
            {"$group": {"_id": None, "sum": {"$sum": f"$summary.{name}"}}},
        ]
        cursor = await self.db[MEMBERS].aggregate(pipeline, hint="by_group")
        return float(sum(each["sum"] for each in await cursor.to_list()))

    async def values(self, run_ids: Sequence[str], names: Sequence[str]) -> dict[str, Values]:
        """Return the values of these parameters in the specifications of runs."""
        # the values alone; of two places that overlap the outer one, since the store takes no two
        outer = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
        places = {f"spec.{name}": 1 for name in outer}
        specs: Document = {}
        async with answers():
            found = self.db.run_specs.find({"_id": {"$in": list(run_ids)}}, places)
            async for each in found.batch_size(READ_AT_ONCE):
                specs[each["_id"]] = each.get("spec", {})
        return {
            run_id: {name: plain(value_at(specs.get(run_id, {}), name)) for name in names}
            async for run_id in in_turns(run_ids)
        }

    @answers()
    async def statuses(self, group_id: str, first: int) -> dict[str, str]:
        """Return where the runs of the slots from `first` on stand, retries as well, from the keys alone."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        cursor = self.db[MEMBERS].find(wanted, {"status": 1}).hint("by_group")
        return {each["_id"]: each["status"] async for each in cursor}

    @answers()
    async def attempts(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return how many attempts each of these runs has had."""
        found = self.db[MEMBERS].find({"_id": {"$in": list(run_ids)}}, {"attempt": 1})
        return {each["_id"]: each["attempt"] async for each in found}

    @answers()
    async def budgets(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """Return the budget in the specification of each of these runs that has one."""
        found = self.db.run_specs.find({"_id": {"$in": list(run_ids)}}, {"spec.budget_usd": 1})
        return {each["_id"]: (each.get("spec") or {}).get("budget_usd") async for each in found}

    @answers()
    async def live(self, group_id: str, first: int, limit: int) -> list[str]:
        """Return members from this slot on that have not ended, and whose end nobody has asked for."""
        waits = [status for status in _LIVE if status != Status.CANCELING]
        wanted = {"groupId": group_id, "slot": {"$gte": first}, "status": {"$in": waits}}
        found = self.db[MEMBERS].find(wanted, {"_id": 1}).sort("_id", -1).limit(limit)
        return [each["_id"] for each in await found.to_list()]

    async def page_of_members(self, group_id: str, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of the members, in the order of rounds and slots, retries at their own time."""
        wanted = Wanted(
            collection=MEMBERS,
            leading={"groupId": group_id},
            order=_BY_SLOT,
            after=after,
            limit=limit,
            hidden=("words", "labelList", "idempotency", "journal", "notes"),
        )
        return await read_page(self.db, wanted)

    @answers()
    async def causes(self, group_id: str, first: int) -> list[Document]:
        """Return why members failed: code, how many, and one of them each, the most frequent first.

        Of each slot its newest run counts: what was retried is no failure of the group.
        """
        pipeline: list[Document] = [
            *newest_of_slots(group_id, first, {"code": "$error.code", "message": "$error.message"}),
            {"$match": {"newest.status": Status.FAILED.value}},
            {"$sort": {"newest.run": -1}},
            {"$limit": FAILURES_MAX},
            {
                "$group": {
                    "_id": "$newest.code",
                    "count": {"$sum": 1},
                    "run": {"$first": "$newest.run"},
                    "message": {"$first": "$newest.message"},
                }
            },
            {"$sort": {"count": -1}},
            {"$limit": CAUSES_MAX},
        ]
        cursor = await self.db[MEMBERS].aggregate(pipeline, hint="by_group")
        return await cursor.to_list()

    @answers()
    async def summarized(self, group_id: str, first: int) -> Document | None:
        """Return a member of the round that has headline numbers, the newest."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}, "summary": {"$type": "object"}}
        found = self.db[MEMBERS].find(wanted, {"summary": 1}).sort("_id", -1).limit(1)
        return next(iter(await found.to_list()), None)

    @answers()
    async def aside(self, group_id: str, first: int, constraints: Sequence[Constraint]) -> dict[str, int]:
        """Return how many slots of the round were pruned, and how many are infeasible."""
        fields = {"pruned": "$cancelRequested.pruned", **_asked(constraints)}
        pruned = {"newest.status": Status.CANCELED.value, "newest.pruned": {"$type": "object"}}
        succeeded = {"newest.status": {"$in": SUCCEEDED}}
        one = {"_id": None, "count": {"$sum": 1}}
        pipeline: list[Document] = [
            *newest_of_slots(group_id, first, fields),
            {
                "$facet": {
                    "pruned": [{"$match": pruned}, {"$group": one}],
                    "infeasible": [{"$match": {**succeeded, "$nor": [_held(constraints)]}}, {"$group": one}],
                }
            },
        ]
        cursor = await self.db[MEMBERS].aggregate(pipeline, hint="by_group")
        (found,) = await cursor.to_list()
        return {name: sum(each["count"] for each in found[name]) for name in ("pruned", "infeasible")}

    @answers()
    async def best(
        self,
        group_id: str,
        first: int,
        name: str,
        direction: int,
        constraints: Sequence[Constraint] = (),
    ) -> list[Document]:
        """Return the members with the best headline number of this name: 1 is lower, -1 is higher.

        As for a study, a number counts where the newest run of its slot has succeeded, and holds the
        constraints.
        """
        pipeline: list[Document] = [
            *newest_of_slots(group_id, first, {"value": f"$summary.{name}", **_asked(constraints)}),
            {"$match": {"newest.status": {"$in": SUCCEEDED}, "newest.value": {"$type": "number"}}},
            {"$match": _held(constraints)},
            {"$sort": {"newest.value": direction, "newest.run": 1}},
            {"$limit": BEST_MAX},
            {"$project": {"_id": "$newest.run", "slot": "$_id", "value": "$newest.value"}},
        ]
        cursor = await self.db[MEMBERS].aggregate(pipeline, hint="by_group")
        return await cursor.to_list()


def _asked(constraints: Sequence[Constraint]) -> Document:
    return {f"c{place}": f"$summary.{each.name}" for place, each in enumerate(constraints)}


def _held(constraints: Sequence[Constraint]) -> Document:
    """Return the condition on members that hold every constraint; `number` leaves out a NaN."""
    return {
        f"newest.c{place}": {"$type": "number", "$lte" if each.is_upper else "$gte": each.bound}
        for place, each in enumerate(constraints)
    }


def newest_of_slots(group_id: str, first: int, fields: Document) -> list[Document]:
    """Return the stages that bring the newest run of each slot from `first` on, with these fields."""
    output = {"run": "$_id", "status": "$status", **fields}
    return [
        {"$match": {"groupId": group_id, "slot": {"$gte": first}}},
        {"$group": {"_id": "$slot", "newest": {"$top": {"sortBy": {"_id": -1}, "output": output}}}},
    ]
