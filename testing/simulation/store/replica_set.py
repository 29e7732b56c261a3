"""The state of a replica set: its documents, and what of them a majority has.

Law: a write takes effect in one document at once and is majority-committed later, in the
order of the writes; it is acknowledged after that. Updates see the newest document, reads
the committed one. A step-down takes back every write that was not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

import bson
from bson.codec_options import CodecOptions
from pymongo.errors import NetworkTimeout, NotPrimaryError

from control_plane.store.schema import INDEXES
from testing.simulation.store.indexes import Collision, Uniqueness, unique_indexes

Document = dict[str, Any]
T = TypeVar("T")

OPTIONS: Final[CodecOptions[Document]] = CodecOptions(tz_aware=True, tzinfo=UTC)
NOT_PRIMARY: Final = 10107
# Fields with an index that a query by equality may use, the narrowest first, so that a log is not read for
# each question.
BUCKETS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "events": (("runId", "attempt", "sequence"), ("runId", "attempt"), ("runId",))
}


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of one client."""

    client: str
    collection: str
    operation: str
    is_write: bool


class Network(Protocol):
    """What happens around an operation: others run, messages get lost, primaries step down."""

    def before(self, call: Call) -> None:
        """Raises for a request that never arrives: nothing is applied."""
        ...

    def order(self, count: int) -> Sequence[int]:
        """Return in which order the writes of an unordered command take effect."""
        ...

    def between(self, call: Call) -> None:
        """Between two documents of one command. Raises for a command that is cut off there."""
        ...

    def applied(self, call: Call) -> None:
        """The effect is there, and not on a majority yet."""
        ...

    def after(self, call: Call) -> None:
        """Raises for an answer that gets lost: all is applied and committed."""
        ...

    def is_late(self, call: Call, arrive: Callable[[], object]) -> bool:
        """Say whether the client gives up before its write arrives; `arrive` then lets it, whenever."""
        ...


class ReliableNetwork:
    """Nothing happens."""

    def before(self, call: Call) -> None: ...

    def order(self, count: int) -> Sequence[int]:
        return range(count)

    def between(self, call: Call) -> None: ...

    def applied(self, call: Call) -> None: ...

    def after(self, call: Call) -> None: ...

    def is_late(self, call: Call, arrive: Callable[[], object]) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Record:
    """A document, as it is stored and as filters see it; the decoded form is never changed."""

    raw: bytes
    document: Document

    def fresh(self) -> Document:
        """Return a copy that its taker may change."""
        return bson.decode(self.raw, OPTIONS)


@dataclass(frozen=True, slots=True)
class Undo:
    """How to take a write back that no majority has."""

    collection: Collection
    identity: Any
    before: Record | None


class Duplicate(Exception):
    """A write that a unique index forbids."""

    def __init__(self, collision: Collision) -> None:
        super().__init__(collision.index)
        self.collision = collision


@dataclass(slots=True)
class Collection:
    """Documents by id, in the order of insertion."""

    name: str
    uniqueness: Uniqueness
    records: dict[Any, Record] = field(default_factory=dict)
    # What a majority has of the documents that were written since; None where it has none.
    committed: dict[Any, Record | None] = field(default_factory=dict)
    buckets: dict[tuple[Any, ...], dict[Any, None]] = field(default_factory=dict)

    def newest(self, query: Mapping[str, Any]) -> Iterator[Record]:
        """Yield every candidate for `query`, as the primary has it now."""
        records = self.records
        for identity in self._candidates(query):
            record = records.get(identity)
            if record is not None:
                yield record

    def majority(self, query: Mapping[str, Any]) -> Iterator[Record]:
        """Yield every candidate for `query`, as a majority has it."""
        if not self.committed:
            yield from self.newest(query)
            return
        for identity in [
            *self._candidates(query),
            *(each for each in self.committed if each not in self.records),
        ]:
            record = self.committed.get(identity, self.records.get(identity))
            if record is not None:
                yield record

    def _candidates(self, query: Mapping[str, Any]) -> list[Any]:
        match query.get("_id"):
            case str() as identity:
                return [identity]
            case {"$in": list(identities)}:
                return [each for each in identities if isinstance(each, str)]
        for names in BUCKETS.get(self.name, ()):
            values = tuple(query.get(name) for name in names)
            if all(type(value) in (str, int) for value in values):
                return list(self.buckets.get(values, ()))
        return list(self.records)

    def put(self, identity: Any, record: Record | None, now: datetime) -> None:
        """Make this the document; None takes it away."""
        old = self.records.get(identity)
        if old is not None:
            self.uniqueness.drop(old.document, now)
        if record is None:
            self.records.pop(identity, None)
        else:
            self.uniqueness.add(record.document, now)
            self.records[identity] = record
        if record is not None:
            for names in BUCKETS.get(self.name, ()):
                values = tuple(record.document.get(name) for name in names)
                self.buckets.setdefault(values, {})[identity] = None


