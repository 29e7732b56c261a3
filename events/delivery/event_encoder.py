"""Encodes an event for ingest: a line that ingest can take, or a refusal in its place. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from events.catalog import EventRefused, RunCanceled, RunCompleted, RunFailed, RunPreempted, data_of, type_of
from events.codec import LINE_BYTES_MAX
from events.delivery.pipe import FactFrame
from events.envelope import Head, encode, hash_of, line_hash
from events.kinds.declaring.fact import Fact
from events.queue.settlement import End
from events.record_digest import REFUSED, said_digest
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId
from events.text.key_text import digest as secret_digest
from events.text.key_text import run_token

END_TEXT_MAX: Final = 20_000  # characters of each text of an end event
MESSAGE_MAX: Final = 4_000  # characters of a settlement's or a refusal's message
OWN_CHARS: Final = 16  # of a digest in an id: 64 bits that nobody guesses


class Row(NamedTuple):
    """One event on its way; without a position it lives in memory only."""

    position: int | None
    id: str
    type: str
    run_id: str
    attempt: int
    sequence: int | None
    source: str
    line: bytes = b""
    traceparent: str | None = None
    token: str = ""  # with which the attempt was claimed
    digest: str = ""  # with which a line that is new counts in the root of its attempt

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt of which run it belongs to."""
        return AttemptId(self.run_id, self.attempt)

    @property
    def run_token(self) -> str:
        """The run token of the attempt: it proves that the sender holds it."""
        return run_token(self.run_id, self.attempt, self.token)


def end_of(fact: Fact) -> End:
    """Return what the end event of an attempt means for its run."""
    match fact:
        case RunCompleted():
            return End("completed", message=fact.summary)
        case RunFailed():
            return End("failed", fact.code, fact.message, fact.stage, fact.retryable)
        case RunCanceled():
            return End("canceled", message=fact.reason)
        case RunPreempted():
            return End("preempted", message=fact.reason)
        case _:
            raise Rejected("not_an_end", f"{type_of(type(fact))} does not end an attempt")


def refusal_of(row: Row, code: str, message: str) -> Row:
    """Return the event that takes the place, and the sequence, of a line refused for good.

    It follows from the refused line, so that a repetition is a duplicate. Its id follows from the token too,
    so that no other client, which may have read the line, can use it before. It has the line's digest, which
    still counts in the root of its attempt.
    """
    read = msgspec.json.decode(row.line)
    digest = said_digest(row.type, read["data"], line_hash(row.line))
    own = row._replace(id=f"{row.id}.{secret_digest(row.token + row.id)[:OWN_CHARS]}")
    return _refusal(own, read["time"], code, message, digest)


def _refusal(row: Row, time: str, code: str, message: str, digest: str | None = None) -> Row:
    fact = EventRefused(
        refused_type=row.type[:200], code=code[:200], message=cut(message, MESSAGE_MAX), digest=digest
    )
    return _written(row._replace(type=REFUSED), data_of(fact), time)


def fact_frame(fact: Fact | FactFrame) -> FactFrame:
    """Return a fact by its public type, in the form of the child's frame."""
    return fact if isinstance(fact, FactFrame) else FactFrame(type=type_of(type(fact)), data=data_of(fact))


def with_line(row: Row, data: dict[str, Any], time: str) -> Row:
    """Return `row` with its line; an event that no line can contain is refused here."""
    try:
        full = _written(row, data, time)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        return _refusal(row, time, "unstorable", str(error))
    if len(full.line) <= LINE_BYTES_MAX:
        return full
    return _refusal(row, time, "too_large", f"{len(full.line)} bytes, the limit is {LINE_BYTES_MAX}")


def _written(row: Row, data: dict[str, Any], time: str) -> Row:
    head = Head(
        id=row.id,
        source=row.source,
        attempt_id=row.attempt_id,
        sequence=row.sequence,
        time=time,
        traceparent=row.traceparent,
    )
    line = encode(row.type, data, head)
    digest = hash_of(row.type, row.attempt_id, row.sequence, time, data)
    return row._replace(line=line, digest=said_digest(row.type, data, digest))


def bounded(end: FactFrame) -> FactFrame:
    """Return an end event with its texts cut: a short end is better than none."""
    return FactFrame(
        type=end.type,
        data={
            name: cut(value, END_TEXT_MAX) if isinstance(value, str) else value
            for name, value in end.data.items()
        },
    )


def cut(text: str, characters_max: int) -> str:
    """Return the beginning of `text`, in a form that JSON can represent."""
    # A path or an exception's message may hold lone surrogates, which no JSON text can.
    return text[:characters_max].encode("utf-8", "replace").decode()
