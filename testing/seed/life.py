"""One run from its submit on, decided and projected by the product's own functions, in memory.

Law: nothing here knows what a field means. A decision is the product's update pipeline, evaluated by
the store double; an event is stored, folded and shown by the functions that ingest and projector use.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bson import encode
from bson.raw_bson import RawBSONDocument

from control_plane.log.projector import run_view
from control_plane.model.projection import AttemptView, attempt_id, fold
from control_plane.runs.submission import Submission, read, run_fields, snapshot
from control_plane.store.log.documents import attempt_fields, human_validations, view_fields
from control_plane.store.log.events import Arrival, entry_document, storable
from control_plane.store.queue.runs import decode, decode_entry
from events.catalog import data_of, type_of
from events.envelope import Event, content_hash, storage_id
from events.kinds.declaring.fact import Fact
from events.lifecycle import Status, advance
from events.queue.claims import claim_decision
from events.queue.journal import Decision, creation, expression, update
from events.queue.settlement import End, rescue_decision, settle_decision
from events.runtime.clock import timestamp
from testing.simulation.store.expressions import Scope, evaluate

Document = dict[str, Any]
ULID_ENTROPY_BITS: Final = 80
ULID_DIGITS: Final = 26
SEED_LEASE_S: Final = 10 * 365 * 86_400.0  # nobody renews a run that stands still for ever
LAG_MS: Final = (40, 900)  # from a pod's clock to the log


_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(one + other for one in _DIGITS for other in _DIGITS)
_SHIFTS: Final = tuple(range((ULID_DIGITS - 2) * 5, -1, -10))


def ulid(at: datetime, rng: random.Random) -> str:
    """Return an id of that moment, drawn from `rng`."""
    number = int(at.timestamp() * 1000) << ULID_ENTROPY_BITS | rng.getrandbits(ULID_ENTROPY_BITS)
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def evaluated(expression: Any, scope: Scope) -> Any:
    """Return what the store double makes of `expression`; the usual forms on a shorter way."""
    if isinstance(expression, dict):
        if len(expression) == 1:
            ((operator, argument),) = expression.items()
            if operator == "$literal":
                return argument
            if operator == "$mergeObjects" and all(isinstance(each, dict) for each in argument):
                return {name: value for each in argument for name, value in evaluated(each, scope).items()}
            if operator.startswith("$"):
                return evaluate(expression, scope)
        return {name: evaluated(each, scope) for name, each in expression.items()}
    if expression == "$$NOW":
        return scope.now
    return evaluate(expression, scope) if isinstance(expression, str | list) else expression


def changed(document: Document, pipeline: Sequence[Document], at: datetime) -> Document:
    """Return the document after a pipeline of the journal, which sets whole fields and nothing else."""
    for stage in pipeline:
        ((operator, fields),) = stage.items()
        assert operator == "$set", operator
        scope = Scope(document, at)
        journal = fields.get("journal")
        values = {name: evaluated(each, scope) for name, each in fields.items() if name != "journal"}
        if isinstance(journal, list):
            values["journal"] = [evaluated(entry, scope) for entry in journal]
        else:
            before, entries = journal["$concatArrays"]
            values["journal"] = [*evaluate(before, scope), *(evaluated(each, scope) for each in entries)]
        document = {**document, **values}
    return document


@dataclass(frozen=True, slots=True)
class Line:
    """A stored line of the log; of a worker's event also what is in it, and its key and hash."""

    document: bytes
    event: Event | None = None
    key: bytes = b""
    hash: bytes = b""


