"""Queries of the API and of the pages: lists, counts, and the documents beside one run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bson import decode

from control_plane.model.presentation import SPENT
from control_plane.model.result_replication import borne_out, is_doubtful
from control_plane.store.database import Database, Document, answers
from control_plane.store.pages import NEWEST, Order, Slice, Wanted, raw, read_bounded, read_page
from events.catalog import TYPES, NoteAnswered, RunLog, RunUsage, StageMetric, StageProgress, type_of
from events.files.checkpoints import PREFIX
from events.kinds.declaring.queues import QUEUES, RUNS
from events.lifecycle import Status
from events.text.truncation import brief_data, brief_fields

BESIDE_MAX: Final = 1_000
# Of what one read takes in, however much a pod has said.
BESIDE_BYTES_MAX: Final = 4 * 1024 * 1024
SAID_CHARS_MAX: Final = 4 * 1024  # of a field of an event that is told as it comes; the log has it whole
MODELS_TOLD_MAX: Final = 100
MODEL_CHARS_MAX: Final = 200
OTHER_MODELS: Final = "other models"
USAGE_EVENTS_MAX: Final = 100_000
WORKER: Final = "claimedBy"
# Of a pod, those with the newest runs: so many the index still gives in the order of the list.
WORKERS_MAX: Final = 150
_BEHIND: Final = "0"  # the character after the slash
SUCCESSORS_MAX: Final = 50  # that are named, the first
NOTE_ANSWERS_MAX: Final = 1_000
PROGRESS_EVENTS_MAX: Final = 60
METRICS_MAX: Final = 5_000
PICTURES_MAX: Final = 300
CHECKPOINTS_MAX: Final = 2_000
ATTEMPTS_MAX: Final = 100  # in which a file of a row is looked for
_ARTIFACT: Final = re.compile(r"(?P<run>[^/]+)/a(?P<attempt>[1-9][0-9]{0,5})/(?P<name>[0-9a-f]{16})")

_SPOKEN: Final = ("data.message", "data.activity", "data.stage", "data.node", "data.name", "data.code")
_STEP: Final = dict.fromkeys(("receivedAt", "attempt", "data.stage", "data.progress"), 1)
_WHY_FAILED: Final = dict.fromkeys(
    ("title", "finishedAt", "error.code", "error.stage", "error.fault", "error.message"), 1
)
_KEPT: Final = dict.fromkeys(("runId", "attempt", "name", "key", "size", "sha256"), 1)
_SIEVES: Final = ("classKey",)  # no index gives them in the order of the list
_INDEXED_ONLY: Final = ("words", "labelList", "idempotency")
# What has no number is no part of the record.
NUMBERED: Final[Mapping[str, Any]] = {"sequence": {"$gte": 1}}
_ID_END: Final = "\uffff"
ARRIVAL: Final[Order] = (("position", 1),)
_LATEST: Final[Order] = (("position", -1),)
_BY_NAME: Final[Order] = (("attempt", -1), ("name", 1))


@dataclass(frozen=True, slots=True)
class Part:
    """The result of a bounded read; `is_cut` if there is more."""

    documents: Sequence[Document]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class RunReads:
    """Bounded reads of runs and of what belongs to them."""

    db: Database

    async def page(
        self, conditions: Mapping[str, Any], search: str | None, after: Sequence[Any] | None, limit: int
    ) -> Slice:
        """Return a page of runs, newest first; the first of `conditions` leads, the others are residual."""
        async with answers():
            leading, sieves = await with_workers(self.db, *divided(conditions, search))
        wanted = Wanted(
            collection="runs",
            leading=leading,
            residual={"$and": sieves} if sieves else {},
            after=after,
            limit=limit,
            hidden=(*_INDEXED_ONLY, "journal", "notes"),
        )
        found = await read_page(self.db, wanted)
        return replace(found, documents=await self.borne_out(found.documents))

    async def find(self, run_id: str) -> Document | None:
        """Return a run or an ideation request."""
        async with answers():
            for collection in QUEUES:
                document = await self.db[collection].find_one({"_id": run_id})
                if document is not None:
                    (found,) = await self.borne_out([document])
                    return found
        return None

    async def of_ids(self, run_ids: Sequence[str], queues: Sequence[str] = QUEUES) -> Sequence[Document]:
        """Return these runs and ideation requests, brief, without what only one at a time needs."""
        hidden: Document = dict.fromkeys((*_INDEXED_ONLY, "journal", "notes"), 0)
        found: list[Document] = []
        async with answers():
            for collection in queues:
                cursor = self.db[collection].find({"_id": {"$in": list(run_ids)}}, hidden)
                found += [brief_fields(each) async for each in cursor]
        return await self.borne_out(found)

    async def borne_out(self, documents: Sequence[Document], run_field: str = "_id") -> Sequence[Document]:
        """Return runs or attempts, each with the replication that the attempts of its run prove.

        `run_field` is the field of a document that holds the id of its run.
        """
        doubtful = [each[run_field] for each in documents if is_doubtful(each)]
        if not doubtful:
            return documents
        made = await self.verdicts_of_attempts(doubtful)
        return [
            borne_out(each, [one for one in made if one["runId"] == each[run_field]]) for each in documents
        ]

    async def spec(self, run_id: str) -> Document | None:
        """Return the specification of a run."""
        async with answers():
            return await self.db.run_specs.find_one({"_id": run_id})

    async def beside(self, collection: str, run_ids: Sequence[str], order: Order) -> Part:
        """Return the documents of `collection` that belong to some runs, each run's in `order`."""
        query = {"runId": {"$in": list(run_ids)}}
        return await self.part(
            collection, query, None, [("runId", 1), *order], BESIDE_MAX * len(run_ids), BESIDE_BYTES_MAX
        )

    async def part(
        self,
        collection: str,
        query: Document,
        fields: Document | None,
        order: Sequence[tuple[str, int]],
        most: int,
        bytes_max: int,
    ) -> Part:
        """Return at most `most` documents and `bytes_max` bytes of what a query finds."""
        async with answers():
            cursor = raw(self.db, collection).find(query, fields).sort(list(order)).limit(most + 1)
            documents, is_cut = await read_bounded(self.db, cursor, bytes_max)
        return Part(documents[:most], is_cut or len(documents) > most)

    async def progress(self, run_id: str) -> list[Document]:
        """Return the latest progress events of a run, the latest first."""
        query = {"runId": run_id, "type": type_of(StageProgress)}
        async with answers():
            cursor = self.db.events.find(query, _STEP).sort("position", -1).limit(PROGRESS_EVENTS_MAX)
            return await cursor.to_list()

    async def metrics(self, run_id: str, most: int) -> list[Document]:
        """Return the latest numbers that a run measured, at most `most`, the latest first."""
        query = {"runId": run_id, "type": type_of(StageMetric)}
        # what else stands there may be long
        wanted = dict.fromkeys(
            ("data.stage", "data.name", "data.value", "data.step", "position", "time", "receivedAt"), 1
        )
        async with answers():
            cursor = self.db.events.find(query, wanted).sort("position", -1).limit(most)
            return await cursor.to_list()

    async def note_answers(self, run_id: str) -> Part:
        """Return the latest answers to a run's notes, the latest first."""
        query = {"runId": run_id, "type": type_of(NoteAnswered), **NUMBERED}
        return await self.part("events", query, None, [("position", -1)], NOTE_ANSWERS_MAX, BESIDE_BYTES_MAX)

    @answers()
    async def successors(self, run_id: str) -> list[str]:
        """Return the runs that wait, or have waited, for a run: the first ones."""
        found = self.db[RUNS.collection].find({"after": run_id}, {"_id": 1}).hint("by_predecessor")
        return [each["_id"] async for each in found.limit(SUCCESSORS_MAX)]

    async def usage(self, run_ids: Sequence[str]) -> list[Document]:
        """Return what runs have spent together, one document a model; None is the pods' own time."""
        async with answers():
            cursor = await self.db.events.aggregate(spent(run_ids), hint="by_type")
            groups = await cursor.to_list()
        return sorted(groups, key=lambda group: group["_id"] or "")

    async def events(
        self,
        run_id: str,
        *,
        event_type: str | None,
        levels: Sequence[str],
        text: str | None,
        after: Sequence[Any] | None,
        limit: int,
        newest_first: bool,
    ) -> Slice:
        """Return a page of a run's log in the order of arrival, or against it."""
        leading: Document = {"runId": run_id}
        if event_type is not None or levels:
            leading["type"] = event_type or type_of(RunLog)
        residual: Document = {}
        if levels:  # a log line without a level is an `info`, as in the catalogue
            residual["data.level"] = {"$in": [*levels, None] if "info" in levels else list(levels)}
        if text is not None:
            matches = {"$regex": re.escape(text), "$options": "i"}
            residual["$or"] = [{name: matches} for name in _SPOKEN]
        wanted = Wanted(
            collection="events",
            leading=leading,
            residual=residual,
            order=_LATEST if newest_first else ARRIVAL,
            after=after,
            limit=limit,
        )
        return await read_page(self.db, wanted)

    async def events_of_ids(self, ids: Sequence[str]) -> list[Document]:
        """Return these events of any run, each field of what they say cut to `SAID_CHARS_MAX`."""
        found: list[Document] = []
        async with answers():
            async for each in raw(self.db, "events").find({"_id": {"$in": list(ids)}}):
                event = decode(each.raw, self.db.codec_options)
                found.append({**event, "data": _brief_data(event)})
                await asyncio.sleep(0)  # many of them may have many values each: others go on meanwhile
        return found

    async def artifacts(self, run_id: str, after: Sequence[Any] | None, limit: int) -> Slice:
        """Return a page of a run's artifacts, the latest attempt's first, by name."""
        wanted = Wanted(
            collection="artifacts", leading={"runId": run_id}, order=_BY_NAME, after=after, limit=limit
        )
        return await read_page(self.db, wanted)

    async def artifacts_of_types(
        self, run_ids: Sequence[str], content_types: Sequence[str]
    ) -> list[Document]:
        """Return the artifacts of some runs that are of these types, the latest attempts' first, by name."""
        query = {"runId": {"$in": list(run_ids)}, "contentType": {"$in": list(content_types)}}
        async with answers():
            cursor = raw(self.db, "artifacts").find(query).sort([("runId", 1), *_BY_NAME])
            cursor = cursor.limit(PICTURES_MAX * len(run_ids))
            documents, _ = await read_bounded(self.db, cursor, BESIDE_BYTES_MAX)
        return documents

    async def checkpoints(self, run_id: str, before: int | None) -> list[Document]:
        """Return the checkpoints' artifacts of attempts before `before` (None: of all), the latest first."""
        query: Document = {"runId": run_id, "name": {"$gte": PREFIX, "$lt": PREFIX + _ID_END}}
        if before is not None:
            query["attempt"] = {"$lt": before}
        async with answers():
            taken = {"_id": run_id, "taken.checkpoints": {"$exists": True}}
            if await self.db[RUNS.collection].find_one(taken, {"_id": 1}) is not None:
                return []
            cursor = self.db.artifacts.find(query, _KEPT).sort(list(_BY_NAME)).limit(CHECKPOINTS_MAX)
            return await cursor.to_list()

    async def pods_of_attempts(self, run_id: str) -> list[Document]:
        """Return pod and verdict of each attempt of a run whose claim is written beside it.

        That is all of them until one of which a file is registered: claims are written before files.
        """
        return await self.verdicts_of_attempts([run_id])

    async def verdicts_of_attempts(self, run_ids: Sequence[str]) -> list[Document]:
        """Return pod and verdict of each attempt of some runs."""
        fields = {"runId": 1, "attempt": 1, "pod": 1, "validation.replication": 1}
        return await self._attempts(run_ids, fields)

    async def _attempts(self, run_ids: Sequence[str], fields: Document) -> list[Document]:
        query = {"runId": {"$in": list(run_ids)}}
        async with answers():
            cursor = self.db.attempts.find(query, fields).sort([("runId", 1), ("attempt", 1)])
            return await cursor.limit(BESIDE_MAX * len(run_ids)).to_list()

    async def artifact(self, artifact_id: str) -> Document | None:
        """Return one artifact; where its attempt has none of this name, that of the newest one before it.

        Rows that an attempt has taken over from earlier ones name files that these have made.
        """
        async with answers():
            found = await self.db.artifacts.find({"_id": {"$in": same_name(artifact_id)}}).to_list()
        return max(found, key=lambda each: int(each["attempt"]), default=None)

    async def failed(self, limit: int) -> list[Document]:
        """Return the newest failed runs, with what says why."""
        query = {"status": Status.FAILED.value}
        async with answers():
            cursor = self.db.runs.find(query, _WHY_FAILED).sort(list(NEWEST)).limit(limit)
            return await cursor.to_list()


