"""The envelope of one event: CloudEvents attributes, its run and attempt, its fact, pure.

Identity is `(source, id)`. Position is `(run_id, attempt, sequence)`. An event without a sequence has no
position, and its fact has to be commutative.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from events.catalog import data_of, type_of
from events.kinds.declaring.fact import Fact
from events.text.attempt_id import AttemptId

SPEC_VERSION: Final = "1.0"
SUBJECT_PREFIX: Final = "run/"
SEQUENCE_DIGITS: Final = 10


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded event. `data` is what was sent; `fact` is the part that has a meaning here."""

    id: str
    source: str
    type: str
    run_id: str
    attempt: int
    sequence: int | None
    time: str | None
    data: dict[str, Any]
    fact: Fact
    traceparent: str | None = None

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt of which run it belongs to."""
        return AttemptId(self.run_id, self.attempt)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an event besides its type and data."""

    id: str
    source: str
    attempt_id: AttemptId
    sequence: int | None
    time: str
    traceparent: str | None = None


class _Written(msgspec.Struct):
    type: str
    subject: str
    attempt: int
    time: str
    data: dict[str, Any]
    sequence: str | None = None


_WRITTEN: Final = msgspec.json.Decoder(_Written)
_SORTED: Final = msgspec.json.Encoder(order="deterministic")


def storage_id(run_id: str, source: str, event_id: str) -> str:
    """Return the id under which the event log keeps `(source, event_id)` of a run."""
    digest = hashlib.sha256(f"{source}\x00{event_id}".encode()).hexdigest()
    return f"{run_id}/{digest}"


def content_hash(event: Event) -> str:
    """Return a digest of everything that two deliveries of one event must share."""
    return hash_of(event.type, event.attempt_id, event.sequence, event.time, event.data)


def line_hash(line: bytes) -> str:
    """Return the `content_hash` of an event that `encode` wrote."""
    read = _WRITTEN.decode(line)
    attempt_id = AttemptId(read.subject.removeprefix(SUBJECT_PREFIX), read.attempt)
    sequence = None if read.sequence is None else int(read.sequence)
    return hash_of(read.type, attempt_id, sequence, read.time, read.data)


def hash_of(
    event_type: str, attempt_id: AttemptId, sequence: int | None, time: str | None, data: dict[str, Any]
) -> str:
    """Return the `content_hash` of what an event says; the names in `data` are texts, as JSON has them."""
    content = (event_type, *attempt_id, sequence, time, data)
    return hashlib.sha256(_SORTED.encode(content)).hexdigest()


def wire(fact: Fact, head: Head) -> bytes:
    """Return one structured-mode JSON event, without a line end."""
    return encode(type_of(type(fact)), data_of(fact), head)


def encode(event_type: str, data: dict[str, Any], head: Head) -> bytes:
    """Return one structured-mode JSON event of a type that is known by name only."""
    attributes: dict[str, Any] = {
        "specversion": SPEC_VERSION,
        "id": head.id,
        "source": head.source,
        "type": event_type,
        "subject": f"{SUBJECT_PREFIX}{head.attempt_id.run_id}",
        "time": head.time,
        "datacontenttype": "application/json",
        "attempt": head.attempt_id.attempt,
    }
    if head.sequence is not None:
        attributes["sequence"] = f"{head.sequence:0{SEQUENCE_DIGITS}d}"
    if head.traceparent is not None:
        attributes["traceparent"] = head.traceparent
    return msgspec.json.encode({**attributes, "data": data})
