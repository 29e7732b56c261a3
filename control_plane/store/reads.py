"""Queries for people who look at runs: lists, counts, and what stands beside one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import NEWEST, Order, Slice, Wanted, read_page
from control_plane.store.schema import QUEUES
from control_plane.tree import NODE_TYPES
from events.catalog import RunLog, type_of
from events.checkpoints import PREFIX
from events.lifecycle import Status

COUNT_MAX: Final = 10_000
CLASSES_MAX: Final = 200
BESIDE_MAX: Final = 1_000
NODE_EVENTS_MAX: Final = 10_000
CHECKPOINTS_MAX: Final = 2_000

_INDEXED_ONLY: Final = ("words", "labelList", "idempotency")
_ID_END: Final = "\uffff"
_ARRIVAL: Final[Order] = (("position", 1),)
_LATEST: Final[Order] = (("position", -1),)
_BY_NAME: Final[Order] = (("attempt", -1), ("name", 1))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A class of a queue: how many wait (counted up to `COUNT_MAX`), and since when the oldest."""

    collection: str
    class_key: str
    depth: int
    oldest: Any


@dataclass(frozen=True, slots=True)
class RunReads:
    """Bounded reads of runs and of what belongs to them."""

    db: Database

    async def page(
        self, conditions: Mapping[str, Any], search: str | None, after: Sequence[Any] | None, limit: int
    ) -> Slice:
        """Return a page of runs, newest first; the first of `conditions` leads, the others are residual."""
        filters: list[Document] = [{name: value} for name, value in conditions.items()]
        if search is not None:
            filters.insert(0, matching(search))
        residual: Document = {"$and": filters[1:]} if len(filters) > 1 else {}
        wanted = Wanted(
            collection="runs",
            leading=filters[0] if filters else {},
            residual=residual,
            after=after,
            limit=limit,
            hidden=(*_INDEXED_ONLY, "journal"),
        )
        return await read_page(self.db, wanted)

    async def find(self, run_id: str) -> Document | None:
        """Return a run or an ideation request."""
        async with answers():
            for collection in QUEUES:
                document = await self.db[collection].find_one({"_id": run_id})
                if document is not None:
                    return document
        return None

    async def spec(self, run_id: str) -> Document | None:
        """Return what a run was asked to do."""
        async with answers():
            return await self.db.run_specs.find_one({"_id": run_id})

    async def beside(self, collection: str, run_id: str, order: Order) -> list[Document]:
        """Return the documents of `collection` that belong to a run."""
        async with answers():
            cursor = self.db[collection].find({"runId": run_id}).sort(list(order)).limit(BESIDE_MAX)
            return await cursor.to_list()

    async def node_events(self, run_id: str) -> list[Document]:
        """Return the events of a run's search tree."""
        fields = {"type": 1, "attempt": 1, "sequence": 1, "data": 1}
        async with answers():
            cursor = self.db.events.find({"runId": run_id, "type": {"$in": list(NODE_TYPES)}}, fields)
            return await cursor.limit(NODE_EVENTS_MAX).to_list()

    async def events(
        self,
        run_id: str,
        *,
        event_type: str | None,
        levels: Sequence[str],
        after: Sequence[Any] | None,
        limit: int,
        newest_first: bool,
    ) -> Slice:
        """Return a page of a run's log in the order of arrival, or against it."""
        leading: Document = {"runId": run_id}
        if event_type is not None or levels:
            leading["type"] = event_type or type_of(RunLog)
        wanted = Wanted(
            collection="events",
            leading=leading,
            # a log line without a level is an `info`, as in the catalogue
            residual={"data.level": {"$in": [*levels, None] if "info" in levels else list(levels)}}
            if levels
            else {},
            order=_LATEST if newest_first else _ARRIVAL,
            after=after,
            limit=limit,
        )
        return await read_page(self.db, wanted)

    async def artifacts(self, run_id: str, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of a run's artifacts, the latest attempt's first, by name."""
        wanted = Wanted(
            collection="artifacts", leading={"runId": run_id}, order=_BY_NAME, after=after, limit=limit
        )
        return await read_page(self.db, wanted)

    async def checkpoints(self, run_id: str, before: int) -> list[Document]:
        """Return the checkpoints' artifacts of attempts before `before`, the latest attempt's first."""
        query = {
            "runId": run_id,
            "attempt": {"$lt": before},
            "name": {"$gte": PREFIX, "$lt": PREFIX + _ID_END},
        }
        async with answers():
            cursor = self.db.artifacts.find(query).sort(list(_BY_NAME)).limit(CHECKPOINTS_MAX)
            return await cursor.to_list()

    async def artifact(self, artifact_id: str) -> Document | None:
        """Return one artifact."""
        async with answers():
            return await self.db.artifacts.find_one({"_id": artifact_id})

    async def count(self, status: Status) -> int:
        """Return how many runs have `status`, counted up to `COUNT_MAX`."""
        async with answers():
            return await self.db.runs.count_documents(
                {"status": status.value}, limit=COUNT_MAX, hint="by_status"
            )

    async def newest(self, status: Status, limit: int) -> list[Document]:
        """Return the newest runs of `status`."""
        async with answers():
            cursor = self.db.runs.find({"status": status.value}).sort(list(NEWEST)).limit(limit)
            return await cursor.to_list()

    async def waiting(self) -> list[Waiting]:
        """Return every class in which something waits, one index seek and one bounded count each."""
        async with answers():
            return [each for collection in QUEUES for each in await self._classes(collection)]

    async def _classes(self, collection: str) -> list[Waiting]:
        found: list[Waiting] = []
        last = ""
        for _ in range(CLASSES_MAX):
            head = await self.db[collection].find_one(
                {"status": Status.QUEUED.value, "classKey": {"$gt": last}},
                {"classKey": 1},
                sort=[("classKey", 1)],
                hint="claim",
            )
            if head is None:
                break
            last = head["classKey"]
            found.append(await self._depth(collection, last))
        return found

    async def _depth(self, collection: str, class_key: str) -> Waiting:
        pipeline: list[Document] = [
            {"$match": {"status": Status.QUEUED.value, "classKey": class_key}},
            {"$limit": COUNT_MAX},
            {"$group": {"_id": None, "depth": {"$sum": 1}, "oldest": {"$min": "$queuedAt"}}},
        ]
        cursor = await self.db[collection].aggregate(pipeline, hint="claim")
        for group in await cursor.to_list():
            return Waiting(collection, class_key, group["depth"], group["oldest"])
        return Waiting(collection, class_key, 0, None)


def matching(search: str) -> Document:
    """Return the condition of a free search: every word in the title, or the beginning of an id."""
    words = search.lower().split()
    by_word: Document = {"words": words[0]} if len(words) == 1 else {"words": {"$all": words}}
    if len(words) != 1:
        return by_word
    prefix = words[0].upper()
    return {"$or": [{"_id": {"$gte": prefix, "$lt": prefix + _ID_END}}, by_word]}
