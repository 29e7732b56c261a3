"""Queries on projects, on what they have used, and on the shares that pods are told.

`project_usage` and `shares` are one document each, for the fleet.
Law: the sums of `project_usage` are written with the cursors up to which they go, by compare-and-set: what is
added is added once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from control_plane.model.ownership import IMPORTED
from control_plane.model.views.pods import cards_of
from control_plane.store.database import Database, Document, answers, moment
from control_plane.store.log.pod_lives import with_lives
from control_plane.store.pages import Order, Slice, Wanted, read_page
from events.catalog import RunUsage, type_of
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import HELD
from events.queue.fair.shares import FLEET, PROJECTS_MAX

BATCH_MAX: Final = 2_000  # attempts, or costs, of one round
HELD_MAX: Final = 20_000
_BY_NAME: Final[Order] = (("_id", 1),)
_HELD: Final[Document] = {"$in": [status.value for status in HELD]}
_USAGE: Final = type_of(RunUsage)


@dataclass(frozen=True, slots=True)
class Projects:
    """Reads of projects, and their changes, each of one document."""

    db: Database

    async def now(self) -> datetime:
        """Return the moment by the store's clock. Raises `Transient`."""
        return await moment(self.db)

    @answers()
    async def put(self, name: str, fields: Mapping[str, Any]) -> Document:
        """Set a project, new or in the place of what there is."""
        sets: Document = {each: {"$literal": value} for each, value in fields.items()}
        times = {"setAt": "$$NOW", "createdAt": {"$ifNull": ["$createdAt", "$$NOW"]}}
        document = await self.db.projects.find_one_and_update(
            {"_id": name},
            [{"$set": {**sets, **times}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert document is not None, "an upsert answers with its document"
        return document

    @answers()
    async def find(self, name: str) -> Document | None:
        """Return one project."""
        return await self.db.projects.find_one({"_id": name})

    @answers()
    async def all(self) -> list[Document]:
        """Return the projects by name, `PROJECTS_MAX` at most."""
        return await self.db.projects.find().sort("_id", 1).limit(PROJECTS_MAX).to_list()

    @answers()
    async def has_room(self) -> bool:
        """Say whether one more project can be made."""
        return await self.db.projects.count_documents({}, limit=PROJECTS_MAX) < PROJECTS_MAX

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of projects by name."""
        return await read_page(
            self.db, Wanted(collection="projects", order=_BY_NAME, after=after, limit=limit)
        )

    @answers()
    async def shares(self) -> Document | None:
        """Return what pods are told of the projects."""
        return await self.db.shares.find_one({"_id": FLEET})

    @answers()
    async def tell(self, told: Sequence[Document], at: datetime) -> None:
        """Tell pods what each project has used."""
        await self.db.shares.replace_one(
            {"_id": FLEET}, {"_id": FLEET, "at": at, "projects": list(told)}, upsert=True
        )

    @answers()
    async def usage(self) -> Document | None:
        """Return the sums, and the cursors up to which they go."""
        return await self.db.project_usage.find_one({"_id": FLEET})

    @answers()
    async def keep(self, revision: int, fields: Mapping[str, Any]) -> bool:
        """Write the sums with their cursors, if nobody has since `revision`; 0 where there are none."""
        new = {"_id": FLEET, **fields, "revision": revision + 1}
        try:
            done = await self.db.project_usage.replace_one(
                {"_id": FLEET, "revision": revision}, new, upsert=revision == 0
            )
        except DuplicateKeyError:
            return False
        return bool(done.matched_count or done.upserted_id is not None)

    @answers()
    async def ended(self, after: datetime, until: datetime) -> list[Document]:
        """Return the attempts that ended after one moment and by another, the oldest first."""
        fields = dict.fromkeys(("runId", "pod", "claimedAt", "endedAt"), 1)
        wanted = {"endedAt": {"$gt": after, "$lte": until}, IMPORTED: None}
        found = self.db.attempts.find(wanted, fields)
        return await found.sort("endedAt", 1).limit(BATCH_MAX).to_list()

    @answers()
    async def costs(self, after: datetime, until: datetime) -> list[Document]:
        """Return the usage that was told after one moment and by another, the oldest first."""
        wanted = {"type": _USAGE, "receivedAt": {"$gt": after, "$lte": until}, IMPORTED: None}
        fields = {"runId": 1, "receivedAt": 1, "data.cost_usd": 1}
        return await self.db.events.find(wanted, fields).sort("receivedAt", 1).limit(BATCH_MAX).to_list()

    @answers()
    async def classes(self, run_ids: Iterable[str]) -> dict[str, object]:
        """Return the class of each of these runs, as it is stored."""
        wanted = {"_id": {"$in": list(run_ids)}}
        found = [await self.db[name].find(wanted, {"classKey": 1}).to_list() for name in QUEUES]
        return {each["_id"]: each.get("classKey") for documents in found for each in documents}

    @answers()
    async def cards(self, pods: Iterable[str]) -> dict[object, int]:
        """Return how many GPUs each of these pods has told."""
        wanted = {"_id": {"$in": list(pods)}}
        found = await with_lives(self.db, wanted, {"capabilities.gpus.name": 1})
        return {each["_id"]: cards_of(each) for each in found}

    @answers()
    async def held(self) -> list[Document]:
        """Return the runs that pods have now."""
        fields = {"classKey": 1, "claimedAt": 1, "claimedBy": 1}
        found = [
            await self.db[name].find({"status": _HELD}, fields).limit(HELD_MAX).to_list() for name in QUEUES
        ]
        return [each for documents in found for each in documents]
