"""Queries on the event log: append-only, one document per event."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from bson import encode
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, PyMongoError

from control_plane.model.run import Entry
from control_plane.store.database import Database, Document, answers
from events.catalog import TYPES, StatusChanged, Unknown, type_of
from events.envelope import Event, content_hash, storage_id
from events.record_digest import NO_LINES, Roots
from events.runtime.errors import Rejected, Transient
from events.text.attempt_id import AttemptId

DUPLICATE_KEY: Final = 11000
STRETCH_MAX: Final = 500
CONTROL_PLANE_SOURCE: Final = "//podfleet/control-plane"


class Arrival(NamedTuple):
    """How an event came in: when, in which order, and until when it is kept (None: as long as its run)."""

    position: str
    at: datetime
    expires_at: datetime | None = None
    orphan: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """What the log already holds under an id or a position."""

    id: str
    hash: str
    position: tuple[str, int, int] | None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """Appends to and reads from the log."""

    db: Database

    async def append(self, documents: Sequence[RawBSONDocument]) -> set[int]:
        """Store the documents; return the indexes of those that collide with what is stored.

        Raises `Transient` when any of them is not durable on a majority: nothing may be acknowledged.
        """
        (collided,) = await self.append_all([documents])
        if isinstance(collided, Transient):
            raise collided
        return collided

    async def append_all(self, parts: Sequence[Sequence[RawBSONDocument]]) -> list[set[int] | Transient]:
        """Store documents of several callers at once; return, by caller, the indexes of its own that collide.

        A caller whose documents were not all stored gets the error instead. Raises `Transient`
        when none of them is durable on a majority: nothing may be acknowledged.
        """
        failures = await self._insert([document for part in parts for document in part])
        results: list[set[int] | Transient] = []
        first = 0
        for part in parts:
            own = {index - first: code for index, code in failures.items() if 0 <= index - first < len(part)}
            is_told = all(code == DUPLICATE_KEY for code in own.values())
            results.append(set(own) if is_told else _not_durable())
            first += len(part)
        return results

    async def _insert(self, documents: Sequence[RawBSONDocument]) -> Mapping[int, int]:
        """Return which of the documents the server did not store, with its code for that."""
        try:
            await self.db.events.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            if details.get("writeConcernErrors"):
                raise _not_durable() from error
            return {each["index"]: each["code"] for each in details.get("writeErrors", ())}
        except PyMongoError as error:
            raise Transient("mongodb_unreachable", "the event log cannot be reached") from error
        return {}

    @answers()
    async def by_ids(self, ids: Sequence[str]) -> Mapping[str, Stored]:
        """Return the stored events with these ids."""
        fields = {"hash": 1, "runId": 1, "attempt": 1, "sequence": 1, "expiresAt": 1}
        cursor = self.db.events.find({"_id": {"$in": list(ids)}}, fields).batch_size(len(ids) + 1)
        return {document["_id"]: _stored(document) for document in await cursor.to_list()}

    @answers()
    async def stretch(self, attempt_id: AttemptId, after: int) -> list[Event]:
        """Return the events that follow position `after` without a gap, at most `STRETCH_MAX`."""
        query = {**_of(attempt_id), "sequence": {"$gt": after}}
        cursor = self.db.events.find(query).sort("sequence").limit(STRETCH_MAX)
        events: list[Event] = []
        for document in await cursor.batch_size(STRETCH_MAX + 1).to_list():
            if document["sequence"] != after + len(events) + 1:
                break
            events.append(decode(document))
        return events

    @answers()
    async def roots(
        self, attempt_id: AttemptId, last: int, *, after: int = 0, roots: Roots = NO_LINES
    ) -> Roots:
        """Return the roots of the lines 1 to `last` of an attempt, from those of 1 to `after`."""
        query = {**_of(attempt_id), "sequence": {"$gt": after, "$lte": last}}
        fields = {"hash": 1, "type": 1, "data.digest": 1}
        async for line in self.db.events.find(query, fields).sort("sequence").batch_size(STRETCH_MAX + 1):
            roots = roots.then(line["type"], line.get("data") or {}, line["hash"])
        return roots

    @answers()
    async def holds(self, attempt_id: AttemptId, sequence: int) -> bool:
        """Say whether there is an event at this position."""
        query = {**_of(attempt_id), "sequence": sequence}
        return await self.db.events.find_one(query, {"_id": 1}) is not None

    @answers()
    async def head(self, attempt_id: AttemptId) -> int:
        """Return the highest position of an attempt's events, 0 without any."""
        query = {**_of(attempt_id), "sequence": {"$gt": 0}}
        found = await self.db.events.find_one(query, {"sequence": 1}, sort=[("sequence", -1)])
        return 0 if found is None else int(found["sequence"])

    @answers()
    async def holding(self, positions: Collection[tuple[str, int, int]]) -> set[AttemptId]:
        """Return the attempts that have an event at the given position."""
        wanted = [dict(zip(("runId", "attempt", "sequence"), each, strict=True)) for each in positions]
        found = await self.db.events.find({"$or": wanted}, {"_id": 0, "runId": 1, "attempt": 1}).to_list()
        return {AttemptId(each["runId"], each["attempt"]) for each in found}

    async def chronicle(self, entries: Sequence[tuple[str, Entry]], arrivals: Sequence[Arrival]) -> None:
        """Move journal entries of runs into the log; entries that are there already stay as they are."""
        documents = [
            RawBSONDocument(encode(entry_document(run_id, entry, arrival)))
            for (run_id, entry), arrival in zip(entries, arrivals, strict=True)
        ]
        await self.append(documents)

    @answers()
    async def decided_by(self, run_id: str, by: str) -> bool:
        """Say whether the log holds a decision that was made by this actor."""
        query = {"runId": run_id, "type": type_of(StatusChanged), "data.by": by}
        return await self.db.events.find_one(query, {"_id": 1}) is not None

    @answers()
    async def deleted_runs(self, run_ids: Collection[str]) -> set[str]:
        """Return those of these runs that were deleted: the log takes no more of them."""
        found = self.db.tombstones.find({"_id": {"$in": [*run_ids]}}, {"_id": 1})
        return {each["_id"] for each in await found.to_list()}

    @answers()
    async def orphan_count(self, most: int) -> int:
        """Return how many events wait for a run that does not exist, counted up to `most`."""
        return await self.db.events.count_documents({"orphan": True}, limit=most)

    @answers()
    async def orphan_runs(self, most: int) -> list[str]:
        """Return ids of runs that events wait for."""
        grouped = await self.db.events.aggregate(
            [
                {"$match": {"orphan": True}},
                {"$group": {"_id": "$runId"}},
                {"$limit": most},
            ]
        )
        return [document["_id"] async for document in grouped]

    @answers()
    async def adopt(self, run_id: str) -> None:
        """Take a run's waiting events into its log, now that it exists."""
        # Stored by earlier versions: numbers are given by the holder of an attempt only.
        numbered = {"orphan": True, "runId": run_id, "sequence": {"$exists": True}}
        await self.db.events.delete_many(numbered)
        await self.db.events.update_many({"orphan": True, "runId": run_id}, {"$unset": {"orphan": ""}})


