"""Queries of the verifier: reads whole runs and the documents beside them, and writes nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final, cast

from bson.raw_bson import RawBSONDocument

from control_plane.model.lease_watch import Watch
from control_plane.model.projection import LANES, RESULTS
from control_plane.store.database import Database, Document, answers
from control_plane.store.log.retention import Retention
from control_plane.store.log.run_removals import OUTLIVES
from control_plane.store.queue.lease_watches import LeaseWatches
from control_plane.store.verify.collecting import LETTERS, Collected
from control_plane.store.verify.dead_letters import asked_for
from control_plane.store.verify.decoding import READ, UNREAD, body_of, decoded
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.groups import GroupAudit
from control_plane.store.verify.result_rows import RowReads
from control_plane.store.verify.shapes import name as named
from control_plane.store.verify.shapes import problem
from control_plane.store.verify.together import Together, TooMuchAtOnce
from events.files.checkpoints import checkpoint_of
from events.kinds import DOCUMENTS
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import HELD

PAGE: Final = 500
TOGETHER_MAX: Final = 200  # runs that are read together
LETTERS_MAX: Final = 100
GROUPS_MAX: Final = 1_000
SHARERS_MAX: Final = 20
SCANNED_MAX: Final = 2_000  # documents, of any number of runs
VALUE_CHARS_MAX: Final = 100
OF_KINDS: Final = (LANES, *(each.name for each in DOCUMENTS))
WITH_RUN: Final = ("attempts", "stages", "artifacts", "validations", *OF_KINDS)
BESIDE: Final = (*WITH_RUN, "dead_letters")
OF_RUNS: Final = (*WITH_RUN, RESULTS)  # rows are read in pages of their own
EVERY: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class VerifyReads:
    """Reads the documents to compare with the log, in pages, so that no cursor stays open for long."""

    HELD: ClassVar[Mapping[str, Any]] = {"status": {"$in": sorted(HELD)}}

    db: Database

    @property
    def rows(self) -> RowReads:
        """The reads of rows of results."""
        return RowReads(self.db)

    @property
    def groups(self) -> GroupAudit:
        """The reads of groups."""
        return GroupAudit(self.db, READ)

    async def collection_of(self, run_id: str) -> str | None:
        """Return where a run is queued."""
        for collection in QUEUES:
            async with answers():
                if await self.db[collection].find_one({"_id": run_id}, {"_id": 1}) is not None:
                    return collection
        return None

    async def run_ids(self, only: str | None = None) -> AsyncIterator[tuple[str, str]]:
        """Yield the collection and id of every run, or of one."""
        if only is not None:
            collection = await self.collection_of(only)
            if collection is not None:
                yield collection, only
            return
        for collection in QUEUES:
            async for run_id in self._ids(collection):
                yield collection, run_id

    async def pages(self, only: str | None = None) -> AsyncIterator[tuple[str, list[str]]]:
        """Yield the collection and the ids of runs that are looked at together."""
        page: list[str] = []
        last = ""
        async for collection, run_id in self.run_ids(only):
            if page and (collection != last or len(page) == TOGETHER_MAX):
                yield last, page
                page = []
            page.append(run_id)
            last = collection
        if page:
            yield last, page

    async def in_order(self, kind: str | None = None, after: str = "") -> AsyncIterator[tuple[str, str]]:
        """Yield the collection and id of every run beyond `after`, or of those of a kind, in id order."""
        query = {} if kind is None else {"kind": kind}
        walks = {name: self._ids(name, query, after) for name in QUEUES}
        heads = {name: await anext(walk, None) for name, walk in walks.items()}
        while left := [(run_id, name) for name, run_id in heads.items() if run_id is not None]:
            run_id, name = min(left)
            yield name, run_id
            heads[name] = await anext(walks[name], None)

    async def _ids(
        self, collection: str, query: Mapping[str, Any] = EVERY, after: str = ""
    ) -> AsyncIterator[str]:
        beyond: Document = {"$gt": after}
        while True:
            async with answers():
                unread = self.db.get_collection(collection, codec_options=UNREAD)
                cursor = unread.find({**query, "_id": beyond}, {"_id": 1}).sort("_id").limit(PAGE)
                page = await cursor.to_list()
            for raw in page:
                yield _id_of(raw)
            if len(page) < PAGE:
                return
            beyond = _beyond(page[-1])

    async def position(self, collection: str, run_id: str) -> tuple[Any, ...] | None:
        """Return a value that changes whenever the run changes."""
        return (await self.positions(collection, [run_id])).get(run_id)

    @answers()
    async def positions(self, collection: str, run_ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return of each run a value that changes whenever it changes."""
        fields = {"revision": 1, "lastEventSeq": 1, "journal.n": 1, "attempt": 1, "status": 1}
        wanted = list(run_ids)
        unread = self.db.get_collection(collection, codec_options=UNREAD)
        runs = await unread.find({"_id": {"$in": wanted}}, fields).to_list()
        counting: list[Document] = [
            {"$match": {"runId": {"$in": wanted}}},
            {"$group": {"_id": "$runId", "count": {"$sum": 1}}},
        ]
        counted = await (await self.db.events.aggregate(counting)).to_list()
        counts = {each["_id"]: each["count"] for each in counted}
        return {run_id: (decoded(raw), counts.get(run_id, 0)) for raw in runs if (run_id := _id_of(raw))}

    async def evidence(self, collection: str, run_id: str) -> Evidence | None:
        """Return the evidence of a run. Raises `Unjudged` if it cannot be read or is too large."""
        found = (await self.evidences(collection, [run_id])).get(run_id)
        if isinstance(found, Exception):
            raise found
        return found

    async def evidences(self, collection: str, run_ids: Sequence[str]) -> dict[str, Evidence | Exception]:
        """Return the evidence of each run that is there, or why it cannot be judged.

        Each collection is asked once for all of them; what would be too much at once is read in two halves.
        """
        try:
            return await self._together(collection, run_ids)
        except TooMuchAtOnce:
            half = len(run_ids) // 2
            first = await self.evidences(collection, run_ids[:half])
            return first | await self.evidences(collection, run_ids[half:])

    async def _together(self, collection: str, run_ids: Sequence[str]) -> dict[str, Evidence | Exception]:
        ids = {"$in": list(run_ids)}
        now = await self._now(collection, run_ids)
        if now is None:
            return {}
        watch = await self._lease_watch(collection)  # before the runs: what it saw is no newer than they are
        held = Together(alone=len(run_ids) == 1)
        async for run, size in self._read(collection, {"_id": ids}):
            held.begin(collection, run, size)
        query = {"runId": ids}
        for name in BESIDE:
            await held.take(self._read(name, query), partial(_beside, name))
        held.each(_ask)
        unnumbered = await self._unnumbered({each for one in held.runs.values() for each in one.kept_ids})
        decided = {**query, "revision": {"$exists": True}}
        await held.take(self._read("events", decided), Collected.add_decision)
        numbered = {**query, "sequence": {"$exists": True}}
        order = [("runId", 1), ("attempt", 1), ("sequence", 1)]
        await held.take(self._read("events", numbered, order), Collected.add_event)
        held.each(Collected.close)
        with_rows = await self._with_rows(run_ids)
        found: dict[str, Evidence | Exception] = {**held.failed}
        for run_id, one in held.runs.items():
            one.has_rows = one.has_rows or run_id in with_rows
            found[run_id] = _evidence(collection, one, now, unnumbered, watch)
        return found

    @answers()
    async def _with_rows(self, run_ids: Sequence[str]) -> set[str]:
        """Return which of these runs have rows of results."""
        pipeline: list[Document] = [
            {"$match": {"runId": {"$in": list(run_ids)}}},
            {"$group": {"_id": "$runId"}},
        ]
        return {each["_id"] for each in await (await self.db[RESULTS].aggregate(pipeline)).to_list()}

    @answers()
    async def _now(self, collection: str, run_ids: Sequence[str]) -> datetime | None:
        """Return the store's clock; None where none of these runs is there."""
        pipeline: list[Document] = [
            {"$match": {"_id": {"$in": list(run_ids)}}},
            {"$limit": 1},
            {"$project": {"now": "$$NOW"}},
        ]
        found = await (await self.db[collection].aggregate(pipeline)).to_list()
        return found[0]["now"] if found else None

    async def _lease_watch(self, collection: str) -> Watch | None:
        return await LeaseWatches(self.db).known(collection)

    async def _unnumbered(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the digests of the events among these that have no number."""
        found: dict[str, str] = {}
        named = sorted(ids)
        for start in range(0, len(named), PAGE):
            query = {"_id": {"$in": named[start : start + PAGE]}, "sequence": {"$exists": False}}
            async for document, _ in self._read("events", query):
                found[str(document["_id"])] = str(document.get("hash"))
        return found

    async def _read(
        self, collection: str, query: Document, order: Sequence[tuple[str, int]] = ()
    ) -> AsyncGenerator[tuple[Document, int], None]:
        """Yield documents and their sizes in bytes, one in memory at a time, whatever their values are."""
        async with answers():
            cursor = self.db.get_collection(collection, codec_options=UNREAD).find(query).batch_size(PAGE)
            if order:
                cursor = cursor.sort(list(order))
            async for raw in cursor:
                yield decoded(raw)

    async def artifacts(self, run_id: str) -> AsyncIterator[Document]:
        """Yield the registered files of a run that can be read, without what retention took."""
        taken = await self._taken_of(run_id)
        async for document, _ in self._read("artifacts", {"runId": run_id}):
            if problem("artifacts", document) is None:
                what = "files" if checkpoint_of(document["name"]) is None else "checkpoints"
                if what not in taken:
                    yield document

    async def _taken_of(self, run_id: str) -> Mapping[str, Any]:
        return await Retention(self.db).taken(run_id)

    async def misnamed(self) -> AsyncIterator[tuple[str, str]]:
        """Yield the collection and a description of each document whose id or run id is no text.

        No other query finds these. Both ends of the order of types are read up to the first text.
        """
        for collection in (*QUEUES, "events", *BESIDE, RESULTS):
            for field in ("_id",) if collection in QUEUES else ("_id", "runId"):
                async for names in self._misnamed_at(collection, field, 1):
                    yield collection, names
                if await self._has_text(collection, field):
                    async for names in self._misnamed_at(collection, field, -1):
                        yield collection, names

    async def _misnamed_at(self, collection: str, field: str, direction: int) -> AsyncIterator[str]:
        async for document, _ in self._walk(collection, field, direction):
            value = document.get(field)
            if isinstance(value, str):
                return
            if collection != "dead_letters" or field != "runId" or value is not None:
                yield f"{named(document)}: {field} is {repr(value)[:VALUE_CHARS_MAX]}"

    @answers()
    async def _has_text(self, collection: str, field: str) -> bool:
        """Say whether a scan from the other end finds other documents."""
        return await self.db[collection].find_one({field: {"$gte": ""}}, {"_id": 1}) is not None

    async def _walk(self, collection: str, field: str, direction: int) -> AsyncIterator[tuple[Document, int]]:
        async with answers():
            cursor = self.db.get_collection(collection, codec_options=UNREAD).find({}, {field: 1})
            async for raw in cursor.sort(field, direction).batch_size(2):
                yield decoded(raw)

    @answers()
    async def shared(self, field: str, condition: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
        """Return values of `field` that several runs have, with those runs."""
        found: list[tuple[str, list[str]]] = []
        for collection in QUEUES:
            pipeline: list[Document] = [
                {"$match": {**condition, field: {"$type": "string"}}},
                {"$sort": {"_id": 1}},
                {
                    "$group": {
                        "_id": f"${field}",
                        "runs": {"$firstN": {"input": "$_id", "n": SHARERS_MAX}},
                        "count": {"$sum": 1},
                    }
                },
                {"$match": {"count": {"$gt": 1}}},
                {"$limit": GROUPS_MAX},
            ]
            readable = self.db.get_collection(collection, codec_options=READ)
            cursor = await readable.aggregate(pipeline, allowDiskUse=True)
            found += [(group["_id"], [str(run) for run in group["runs"]]) for group in await cursor.to_list()]
        return found

    async def runs_without_spec(self) -> AsyncIterator[str]:
        """Yield the runs without a specification."""
        async for _, page in self.pages():
            async with answers():
                found = await self.db.run_specs.find({"_id": {"$in": page}}, {"_id": 1}).to_list()
            there = {each["_id"] for each in found}
            for run_id in page:
                if run_id not in there:
                    yield run_id

    async def orphans(self) -> AsyncIterator[tuple[str, str]]:
        """Yield the collection and run id of documents whose run does not exist, by pages of runs."""
        for collection in OF_RUNS:
            beyond: Document = {"$gt": ""}
            while page := await self._told_of(collection, beyond):
                names = [_id_of(raw) for raw in page]
                known = await self._existing(names)
                known |= await self._taken(names, collection)
                known |= await self._coming(names)
                for run_id in names:
                    if run_id not in known:
                        yield collection, run_id
                beyond = _beyond(page[-1])

    @answers()
    async def _coming(self, run_ids: Sequence[str]) -> set[str]:
        """Return those of these runs whose archives are being imported, and which will be there last."""
        found = self.db.imports.find({"_id": {"$in": [*run_ids]}}, {"_id": 1})
        return {each["_id"] for each in await found.to_list()}

    @answers()
    async def _told_of(self, collection: str, beyond: Document) -> list[Document]:
        """Return the next runs that documents refer to, each as the `_id` of a document."""
        pipeline: list[Document] = [
            {"$match": {"runId": beyond}},
            {"$sort": {"runId": 1}},
            {"$limit": SCANNED_MAX},
            {"$group": {"_id": "$runId"}},
            {"$sort": {"_id": 1}},
        ]
        unread = self.db.get_collection(collection, codec_options=UNREAD)
        return await (await unread.aggregate(pipeline)).to_list()

    @answers()
    async def _existing(self, run_ids: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for collection in QUEUES:
            documents = await self.db[collection].find({"_id": {"$in": list(run_ids)}}, {"_id": 1}).to_list()
            found |= {each["_id"] for each in documents}
        return found

    @answers()
    async def _taken(self, run_ids: Sequence[str], collection: str = LETTERS) -> set[str]:
        """Return those of these runs that were deleted, and may have left documents of a collection.

        What outlives its run stays; anything else only until all of the run is removed.
        """
        wanted: Document = {"_id": {"$in": [*run_ids]}}
        if collection not in OUTLIVES:
            wanted["dueAt"] = {"$type": "date"}
        return {each["_id"] for each in await self.db.tombstones.find(wanted, {"_id": 1}).to_list()}

    async def letters_of_nobody(self) -> AsyncIterator[Document]:
        """Yield the refused lines of runs that do not exist, and those that name none."""
        page: list[Document] = []
        async for letter, _ in self._read(LETTERS, {}):
            page.append(letter)
            if len(page) == LETTERS_MAX:
                async for each in self._of_nobody(page):
                    yield each
                page = []
        async for each in self._of_nobody(page):
            yield each

    async def _of_nobody(self, letters: Sequence[Document]) -> AsyncIterator[Document]:
        named = {each["runId"] for each in letters if isinstance(each.get("runId"), str)}
        known = await self._existing(sorted(named)) if named else set()
        known |= await self._taken(sorted(named)) if named else set()
        for letter in letters:
            run_id = letter.get("runId")
            if run_id is None or (isinstance(run_id, str) and run_id not in known):
                yield letter


def _ask(one: Collected) -> None:
    """Keep the events that refusals are checked by."""
    one.kept_ids |= asked_for(str(one.run["_id"]), one.beside.get(LETTERS, ()))


def _beside(collection: str, one: Collected, document: Document, size: int) -> None:
    one.add(collection, document, size)


def _evidence(
    collection: str, held: Collected, now: datetime, unnumbered: Mapping[str, str], watch: Watch | None
) -> Evidence:
    """Return what was collected of a run."""
    return Evidence(
        collection=collection,
        run=held.run,
        log=held.log,
        attempts=held.beside.get("attempts", ()),
        stages=held.beside.get("stages", ()),
        artifacts=held.beside.get("artifacts", ()),
        validations=held.beside.get("validations", ()),
        dead_letters=held.beside.get(LETTERS, ()),
        of_kinds={name: held.beside.get(name, ()) for name in OF_KINDS},
        now=now,
        quiet=held.quiet,
        broken=held.broken,
        misshapen={name: held.misshapen.get(name, ()) for name in WITH_RUN},
        is_log_read=held.is_log_read,
        sealed_root=held.sealed.stored,
        settled_root=held.settled.said,
        unnumbered={each: unnumbered[each] for each in held.kept_ids if each in unnumbered},
        lease_watch=watch,
        has_rows=held.has_rows,
    )


def _id_of(raw: Document) -> str:
    """Return an id that is text; bytes that are not UTF-8 are replaced."""
    return str(decoded(raw)[0]["_id"])


def _beyond(raw: Document) -> Document:
    """Return the condition "greater than this" for the raw `_id` of a document, whatever its bytes are."""
    body = body_of(raw)
    assert body[5:9] == b"_id\0"
    return cast("Document", RawBSONDocument(body[:5] + b"$gt" + body[8:]))
