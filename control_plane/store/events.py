"""Queries on the event log: append-only, one document an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from bson import encode
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, PyMongoError

from control_plane.run import Entry
from control_plane.store.database import Database, Document, answers
from events.catalog import TYPES, StatusChanged, Unknown, type_of
from events.envelope import Event, content_hash, storage_id
from events.errors import Rejected, Transient

DUPLICATE_KEY: Final = 11000
STRETCH_MAX: Final = 500
CONTROL_PLANE_SOURCE: Final = "//podfleet/control-plane"


@dataclass(frozen=True, slots=True)
class Arrival:
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


@dataclass(frozen=True, slots=True)
class Events:
    """Appends to and reads from the log."""

    db: Database

    async def append(self, documents: Sequence[RawBSONDocument]) -> set[int]:
        """Store the documents; return the indexes of those that collide with what is stored.

        Raises `Transient` when any of them is not durable on a majority: nothing may be acknowledged.
        """
        try:
            await self.db.events.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            failures: Sequence[Mapping[str, Any]] = details.get("writeErrors", ())
            other = [each for each in failures if each["code"] != DUPLICATE_KEY]
            if details.get("writeConcernErrors") or other:
                raise Transient("not_durable", "the event log did not confirm the write") from error
            return {each["index"] for each in failures}
        except PyMongoError as error:
            raise Transient("mongodb_unreachable", "the event log cannot be reached") from error
        return set()

    @answers()
    async def by_ids(self, ids: Sequence[str]) -> Mapping[str, Stored]:
        """Return what is stored under these ids."""
        fields = {"hash": 1, "runId": 1, "attempt": 1, "sequence": 1}
        cursor = self.db.events.find({"_id": {"$in": list(ids)}}, fields)
        return {document["_id"]: _stored(document) async for document in cursor}

    @answers()
    async def stretch(self, run_id: str, attempt: int, after: int) -> list[Event]:
        """Return the events that follow position `after` without a gap, at most `STRETCH_MAX`."""
        query = {"runId": run_id, "attempt": attempt, "sequence": {"$gt": after}}
        cursor = self.db.events.find(query).sort("sequence").limit(STRETCH_MAX)
        events: list[Event] = []
        async for document in cursor:
            if document["sequence"] != after + len(events) + 1:
                break
            events.append(decode(document))
        return events

    @answers()
    async def holds(self, run_id: str, attempt: int, sequence: int) -> bool:
        """Say whether an event stands at this position."""
        query = {"runId": run_id, "attempt": attempt, "sequence": sequence}
        return await self.db.events.find_one(query, {"_id": 1}) is not None

    async def chronicle(self, run_id: str, entries: Sequence[Entry], arrivals: Sequence[Arrival]) -> None:
        """Move journal entries into the log; entries that are there already stay as they are."""
        documents = [
            RawBSONDocument(encode(entry_document(run_id, entry, arrival)))
            for entry, arrival in zip(entries, arrivals, strict=True)
        ]
        await self.append(documents)

    @answers()
    async def decided_by(self, run_id: str, by: str) -> bool:
        """Say whether the log holds a decision that was made by this actor."""
        query = {"runId": run_id, "type": type_of(StatusChanged), "data.by": by}
        return await self.db.events.find_one(query, {"_id": 1}) is not None

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
    async def adopt(self, run_id: str) -> list[int]:
        """Keep a run's waiting events for good, now that it exists; return their attempts."""
        attempts = await self.db.events.distinct("attempt", {"orphan": True, "runId": run_id})
        await self.db.events.update_many(
            {"orphan": True, "runId": run_id, "sequence": {"$exists": True}},
            {"$unset": {"orphan": "", "expiresAt": ""}},
        )
        await self.db.events.update_many({"orphan": True, "runId": run_id}, {"$unset": {"orphan": ""}})
        return sorted(attempts)


def storable(event: Event, arrival: Arrival) -> RawBSONDocument:
    """Return the event as the log keeps it, encoded once.

    Raises `Rejected` (code `unstorable`) for what MongoDB cannot hold; its neighbours are not touched.
    """
    document: Document = {
        "_id": storage_id(event.run_id, event.source, event.id),
        "position": arrival.position,
        "runId": event.run_id,
        "attempt": event.attempt,
        "ceId": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time,
        "data": event.data,
        "hash": content_hash(event),
        "receivedAt": arrival.at,
    }
    optional = {
        "sequence": event.sequence,
        "traceparent": event.traceparent,
        "expiresAt": arrival.expires_at,
    }
    document |= {name: value for name, value in optional.items() if value is not None}
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
    return Stored(document["_id"], document["hash"], position)


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