def _brief_data(event: Document) -> Document:
    known = TYPES[event["type"]].__struct_fields__ if event["type"] in TYPES else ()
    return brief_data(event["data"], known, SAID_CHARS_MAX)


def spent(run_ids: Sequence[str]) -> list[Document]:
    """Return the aggregation of some runs' usage: one group for each model, and one for what names none.

    A call is what names a model or counts tokens; one without a cost was not priced.
    """
    is_call = {
        "$or": [{"$ne": [_or_null(name), None]} for name in ("model", "prompt_tokens", "completion_tokens")]
    }
    is_unpriced = {"$and": [is_call, {"$eq": [_or_null("cost_usd"), None]}]}
    return [
        {"$match": {"runId": {"$in": list(run_ids)}, "type": type_of(RunUsage)}},
        {"$limit": USAGE_EVENTS_MAX},
        {
            "$group": {
                # a pod names its models: a long name is cut
                "_id": {"$cond": [{"$eq": [_or_null("model"), None]}, None, _begun("model")]},
                "events": {"$sum": 1},
                # what a pod says that it was given back hides nothing that others have spent
                "promptTokens": {"$sum": {"$max": ["$data.prompt_tokens", 0]}},
                "completionTokens": {"$sum": {"$max": ["$data.completion_tokens", 0]}},
                "costUsd": {"$sum": {"$max": ["$data.cost_usd", 0]}},
                "gpuSeconds": {"$sum": {"$max": ["$data.gpu_s", 0]}},
                "calls": {"$sum": {"$cond": [is_call, 1, 0]}},
                "unpricedCalls": {"$sum": {"$cond": [is_unpriced, 1, 0]}},
            }
        },
        # and so many that they would not go into one answer stand together
        {"$setWindowFields": {"sortBy": {"calls": -1}, "output": {"rank": {"$documentNumber": {}}}}},
        {
            "$group": {
                "_id": {"$cond": [{"$gt": ["$rank", MODELS_TOLD_MAX]}, OTHER_MODELS, "$_id"]},
                **{name: {"$sum": f"${name}"} for name in ("events", *SPENT)},
            }
        },
    ]


