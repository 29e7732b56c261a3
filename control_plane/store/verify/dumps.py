"""Queries of backups: all documents as they are stored, what changed meanwhile, and their way back.

Documents leave and enter as BSON: a value that Python has no type for stays what it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from bson import Timestamp, decode, encode
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteOne, ReplaceOne, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

from control_plane.store.database import Database, Document, answers
from events.runtime.errors import ConfigError, Rejected
from events.runtime.guarantees import STATE

BATCH_DOCUMENTS: Final = 1_000
LOADED_MAX: Final = 1_000  # documents of an insert
DRAFT: Final = "restored."  # before the name of a collection that is not whole yet
NOT_ALLOWED: Final = 13
DUPLICATE: Final = 11000
POSITION_LOST: Final = 136
# What is gone in a minute, and what is said of the store that is restored into.
LEFT_OUT: Final = frozenset({"live_texts", STATE})
# Moments outside of Python's years, and everything else, come back as the same bytes.
AS_STORED: Final[CodecOptions[Document]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
)
RAW: Any = CodecOptions(document_class=RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_MS)
NO_OPLOG: Final = (
    "the user of MONGODB_URL may not read local.oplog.rs, which a consistent backup needs: "
    "grant it the role `read` on the database `local`"
)
ROLLED_OVER: Final = (
    "the oplog went past what the backup still needed, so it would not be of one moment: make it larger "
    "(`db.adminCommand({replSetResizeOplog: 1, size: 16384})`, in megabytes), or back up at a quieter time"
)

Moment = tuple[int, int]  # seconds, and the number within them: the time of the oplog


def is_backed_up(collection: str) -> bool:
    """Say whether the documents of a collection are part of a backup."""
    is_own = collection.startswith(("system.", DRAFT))
    return not is_own and collection not in LEFT_OUT


def draft_of(collection: str) -> str:
    """Return the name under which a collection is restored, which nobody else reads or writes."""
    return f"{DRAFT}{collection}"


def unpacked(raw: bytes) -> Document:
    """Return a document of its bytes. Raises `Rejected` for what is no BSON."""
    try:
        return decode(raw, AS_STORED)
    except (BSONError, ValueError, RecursionError) as error:
        raise Rejected("bad_backup", f"it holds what is no document: {error}") from error


def packed(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document."""
    return encode(document, codec_options=AS_STORED)


