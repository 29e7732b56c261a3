"""Queries of the verifier on groups: reads whole groups and counts their members, and writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.groups.members import Members
from control_plane.store.database import Database, Document, answers
from control_plane.store.queue.groups import MEMBERS, Groups

SCANNED_MAX: Final = 2_000
STRAYS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """A group as it is stored, and its members: how many stand where, and which break the laws of slots."""

    group: Document
    members: Members
    slots: int  # of the round, that have a run
    strays: list[str]  # runs of slots that nobody has decided
    shared: list[str]  # one of the runs of each slot that has several


@dataclass(frozen=True, slots=True)
class GroupAudit:
    """Reads groups for an audit, in pages."""

    db: Database
    codec: Any  # reads whatever is stored

    async def names(self) -> AsyncIterator[str]:
        """Yield the name of every group, and of every group that a run names and that is not there."""
        for collection, field in (("groups", "_id"), (MEMBERS, "groupId")):
            beyond = ""
            while page := await self._page(collection, field, beyond):
                known = await self._existing(page) if collection == MEMBERS else set()
                for name in page:
                    if name not in known:
                        yield name
                beyond = page[-1]

    @answers()
    async def _existing(self, names: list[str]) -> set[str]:
        found = await self.db.groups.find({"_id": {"$in": names}}, {"_id": 1}).to_list()
        return {each["_id"] for each in found}

    @answers()
    async def _page(self, collection: str, field: str, beyond: str) -> list[str]:
        """Return the next names; of a group with many members, the rest of them is passed over."""
        pipeline: list[Document] = [
            {"$match": {field: {"$gt": beyond}}},
            {"$sort": {field: 1}},
            {"$limit": SCANNED_MAX},
            {"$group": {"_id": f"${field}"}},
            {"$sort": {"_id": 1}},
        ]
        readable = self.db.get_collection(collection, codec_options=self.codec)
        found = await (await readable.aggregate(pipeline)).to_list()
        return [each["_id"] for each in found]

    async def standing(self, name: str) -> Standing | None:
        """Return how a group and its members stand; None where there is no such group."""
        async with answers():
            group = await self.db.get_collection("groups", codec_options=self.codec).find_one({"_id": name})
        if group is None:
            return None
        members = await Groups(self.db).members(name, group["first"])
        return Standing(group, members, members.total, await self._strays(group), await self._shared(name))

    @answers()
    async def _strays(self, group: Document) -> list[str]:
        outside = {
            "$or": [{"slot": {"$gte": group["next"]}}, {"slot": {"$lt": 0}}, {"slot": {"$exists": False}}]
        }
        found = self.db[MEMBERS].find({"groupId": group["_id"], **outside}, {"_id": 1}).limit(STRAYS_MAX)
        return [each["_id"] for each in await found.to_list()]

    @answers()
    async def _shared(self, name: str) -> list[str]:
        """Return one run of each slot that was submitted more than once, and of each that has two retries."""
        pipeline: list[Document] = [
            {"$match": {"groupId": name}},
            {"$sort": {"_id": 1}},
            {
                "$group": {
                    "_id": {"slot": "$slot", "parent": "$parentRunId"},
                    "run": {"$first": "$_id"},
                    "count": {"$sum": 1},
                }
            },
            {"$match": {"count": {"$gt": 1}}},
            {"$limit": STRAYS_MAX},
        ]
        cursor = await self.db[MEMBERS].aggregate(pipeline)
        return [each["run"] for each in await cursor.to_list()]