def same_name(artifact_id: str) -> list[str]:
    """Return the ids of an artifact and of its name in the attempts before; what is no id alone."""
    found = _ARTIFACT.fullmatch(artifact_id)
    if found is None:
        return [artifact_id]
    newest = int(found["attempt"])
    attempts = range(newest, max(0, newest - ATTEMPTS_MAX), -1)
    return [f"{found['run']}/a{attempt}/{found['name']}" for attempt in attempts]


def _begun(name: str) -> Document:
    return {"$substrCP": [f"$data.{name}", 0, MODEL_CHARS_MAX]}


def _or_null(name: str) -> Document:
    return {"$ifNull": [f"$data.{name}", None]}


def divided(conditions: Mapping[str, Any], search: str | None) -> tuple[Document, list[Document]]:
    """Return the condition on runs that leads, whose index gives their order, and those that sieve."""
    filters: list[Document] = [{name: value} for name, value in conditions.items() if name not in _SIEVES]
    if search is not None:
        # a hypothesis and a group have few runs; what a word finds may be every second one
        first, *others = matching(search)
        filters.insert(1 if conditions.keys() & {"hypothesisId", "groupId"} else 0, first)
        filters += others
    sieves = [{name: conditions[name]} for name in _SIEVES if name in conditions]
    return (filters[0] if filters else {}), filters[1:] + sieves