def _not_durable() -> Transient:
    return Transient("not_durable", "the event log did not confirm the write")


def storable(
    event: Event, arrival: Arrival, identity: str | None = None, digest: str | None = None
) -> RawBSONDocument:
    """Return the event as the log keeps it, encoded once; its id and digest may be known already.

    Raises `Rejected` (code `unstorable`) for what MongoDB cannot hold; its neighbours are not touched.
    """
    document: Document = {
        "_id": identity or storage_id(event.run_id, event.source, event.id),
        "position": arrival.position,
        "runId": event.run_id,
        "attempt": event.attempt,
        "ceId": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time,
        "data": event.data,
        "hash": digest or content_hash(event),
        "receivedAt": arrival.at,
    }
    if event.sequence is not None:
        document["sequence"] = event.sequence
    if event.traceparent is not None:
        document["traceparent"] = event.traceparent
    if arrival.expires_at is not None:
        document["expiresAt"] = arrival.expires_at
    if arrival.orphan:
        document["orphan"] = True
    try:
        return RawBSONDocument(encode(document))
    except (BSONError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise Rejected("unstorable", f"MongoDB cannot store this event: {error}") from error


def decode(document: Mapping[str, Any]) -> Event:
    """Return a stored event in types; its data was checked when it came in."""
    fact_type = TYPES.get(document["type"], Unknown)
    return Event(
        id=document["ceId"],
        source=document["source"],
        type=document["type"],
        run_id=document["runId"],
        attempt=document["attempt"],
        sequence=document.get("sequence"),
        time=document["time"],
        data=document["data"],
        fact=msgspec.convert(document["data"], fact_type),
        traceparent=document.get("traceparent"),
    )


def _stored(document: Mapping[str, Any]) -> Stored:
    sequence = document.get("sequence")
    position = None if sequence is None else (document["runId"], document["attempt"], sequence)
    return Stored(document["_id"], document["hash"], position, document.get("expiresAt"))


def entry_document(run_id: str, entry: Entry, arrival: Arrival) -> Document:
    """Return a decision as the log keeps it."""
    name = f"{run_id}/r{entry.n}"
    return {
        "_id": name,
        "position": arrival.position,
        "runId": run_id,
        "attempt": entry.attempt,
        "revision": entry.n,
        "ceId": name,
        "source": CONTROL_PLANE_SOURCE,
        "type": type_of(StatusChanged),
        "time": entry.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": {
            "run_id": run_id,
            "n": entry.n,
            "cause": entry.cause,
            "by": entry.by,
            "at": entry.at,
            "from": entry.came_from,
            "to": entry.to,
            "attempt": entry.attempt,
            "seq": entry.seq,
            "set": dict(entry.sets),
        },
        "hash": "",
        "receivedAt": arrival.at,
    }


def _of(attempt_id: AttemptId) -> Document:
    return {"runId": attempt_id.run_id, "attempt": attempt_id.attempt}