@dataclass(slots=True)
class Life:
    """A run under way; `documents` gives what is to be stored of it, by collection."""

    id: str
    collection: str
    at: datetime
    rng: random.Random
    run: Document = field(default_factory=dict)
    spec: Document = field(default_factory=dict)
    log: list[Line] = field(default_factory=list)
    attempts: dict[str, Document] = field(default_factory=dict)
    beside: dict[tuple[str, str], Document] = field(default_factory=dict)
    view: AttemptView | None = None
    sequence: int = 0
    source: str = ""
    _waiting: list[Event] = field(default_factory=list)
    _arrived: datetime = datetime(2000, 1, 1, tzinfo=UTC)

    @property
    def status(self) -> Status:
        return Status(self.run["status"])

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.at += timedelta(milliseconds=max(1, int(seconds * 1000)))

    def submit(self, wanted: Submission) -> None:
        """Queue the run."""
        self.spec = {"_id": self.id, **snapshot(self.id, wanted), "putAt": self.at}
        pipeline = creation(run_fields(read(wanted)), by=wanted.by)
        self.run = changed({"_id": self.id}, pipeline, self.at)
        self._record()

    def claim(self, pod: str) -> None:
        """Give the run to a pod."""
        decision = claim_decision(f"{self.id} {self.rng.random()}", pod, SEED_LEASE_S)
        self.decide(decision)
        self.sequence = 0
        self.view = AttemptView(self.id, self.run["attempt"])
        self.source = f"//podfleet/pods/{pod}/runs/{self.id}/attempts/{self.run['attempt']}"

    def say(self, fact: Fact, *, after_s: float = 0.0) -> None:
        """Take in an event of the present attempt."""
        self.wait(after_s)
        self.sequence += 1
        event = Event(
            id=ulid(self.at, self.rng),
            source=self.source,
            type=type_of(type(fact)),
            run_id=self.id,
            attempt=self.run["attempt"],
            sequence=self.sequence,
            time=timestamp(self.at),
            data={"run_id": self.id, **data_of(fact)},
            fact=fact,
        )
        document = bytes(storable(event, self._arrival(self.at)).raw)
        key = storage_id(self.id, self.source, event.id).rpartition("/")[2]
        self.log.append(Line(document, event, key.encode(), content_hash(event).encode()))
        self._waiting.append(event)

    def settle(self, how: End) -> None:
        """End the attempt as its worker does: the decision first, then the rest of the log."""
        reported, self._waiting = self._waiting, self._waiting[:-1]
        self._apply()
        self._waiting = reported[-1:]
        by = f"{self.run['claimedBy']}#a{self.run['attempt']}"
        standing, attempt = decode(self.run).standing, self.run["attempt"]
        self.decide(
            settle_decision(standing, attempt, how, self.sequence, by=by, jitter=self.rng.random()),
            applies=False,
        )
        self.apply()

    def rescue(self) -> None:
        """Take the run from a pod that was lost."""
        self.apply()
        found = rescue_decision(
            decode(self.run).standing, self.run["attempt"], by="rescuer", jitter=self.rng.random()
        )
        assert isinstance(found, Decision)
        self.decide(found)

    def decide(self, decision: Decision, *, applies: bool = True) -> None:
        """Make a decision, and write it down."""
        if applies:
            self.apply()
        self.run = changed(self.run, update(decision), self.at)
        self._record()

    def apply(self) -> None:
        """Fold what was said since the last time into the run and what stands beside it."""
        self._apply()
        self._waiting = []

    def documents(self) -> dict[str, list[Any]]:
        """Return everything to be stored, by collection."""
        self.apply()
        found: dict[str, list[Any]] = defaultdict(list)
        found[self.collection] = [self.run]
        found["run_specs"] = [self.spec]
        found["events"] = [line.document for line in self.log]
        found["attempts"] = [{"_id": name, **fields} for name, fields in self.attempts.items()]
        for (collection, name), fields in self.beside.items():
            found[collection].append({"_id": name, **fields})
        return found

    def _apply(self) -> None:
        if not self._waiting:
            return
        assert self.view is not None
        folded = fold(self.view, self._waiting, self.run["lastEventSeq"])
        assert not folded.set_aside, "a history that nobody disputes"
        fields = run_view(decode(self.run), folded)
        scope = Scope(self.run, self.at)
        status = self.status
        for cause in folded.phases:
            status = advance(status, cause)
        values = {name: evaluated(expression(value), scope) for name, value in fields.items()}
        self.run |= {**values, "status": status.value, "lastHeartbeat": self.at}
        self.view = folded.view
        for write in folded.writes.values():
            known = self.beside.setdefault((write.collection, write.id), {})
            known |= {**write.fields, "seq": write.seq}
        identity = attempt_id(self.id, self.view.attempt)
        known = self.attempts.setdefault(identity, {})
        known |= {**view_fields(self.view), "lastEventSeq": folded.seq}

    def _record(self) -> None:
        """Move the journal into the log, and tell the attempts of it."""
        for stored in self.run["journal"]:
            entry = decode_entry(stored)
            document = entry_document(self.id, entry, self._arrival(self.at))
            self.log.append(Line(encode(document)))
            attempt, fields = attempt_fields(self.id, entry)
            if fields:
                known = self.attempts.setdefault(attempt_id(self.id, attempt), {})
                # the catch-up has long stopped to watch
                known |= {**fields, "revision": entry.n, "watchedUntil": None}
            for write in human_validations(self.id, entry):
                self.beside[write.collection, write.id] = {**write.fields, "seq": write.seq}
        self.run["journal"] = []

    def _arrival(self, at: datetime) -> Arrival:
        received = at + timedelta(milliseconds=self.rng.randint(*LAG_MS))
        self._arrived = max(received, self._arrived + timedelta(milliseconds=1))
        return Arrival(ulid(self._arrived, self.rng), self._arrived)


def encoded(life: Life) -> dict[str, list[bytes]]:
    """Return the documents of a run as they are sent."""
    return {
        collection: [each if isinstance(each, bytes) else encode(each) for each in documents]
        for collection, documents in life.documents().items()
    }


def merged(many: Iterable[Mapping[str, list[bytes]]]) -> dict[str, list[RawBSONDocument]]:
    """Return the documents of several runs together."""
    found: dict[str, list[RawBSONDocument]] = defaultdict(list)
    for each in many:
        for collection, documents in each.items():
            found[collection] += map(RawBSONDocument, documents)
    return found


def digest(*parts: object) -> str:
    """Return a number of 256 bits, in hexadecimal, that these parts alone decide."""
    return hashlib.sha256("\x00".join(map(str, parts)).encode()).hexdigest()