class Dumps:
    """The documents of one database. Every method raises `Transient` while the store does not answer."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._fast = db.with_options(write_concern=WriteConcern(1))  # the last write waits for all of them

    @answers()
    async def names(self) -> list[str]:
        """Return the collections whose documents are backed up."""
        found = await self._db.list_collection_names(filter={"type": "collection"})
        return sorted(filter(is_backed_up, found))

    async def documents(self, name: str) -> AsyncIterator[bytes]:
        """Yield all documents in the order of their ids, many at a time, one behind the other."""
        async with answers():
            found: Any = (
                self._db[name].find_raw_batches({}, batch_size=BATCH_DOCUMENTS, hint="_id_").sort("_id", 1)
            )
            async for batch in found:
                yield batch

    @answers()
    async def now(self) -> Moment:
        """Return the latest moment that a majority has. Raises `ConfigError` without an oplog."""
        hello: Document = await self._db.client.admin.command("hello")
        if "lastWrite" not in hello:
            raise ConfigError(["MONGODB_URL names no member of a replica set: nothing tells what changed"])
        latest = hello["lastWrite"]["majorityOpTime"]["ts"]
        return latest.time, latest.inc

    async def changes(self, since: Moment, until: Moment, *, after: bool) -> AsyncIterator[bytes]:
        """Yield the entries of the oplog on this database from a moment (or `after` it) to another.

        Raises `ConfigError` where the oplog does not reach back so far, or may not be read.
        """
        name = self._db.name
        moments = {"$gt" if after else "$gte": Timestamp(*since), "$lte": Timestamp(*until)}
        # the names of its collections begin so: "." is followed by "/"
        ours = {"ns": {"$gte": f"{name}.", "$lt": f"{name}/"}}
        together = {"ns": "admin.$cmd", "o.applyOps": {"$exists": True}}
        wanted = {"ts": moments, "op": {"$ne": "n"}, "$or": [ours, together]}
        oplog: Any = self._db.client.local.get_collection("oplog.rs", RAW)
        try:
            async with answers():
                async for batch in oplog.find_raw_batches(wanted, batch_size=BATCH_DOCUMENTS).sort(
                    "$natural", 1
                ):
                    yield batch
                oldest = decode((await oplog.find({}, {"ts": 1}).sort("$natural", 1).limit(1).next()).raw)
        except OperationFailure as error:
            if error.code == NOT_ALLOWED:
                raise ConfigError([NO_OPLOG]) from error
            if error.code == POSITION_LOST:
                raise ConfigError([ROLLED_OVER]) from error
            raise
        if oldest["ts"] > Timestamp(*since):
            raise ConfigError([ROLLED_OVER])

    @answers()
    async def held(self) -> dict[str, int]:
        """Return how many documents each collection has that a restore would mix with its own."""
        counts = {name: await self._db[name].estimated_document_count() for name in await self.names()}
        return {name: count for name, count in counts.items() if count}

    @answers()
    async def clear(self) -> None:
        """Drop every collection with documents, but what is said of the store."""
        for name in await self._db.list_collection_names(filter={"type": "collection"}):
            if not name.startswith("system.") and name != STATE:
                await self._db.drop_collection(name)

    @answers()
    async def load(self, name: str, documents: Sequence[bytes]) -> None:
        """Store documents as they are in a draft. Raises `Rejected` for those that the store refuses."""
        collection = self._draft(name)
        for at in range(0, len(documents), LOADED_MAX):
            some = documents[at : at + LOADED_MAX]
            await _written(
                collection.insert_many([RawBSONDocument(each, RAW) for each in some], ordered=False)
            )

    @answers()
    async def found(self, name: str, ids: Sequence[Any]) -> list[bytes]:
        """Return the documents with these ids that a draft has."""
        return [bytes(each.raw) async for each in self._draft(name).find({"_id": {"$in": [*ids]}})]

    @answers()
    async def replace(self, name: str, documents: Mapping[bytes, bytes | None]) -> None:
        """Give each id, as a document `{_id}`, its document in a draft; None: none. Raises `Rejected`."""
        ids = {key: decode(key, AS_STORED)["_id"] for key in documents}
        writes: list[Any] = [
            DeleteOne({"_id": {"$eq": ids[key]}})
            if new is None
            else ReplaceOne({"_id": {"$eq": ids[key]}}, RawBSONDocument(new, RAW), upsert=True)
            for key, new in documents.items()
        ]
        for at in range(0, len(writes), LOADED_MAX):
            await _written(self._draft(name).bulk_write(writes[at : at + LOADED_MAX], ordered=False))

    @answers()
    async def drop(self, name: str) -> None:
        """Drop one draft."""
        await self._db.drop_collection(draft_of(name))

    @answers()
    async def drafts(self) -> list[str]:
        """Return the collections of which there is a draft."""
        found = await self._db.list_collection_names(filter={"type": "collection"})
        return sorted(name.removeprefix(DRAFT) for name in found if name.startswith(DRAFT))

    @answers()
    async def publish(self, name: str) -> None:
        """Give a draft its name, at one moment, in the place of what has it."""
        await self._db[draft_of(name)].rename(name, dropTarget=True)

    def _draft(self, name: str) -> AsyncCollection[Any]:
        return self._fast.get_collection(draft_of(name), RAW)


async def _written(write: Any) -> None:
    try:
        await write
    except BulkWriteError as error:
        first: Document = next(iter((error.details or {}).get("writeErrors", ())), {})
        raise Rejected("bad_backup", f"the store refuses a document: {first.get('errmsg', error)}") from error