Recorder = Callable[[str, Document | None, Document | None], None]


@dataclass(slots=True)
class ReplicaSet:
    """One deployment, shared by the faces of all clients."""

    clock: Callable[[], datetime]
    network: Network = field(default_factory=ReliableNetwork)
    witness: Recorder = lambda name, before, after: None
    term: int = 1
    rolled_back: int = 0
    _collections: dict[str, Collection] = field(default_factory=dict)
    _uncommitted: list[Undo] = field(default_factory=list)
    _committed_count: int = 0

    def now(self) -> datetime:
        """Return the store's own time, in its own resolution."""
        moment = self.clock()
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def collection(self, name: str) -> Collection:
        """Return a collection, which exists once it is named."""
        if name not in self._collections:
            self._collections[name] = Collection(name, Uniqueness(unique_indexes(INDEXES.get(name, ()))))
        return self._collections[name]

    def read(self, call: Call, step: Callable[[Collection], T]) -> T:
        """Read what a majority has."""
        self.network.before(call)
        result = step(self.collection(call.collection))
        self.network.after(call)
        return result

    def write(self, call: Call, step: Callable[[Collection], T]) -> T:
        """Write, wait for a majority, answer; also a write that changes nothing waits for what it saw."""
        self.network.before(call)
        if self.network.is_late(call, lambda: self._take_effect(call, step)):
            raise NetworkTimeout(f"no answer to {call.operation}")
        return self._take_effect(call, step)

    def _take_effect(self, call: Call, step: Callable[[Collection], T]) -> T:
        problem: Exception | None = None
        try:
            result = step(self.collection(call.collection))
        except Duplicate as error:
            problem = error
        self._wait_for_majority(call)
        self.network.after(call)
        if problem is not None:
            raise problem
        return result

    def between(self, call: Call) -> None:
        """Let others run between two documents of one command; a primary that is gone ends it there."""
        term = self.term
        self.network.between(call)
        if self.term != term:
            raise not_primary()

    def _wait_for_majority(self, call: Call) -> None:
        term, position = self.term, self._committed_count + len(self._uncommitted)
        self.network.applied(call)
        if self.term != term:
            raise not_primary()
        self._replicate(position)

    def _replicate(self, position: int) -> None:
        """Commit every write up to `position`, in their order."""
        while self._uncommitted and self._committed_count < position:
            undo = self._uncommitted.pop(0)
            self._committed_count += 1
            del undo.collection.committed[undo.identity]
            after = undo.collection.records.get(undo.identity)
            for later in self._uncommitted:
                if later.collection is undo.collection and later.identity == undo.identity:
                    after = undo.collection.committed[undo.identity] = later.before
                    break
            self.witness(
                undo.collection.name,
                None if undo.before is None else undo.before.document,
                None if after is None else after.document,
            )

    def step_down(self) -> None:
        """Elect another primary: what no majority has is gone, and whoever waits hears an error."""
        for undo in reversed(self._uncommitted):
            undo.collection.put(undo.identity, undo.before, self.now())
            undo.collection.committed.pop(undo.identity, None)
        self.rolled_back += len(self._uncommitted)
        self._uncommitted.clear()
        self.term += 1

    def store(
        self, collection: Collection, identity: Any, raw: bytes | None, *, is_new: bool = False
    ) -> None:
        """Let one document take effect. Raises `Duplicate` where a unique index forbids it."""
        now = self.now()
        before = collection.records.get(identity)
        if is_new and before is not None:
            raise Duplicate(Collision("_id_", {"_id": 1}, {"_id": identity}))
        record = None if raw is None else Record(raw, bson.decode(raw, OPTIONS))
        if record is not None and (found := collection.uniqueness.collision(record.document, now)):
            raise Duplicate(found)
        collection.committed.setdefault(identity, before)
        collection.put(identity, record, now)
        self._uncommitted.append(Undo(collection, identity, before))


def not_primary() -> NotPrimaryError:
    """Return what a driver raises when the primary stepped down under it."""
    return NotPrimaryError("not primary", {"code": NOT_PRIMARY, "errmsg": "not primary"})
