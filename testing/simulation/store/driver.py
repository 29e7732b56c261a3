"""The driver's two faces on one deployment: what PyMongo's classes answer, as far as the product asks.

Law: whatever this does not know is refused with its name, never answered approximately.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError
from pymongo.results import BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, UpdateResult

from testing.simulation.store import replica_set as state
from testing.simulation.store.matching import matches
from testing.simulation.store.order import MISSING
from testing.simulation.store.reading import Order, aggregated, ordered, projected
from testing.simulation.store.replica_set import OPTIONS, Call, Document, Duplicate, Record, ReplicaSet
from testing.simulation.store.updates import Moment, Update, seed, updated

Filter = Mapping[str, Any]
Projection = Mapping[str, Any] | Sequence[str] | None


def sync_database(servers: ReplicaSet, client: str) -> Database[Document]:
    """Return the database as a synchronous driver shows it to `client`."""
    return cast("Database[Document]", SyncFace(servers, client))


def async_database(servers: ReplicaSet, client: str) -> AsyncDatabase[Document]:
    """Return the database as an asynchronous driver shows it to `client`."""
    return cast("AsyncDatabase[Document]", AsyncFace(servers, client))


@dataclass(frozen=True, slots=True)
class Changed:
    """What one update did."""

    before: bytes | None = None
    after: bytes | None = None
    matched: int = 0
    modified: int = 0
    upserted: Any = None


@dataclass(frozen=True, slots=True)
class Found:
    """A query that is asked when its first document is wanted."""

    collection: SyncCollection
    query: Filter
    projection: Projection
    order: Order = ()
    skipped: int = 0
    most: int = 0

    def sort(self, order: str | Order, direction: int = 1) -> Found:
        """Return the same query in another order."""
        return replace(self, order=[(order, direction)] if isinstance(order, str) else list(order))

    def skip(self, count: int) -> Found:
        """Return the same query without its first documents."""
        return replace(self, skipped=count)

    def limit(self, count: int) -> Found:
        """Return the same query, cut; 0 means no limit."""
        return replace(self, most=count)

    def hint(self, name: str) -> Found:
        """Return the same query: whichever index is used, it finds the same."""
        return self

    def batch_size(self, count: int) -> Found:
        """Return the same query: it is answered in one piece here anyhow."""
        return self

    def read(self) -> list[Document]:
        """Ask."""
        return self.collection.read_all(self)

    def __iter__(self) -> Iterator[Document]:
        return iter(self.read())

    async def __aiter__(self) -> AsyncIterator[Document]:
        for each in self.read():
            yield each

    async def to_list(self, length: int | None = None) -> list[Document]:
        """Ask, from the asynchronous side."""
        return self.read() if length is None else self.read()[:length]


@dataclass(frozen=True, slots=True)
class Answered:
    """What an aggregation answered."""

    documents: Sequence[Document]

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    async def __aiter__(self) -> AsyncIterator[Document]:
        for each in self.documents:
            yield each

    async def to_list(self, length: int | None = None) -> list[Document]:
        """Return what is left of it."""
        return list(self.documents if length is None else self.documents[:length])


@dataclass(frozen=True, slots=True)
class SyncCollection:
    """One collection, as a synchronous driver shows it."""

    servers: ReplicaSet
    client: str
    name: str

    def find(self, query: Filter | None = None, projection: Projection = None) -> Found:
        """Return a cursor."""
        return Found(self, query or {}, projection)

    def find_one(
        self,
        query: Filter | None = None,
        projection: Projection = None,
        *,
        sort: Order = (),
        hint: str | None = None,
    ) -> Document | None:
        """Return the first document, if there is any."""
        wanted = Found(self, query or {}, projection, order=sort, most=1)
        return next(iter(wanted), None)

    def read_all(self, wanted: Found) -> list[Document]:
        """Return what a query finds."""

        def step(collection: state.Collection) -> list[Document]:
            most = wanted.skipped + wanted.most if wanted.most and not wanted.order else None
            documents = islice(self._matching(collection, wanted.query), most)
            chosen = ordered([each.fresh() for each in documents], wanted.order)[wanted.skipped :]
            return [projected(each, wanted.projection) for each in chosen[: wanted.most or None]]

        return self.servers.read(self._call("find", is_write=False), step)

    def count_documents(self, query: Filter, *, limit: int = 0, hint: str | None = None) -> int:
        """Count, up to `limit`."""

        def step(collection: state.Collection) -> int:
            return sum(1 for _ in islice(self._matching(collection, query), limit or None))

        return self.servers.read(self._call("count", is_write=False), step)

    def aggregate(
        self,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        hint: str | None = None,
        allowDiskUse: bool = False,
        batchSize: int = 0,
    ) -> Answered:
        """Return what a pipeline makes of the collection."""

        def step(collection: state.Collection) -> list[Document]:
            first: Filter = pipeline[0].get("$match", {}) if pipeline else {}
            documents = [each.fresh() for each in self._matching(collection, first)]

            def beside(wanted: Mapping[str, Any]) -> list[Document]:
                if wanted["coll"] != self.name:
                    raise NotImplementedError("a union with another collection")
                return [each.fresh() for each in self._matching(collection, {})]

            return aggregated(documents, pipeline, self.servers.now(), beside)

        return Answered(self.servers.read(self._call("aggregate", is_write=False), step))

    def insert_one(self, document: Mapping[str, Any]) -> InsertOneResult:
        """Store a new document."""
        identity, raw = _encoded(document)
        try:
            self._write("insert", lambda found: self.servers.store(found, identity, raw, is_new=True))
        except Duplicate as error:
            raise self._duplicate(error) from None
        return InsertOneResult(identity, acknowledged=True)

    def insert_many(
        self, documents: Sequence[Mapping[str, Any]], *, ordered: bool = True
    ) -> InsertManyResult:
        """Store new documents; each stands or falls alone."""
        if ordered:
            raise NotImplementedError("insert_many in order")
        operations = [InsertOne(cast("Document", each)) for each in documents]
        self.bulk_write(operations, ordered=False)
        named = [each["_id"] for each in documents if not isinstance(each, RawBSONDocument)]
        return InsertManyResult(named, acknowledged=True)

    def bulk_write(
        self, operations: Sequence[UpdateOne | InsertOne[Document]], *, ordered: bool = True
    ) -> BulkWriteResult:
        """Do many writes; each stands or falls alone."""
        if ordered:
            raise NotImplementedError("bulk_write in order")
        encoded = [_encoded(each._doc) if isinstance(each, InsertOne) else None for each in operations]
        counts = {"nInserted": 0, "nUpserted": 0, "nMatched": 0, "nModified": 0, "nRemoved": 0}
        problems: list[Document] = []
        upserted: list[Document] = []
        call = self._call("bulk_write", is_write=True)

        def step(collection: state.Collection) -> None:
            for turn, index in enumerate(self.servers.network.order(len(operations))):
                operation = operations[index]
                if turn:
                    self.servers.between(call)
                try:
                    self._one(collection, operation, encoded[index], counts, upserted, index)
                except Duplicate as error:
                    problems.append({"index": index, **error.collision.details(self.name)})
                except WriteError as error:
                    problems.append({"index": index, **(error.details or {})})

        self.servers.write(call, step)
        outcome = {"writeErrors": problems, "writeConcernErrors": [], **counts, "upserted": upserted}
        if problems:
            problems.sort(key=lambda problem: problem["index"])
            raise BulkWriteError(outcome)
        return BulkWriteResult(outcome, acknowledged=True)

    def _one(
        self,
        collection: state.Collection,
        operation: UpdateOne | InsertOne[Document],
        encoded: tuple[Any, bytes] | None,
        counts: dict[str, int],
        upserted: list[Document],
        index: int,
    ) -> None:
        if isinstance(operation, InsertOne):
            assert encoded is not None
            self.servers.store(collection, *encoded, is_new=True)
            counts["nInserted"] += 1
            return
        changed = self._update(collection, operation._filter, operation._doc, upsert=bool(operation._upsert))
        counts["nMatched"] += changed.matched
        counts["nModified"] += changed.modified
        if changed.upserted is not None:
            counts["nUpserted"] += 1
            upserted.append({"index": index, "_id": changed.upserted})

    def update_one(self, query: Filter, update: Update, *, upsert: bool = False) -> UpdateResult:
        """Change the first document that matches, or make it."""
        changed = self._changing("update", lambda found: self._update(found, query, update, upsert=upsert))
        raw: Document = {
            "n": changed.matched or int(changed.upserted is not None),
            "nModified": changed.modified,
        }
        if changed.upserted is not None:
            raw["upserted"] = changed.upserted
        return UpdateResult(raw, acknowledged=True)

    def update_many(self, query: Filter, update: Update) -> UpdateResult:
        """Change every document that matches, one after the other."""
        call = self._call("update_many", is_write=True)

        def step(collection: state.Collection) -> list[Changed]:
            names = [each.document["_id"] for each in self._newest(collection, query)]
            changes: list[Changed] = []
            for number, identity in enumerate(names):
                if number:
                    self.servers.between(call)
                changes.append(self._update(collection, {**query, "_id": identity}, update))
            return changes

        changes = self._changing_all(call, step)
        counts = {
            "n": sum(each.matched for each in changes),
            "nModified": sum(each.modified for each in changes),
        }
        return UpdateResult(counts, acknowledged=True)

    def find_one_and_update(
        self,
        query: Filter,
        update: Update,
        projection: Projection = None,
        *,
        sort: Order = (),
        upsert: bool = False,
        return_document: bool = False,
    ) -> Document | None:
        """Change the first document in `sort` that matches; return it as it was, or as it is."""
        try:
            changed = self._changing(
                "find_one_and_update",
                lambda collection: self._update(collection, query, update, upsert=upsert, sort=sort),
            )
        except DuplicateKeyError:
            raise
        except WriteError as error:  # for this command the server has no errors of single writes
            raise OperationFailure(str(error), error.code, error.details) from None
        raw = changed.after if return_document else changed.before
        return None if raw is None else projected(bson.decode(raw, OPTIONS), projection)

    def delete_one(self, query: Filter) -> DeleteResult:
        """Take the first document that matches away."""

        def step(collection: state.Collection) -> int:
            for record in self._newest(collection, query):
                self.servers.store(collection, record.document["_id"], None)
                return 1
            return 0

        return DeleteResult({"n": self._write("delete", step)}, acknowledged=True)

    def delete_many(self, query: Filter) -> DeleteResult:
        """Take all documents that match away."""

        def step(collection: state.Collection) -> int:
            found = self._newest(collection, query)
            for record in found:
                self.servers.store(collection, record.document["_id"], None)
            return len(found)

        return DeleteResult({"n": self._write("delete", step)}, acknowledged=True)

    def _update(
        self,
        collection: state.Collection,
        query: Filter,
        update: Update,
        *,
        upsert: bool = False,
        sort: Order = (),
    ) -> Changed:
        now = self.servers.now()
        records = self._newest(collection, query)
        if sort and len(records) > 1:
            (first,) = ordered([each.document for each in records], sort)[:1]
            records = [each for each in records if each.document is first]
        if not records:
            if not upsert:
                return Changed()
            identity, raw = _encoded(updated(_copy(seed(query)), update, Moment(now, is_insert=True)))
            self.servers.store(collection, identity, raw, is_new=True)
            return Changed(after=raw, upserted=identity)
        record = records[0]
        identity, raw = _encoded(updated(record.fresh(), update, Moment(now)))
        if raw == record.raw:
            return Changed(raw, raw, matched=1)
        self.servers.store(collection, identity, raw)
        return Changed(record.raw, raw, matched=1, modified=1)

    def _matching(self, collection: state.Collection, query: Filter) -> Iterator[Record]:
        now = self.servers.now()
        return (each for each in collection.majority(query) if matches(each.document, query, now))

    def _newest(self, collection: state.Collection, query: Filter) -> list[Record]:
        now = self.servers.now()
        return [each for each in collection.newest(query) if matches(each.document, query, now)]

    def _changing(self, operation: str, step: Any) -> Changed:
        changed: Changed = self._changing_all(self._call(operation, is_write=True), step)
        return changed

    def _changing_all(self, call: Call, step: Any) -> Any:
        try:
            return self.servers.write(call, step)
        except Duplicate as error:
            raise self._duplicate(error) from None

    def _write(self, operation: str, step: Any) -> Any:
        return self.servers.write(self._call(operation, is_write=True), step)

    def _duplicate(self, error: Duplicate) -> DuplicateKeyError:
        details = error.collision.details(self.name)
        return DuplicateKeyError(details["errmsg"], details["code"], details)

    def _call(self, operation: str, *, is_write: bool) -> Call:
        return Call(self.client, self.name, operation, is_write)


@dataclass(frozen=True, slots=True)
class SyncFace:
    """A database of the synchronous driver."""

    servers: ReplicaSet
    client_name: str

    def __getitem__(self, name: str) -> SyncCollection:
        return SyncCollection(self.servers, self.client_name, name)

    def __getattr__(self, name: str) -> SyncCollection:
        return self[name]

    def get_collection(self, name: str, codec_options: object = None) -> SyncCollection:
        """Return a collection; its documents are always read whole, whatever the options."""
        return self[name]


@dataclass(frozen=True, slots=True)
class AsyncCollection:
    """One collection, as an asynchronous driver shows it; nothing in here really waits."""

    inner: SyncCollection

    def find(self, query: Filter | None = None, projection: Projection = None) -> Found:
        """Return a cursor."""
        return self.inner.find(query, projection)

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self.inner, name)

        async def ask(*arguments: Any, **options: Any) -> Any:
            return answer(*arguments, **options)

        return ask


@dataclass(frozen=True, slots=True)
class Admin:
    """The commands to a deployment."""

    servers: ReplicaSet
    client: str

    async def command(self, name: str) -> Document:
        """Return the answer to `hello`: what time it is, as ever without a zone."""
        if name != "hello":
            raise NotImplementedError(f"the command {name}")
        now = self.servers.now().replace(tzinfo=None)
        call = Call(self.client, "hello", name, is_write=False)
        return self.servers.read(call, lambda _: {"localTime": now})


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the asynchronous driver."""

    admin: Admin


@dataclass(frozen=True, slots=True)
class AsyncFace:
    """A database of the asynchronous driver."""

    servers: ReplicaSet
    client_name: str
    _known: dict[str, AsyncCollection] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        """The client that it came from."""
        return Client(Admin(self.servers, self.client_name))

    def __getitem__(self, name: str) -> AsyncCollection:
        if name not in self._known:
            self._known[name] = AsyncCollection(SyncCollection(self.servers, self.client_name, name))
        return self._known[name]

    def __getattr__(self, name: str) -> AsyncCollection:
        return self[name]

    def get_collection(self, name: str, codec_options: object = None) -> AsyncCollection:
        """Return a collection; its documents are always read whole, whatever the options."""
        return self[name]


def _encoded(document: Mapping[str, Any]) -> tuple[Any, bytes]:
    """Return a document's id and its bytes, as the driver sends them."""
    raw = bytes(document.raw) if isinstance(document, RawBSONDocument) else bson.encode(document)
    identity = document.get("_id", MISSING)
    if not isinstance(identity, str):
        raise NotImplementedError(f"a document whose _id is no text: {identity!r}")
    return identity, raw


def _copy(document: Document) -> Document:
    return bson.decode(bson.encode(document), OPTIONS)
