"""Queries on tasks, and on the runs of their groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from control_plane.model.groups.members import newest
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.kinds.declaring.queues import RUNS
from events.queue.journal import expression
from events.runtime.errors import Conflict

_NEWEST: Final[Order] = (("createdAt", -1), ("_id", -1))
_OF_RUN: Final = dict.fromkeys(
    (
        "slot",
        "status",
        "summary",
        "error.code",
        "error.message",
        "currentStage.name",
        "cancelRequested.pruned",
    ),
    1,
)
READ_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Tasks:
    """Reads of tasks, and their changes, which are compare-and-sets on `revision`."""

    db: Database

    @answers()
    async def create(self, task_id: str, fields: Mapping[str, Any], by: str) -> None:
        """Store a new task. Raises `Conflict` where its name is taken."""
        made = {name: expression(value) for name, value in fields.items()}
        stamps = {"createdAt": "$$NOW", "updatedAt": "$$NOW"}
        author = {"createdBy": {"$literal": by}, "updatedBy": {"$literal": by}}
        sets = {**made, **stamps, **author, "revision": 1, "begun": 0}
        try:
            await self.db.tasks.update_one({"_id": task_id}, [{"$set": sets}], upsert=True)
        except DuplicateKeyError:
            raise _taken(fields) from None

    @answers()
    async def find(self, task_id: str) -> Document | None:
        """Return one task."""
        return await self.db.tasks.find_one({"_id": task_id})

    @answers()
    async def named(self, name: str) -> str | None:
        """Return the id of the task with this name."""
        found = await self.db.tasks.find_one({"name": name}, {"_id": 1})
        return None if found is None else str(found["_id"])

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of tasks, newest first."""
        return await read_page(self.db, Wanted(collection="tasks", order=_NEWEST, after=after, limit=limit))

    @answers()
    async def edit(self, task: Mapping[str, Any], fields: Mapping[str, Any], by: str) -> Document | None:
        """Change the task that was read; None where it changed since.

        Raises `Conflict` where its new name is taken.
        """
        sets = {name: expression(value) for name, value in fields.items()}
        sets |= {"updatedAt": "$$NOW", "updatedBy": {"$literal": by}}
        try:
            return await self._change(task, sets)
        except DuplicateKeyError:
            raise _taken(fields) from None

    @answers()
    async def begin(self, task: Mapping[str, Any], rounds: int) -> Document | None:
        """Decide that a task has this many rounds; None where it changed since it was read."""
        return await self._change(task, {"begun": rounds})

    @answers()
    async def delete(self, task: Mapping[str, Any]) -> bool:
        """Remove the task that was read; False where it changed since."""
        wanted = {"_id": task["_id"], "revision": task["revision"]}
        return (await self.db.tasks.delete_one(wanted)).deleted_count == 1

    async def _change(self, task: Mapping[str, Any], sets: Mapping[str, Any]) -> Document | None:
        revision = task["revision"]
        return await self.db.tasks.find_one_and_update(
            {"_id": task["_id"], "revision": revision},
            [{"$set": {**sets, "revision": revision + 1}}],
            return_document=ReturnDocument.AFTER,
        )

    @answers()
    async def groups(self, group_ids: Sequence[str]) -> dict[str, Document]:
        """Return these groups, those that there are."""
        found = self.db.groups.find({"_id": {"$in": list(group_ids)}})
        return {each["_id"]: each async for each in found}

    @answers()
    async def find_group(self, group_id: str) -> Document | None:
        """Return one group."""
        return await self.db.groups.find_one({"_id": group_id})

    @answers()
    async def runs(self, group_id: str, first: int) -> list[Document]:
        """Return the newest run of each slot from `first` on, in their order: what tells how it stands."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        found = self.db[RUNS.collection].find(wanted, _OF_RUN).batch_size(READ_AT_ONCE)
        by_slot = newest([run async for run in found])
        return [dict(by_slot[slot]) for slot in sorted(by_slot)]

    @answers()
    async def stands(self, group_id: str, first: int) -> dict[str, int]:
        """Return how many runs from a slot on have each status, by the keys of an index alone."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        pipeline = [{"$match": wanted}, {"$group": {"_id": "$status", "count": {"$sum": 1}}}]
        cursor = await self.db[RUNS.collection].aggregate(pipeline, hint="by_group")
        return {each["_id"]: each["count"] for each in await cursor.to_list()}

    @answers()
    async def measured(self, group_id: str, first: int, numbers: Sequence[str]) -> list[Document]:
        """Return the newest run of each slot from `first` on: what tells which is the best."""
        wanted = {"groupId": group_id, "slot": {"$gte": first}}
        fields = ("slot", "status", "logOpen", "cancelRequested.pruned")
        error = ("error.code", "error.message", "error.fault")
        shown = dict.fromkeys((*fields, *error, *(f"summary.{each}" for each in numbers)), 1)
        found = self.db[RUNS.collection].find(wanted, shown).hint("by_group")
        by_slot = newest(await found.to_list())
        return [dict(by_slot[slot]) for slot in sorted(by_slot)]


def _taken(fields: Mapping[str, Any]) -> Conflict:
    return Conflict("task_exists", f"Task '{fields['name']}' already exists")
