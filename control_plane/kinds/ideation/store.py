"""Queries on hypotheses, and on the ideas that were found for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import Slice, Wanted, read_page
from events.lifecycle import FINAL, Status
from events.queue.journal import expression

# What of an ideation request is shown with its hypothesis.
_SHOWN: Final = ("status", "error", "currentStage", "notBefore")
UNDER_WAY_MAX: Final = 200  # hypotheses that one look brings up to date, each with its ideas
_ASKED: Final = {**dict.fromkeys(_SHOWN, 1), "logOpen": 1}


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """Reads and inserts hypotheses, and records which idea a person chose."""

    db: Database

    async def insert(self, hypothesis: Document) -> None:
        """Store a new hypothesis, stamped by the store's clock; one that is there stays as it is."""
        fields = {name: expression(value) for name, value in hypothesis.items()}
        pipeline = [{"$set": {**fields, "createdAt": "$$NOW"}}]
        missing: Document = {"_id": hypothesis["_id"], "createdAt": {"$exists": False}}
        async with answers():
            with suppress(DuplicateKeyError):
                await self.db.hypotheses.update_one(missing, pipeline, upsert=True)

    async def find(self, hypothesis_id: str) -> Document | None:
        """Return a hypothesis with its `ideas`, and the current state of its ideation in the queue."""
        async with answers():
            hypothesis = await self.db.hypotheses.find_one({"_id": hypothesis_id})
            if hypothesis is None:
                return None
            hypothesis |= {"ideas": [], "unfinishedIdeas": []}
            if hypothesis["ideation"] is None:
                return hypothesis
            request_id = hypothesis["ideation"]["requestId"]
            # The request first: once it is over, and its log whole, no idea can come that is not seen here.
            request = await self.db.ideation_requests.find_one({"_id": request_id}, _ASKED)
            latest = await self._latest({"runId": request_id, "ideas.0": {"$exists": True}})
            latest = latest or await self._latest({"runId": request_id})
        hypothesis["ideation"] |= _standing(request)
        if latest is not None:
            hypothesis |= {"ideas": latest["ideas"], "unfinishedIdeas": latest["unfinished"]}
        return hypothesis

    async def _latest(self, query: Document) -> Document | None:
        return await self.db.ideas.find_one(query, sort=[("attempt", -1)])

    @answers()
    async def earlier(self, limit: int) -> list[Document]:
        """Return the claims of the newest hypotheses, and the ideas that the newest requests found."""
        newest = [("_id", -1)]
        hypotheses = self.db.hypotheses.find({}, {"title": 1, "idea": 1}, sort=newest, limit=limit)
        own = [{"Title": each["title"], "Short Hypothesis": each["idea"]} async for each in hypotheses]
        fields = {"ideas.Title": 1, "ideas.Short Hypothesis": 1}
        requests = self.db.ideas.find({}, fields, sort=newest, limit=limit)
        found: list[Document] = []
        async for each in requests:
            found.extend(each["ideas"])
            if len(found) >= limit:
                break
        return [*own[: limit // 2], *found[:limit], *own[limit // 2 :]]

    async def choose(self, hypothesis_id: str, index: int, idea: Mapping[str, Any]) -> None:
        """Record which idea a person chose; the last choice counts."""
        chosen = {"ideaIndex": index, "ideaJson": dict(idea)}
        async with answers():
            await self.db.hypotheses.update_one({"_id": hypothesis_id}, {"$set": chosen})

    @answers()
    async def under_way(self, after: str) -> list[Document]:
        """Return a page of hypotheses that keep a search for ideas which is not over, as `find` does."""
        query = {"ideation.isOver": False, "_id": {"$gt": after}}
        page = await self.db.hypotheses.find(query).sort("_id").limit(UNDER_WAY_MAX).to_list()
        requests = [each["ideation"]["requestId"] for each in page]
        # The requests first, as in `find`.
        wanted = {"_id": {"$in": requests}}
        standing = {each["_id"]: each async for each in self.db.ideation_requests.find(wanted, _ASKED)}
        latest: dict[str, Document] = {}
        in_order = [("runId", 1), ("attempt", 1)]
        async for each in self.db.ideas.find({"runId": {"$in": requests}}).sort(in_order):
            if each["ideas"] or each["runId"] not in latest:
                latest[each["runId"]] = each
        return [_with_ideas(each, standing, latest) for each in page]

    @answers()
    async def tell(self, found: Mapping[str, tuple[Document, Document]]) -> int:
        """Set in hypotheses what is told of them, by path; return how many it changed.

        One whose idea somebody chose since it was read is left to the next look; one that is over stays.
        """
        writes = [
            UpdateOne(
                {"_id": each, "ideation.isOver": False, "ideaIndex": read.get("ideaIndex")}, {"$set": told}
            )
            for each, (read, told) in found.items()
        ]
        return (await self.db.hypotheses.bulk_write(writes, ordered=False)).modified_count

    async def page(self, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of hypotheses, newest first, each with its ideation's state and `ideaCount`."""
        page = await read_page(self.db, Wanted(collection="hypotheses", after=after, limit=limit))
        request_ids = [
            each["ideation"]["requestId"] for each in page.documents if each["ideation"] is not None
        ]
        wanted = {"_id": {"$in": request_ids}}
        async with answers():
            requests = {each["_id"]: each async for each in self.db.ideation_requests.find(wanted, _ASKED)}
            counts = await self._counts(request_ids)
        return replace(page, documents=[_listed(each, requests, counts) for each in page.documents])

    async def _counts(self, request_ids: Sequence[str]) -> Mapping[str, int]:
        """Return for each request the number of ideas of the latest attempt that found any."""
        pipeline: list[Document] = [
            {"$match": {"runId": {"$in": list(request_ids)}}},
            {"$sort": {"runId": 1, "attempt": 1}},
            {"$project": {"runId": 1, "count": {"$size": "$ideas"}}},
            {"$match": {"count": {"$gt": 0}}},
        ]
        cursor = await self.db.ideas.aggregate(pipeline)
        return {each["runId"]: each["count"] async for each in cursor}


def _with_ideas(
    hypothesis: Document, requests: Mapping[str, Document], latest: Mapping[str, Document]
) -> Document:
    request_id = hypothesis["ideation"]["requestId"]
    found = latest.get(request_id, {"ideas": []})
    ideation = hypothesis["ideation"] | _standing(requests.get(request_id))
    return {**hypothesis, "ideation": ideation, "ideas": found["ideas"]}


def _standing(request: Mapping[str, Any] | None) -> Document:
    """Return the state of an ideation in the queue."""
    if request is None:
        # The hypothesis is stored before its request: who proposed it was told that it failed.
        error = {"code": "NEVER_QUEUED", "message": "the request for ideas was lost; propose it again"}
        nothing = dict.fromkeys(_SHOWN)
        return {**nothing, "status": Status.FAILED.value, "error": error, "isOver": True}
    is_over = request["status"] in FINAL and not request["logOpen"]
    return {**{name: request[name] for name in _SHOWN}, "isOver": is_over}


def _listed(hypothesis: Document, requests: Mapping[str, Document], counts: Mapping[str, int]) -> Document:
    ideation = hypothesis["ideation"]
    if ideation is None:
        return {**hypothesis, "ideaCount": 0}
    request_id = ideation["requestId"]
    standing = _standing(requests.get(request_id))
    return {**hypothesis, "ideation": ideation | standing, "ideaCount": counts.get(request_id, 0)}