async def with_workers(
    db: Database, leading: Document, sieves: Sequence[Document]
) -> tuple[Document, list[Document]]:
    """Return conditions on runs in which a pod stands for all its workers, as each place needs it.

    A worker is stored as `name/boot` or `name/boot/slot`; a pod is wanted by its name, or a start of it.
    """
    if isinstance(pod := leading.get(WORKER), str):
        leading = {WORKER: {"$in": [pod, *await _workers(db, pod)]}}
    return leading, [_sieve(each) for each in sieves]


async def _workers(db: Database, pod: str) -> list[str]:
    """Return the workers of a pod, or of a start of it, that have runs, those with the newest ones."""
    pipeline: list[Mapping[str, Any]] = [
        {"$match": {WORKER: {"$gte": f"{pod}/", "$lt": f"{pod}{_BEHIND}"}}},
        {"$sort": {WORKER: 1, "_id": -1}},
        {"$group": {"_id": f"${WORKER}", "newest": {"$first": "$_id"}}},
        {"$sort": {"newest": -1}},
        {"$limit": WORKERS_MAX},
    ]
    cursor = await db.runs.aggregate(pipeline, hint="by_pod")
    return [each["_id"] async for each in cursor]


def _sieve(condition: Document) -> Document:
    if isinstance(pod := condition.get(WORKER), str):
        # an expression, for which no index is taken: it would lose the order of the list
        matched = {"input": f"${WORKER}", "regex": rf"^{re.escape(pod)}(?:/.*)?\z"}
        return {"$expr": {"$regexMatch": matched}}
    return condition


def matching(search: str) -> list[Document]:
    """Return the conditions of a search, the leading one first: words of the title, or an id's beginning."""
    words = sorted(search.lower().split(), key=len, reverse=True)  # the longest are the rarest
    if len(words) > 1:
        return [{"words": word} for word in words]
    prefix = words[0].upper()
    return [{"$or": [{"_id": {"$gte": prefix, "$lt": prefix + _ID_END}}, {"words": words[0]}]}]
