"""One event on its way out: a line that ingest can take, or the refusal in its place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from events.catalog import (
    EventRefused,
    Fact,
    RunCanceled,
    RunCompleted,
    RunFailed,
    RunPreempted,
    data_of,
    type_of,
)
from events.codec import LINE_BYTES_MAX
from events.envelope import encode, wire
from events.errors import Rejected
from events.key_text import run_token
from events.pipe import Said
from events.settlement import End

END_TEXT_MAX: Final = 20_000  # characters of each text of an end event
MESSAGE_MAX: Final = 4_000  # characters of a settlement's or a refusal's message
REFUSED: Final = type_of(EventRefused)


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

    @property
    def run_token(self) -> str:
        """What proves that the attempt is ours to speak for."""
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
            raise Rejected("NOT_AN_END", f"{type_of(type(fact))} does not end an attempt")


def refusal_of(row: Row, code: str, message: str, digest: str | None = None) -> Row:
    """Return the event that takes the place, and the sequence, of a line refused for good.

    Its id and time come from the refused line, so that saying it again is a duplicate. `digest` is that of a
    line which was numbered already, and counts in the root of its attempt.
    """
    fact = EventRefused(
        refused_type=row.type[:200], code=code[:200], message=cut(message, MESSAGE_MAX), digest=digest
    )
    refused_id = f"{row.id}.refused"
    line = wire(
        fact,
        event_id=refused_id,
        source=row.source,
        run_id=row.run_id,
        attempt=row.attempt,
        sequence=row.sequence,
        time=msgspec.json.decode(row.line)["time"],
        traceparent=row.traceparent,
    )
    return row._replace(id=refused_id, type=REFUSED, line=line)


def said(fact: Fact | Said) -> Said:
    """Return a fact by its public type, as the child would have said it."""
    return fact if isinstance(fact, Said) else Said(type=type_of(type(fact)), data=data_of(fact))


def with_line(row: Row, data: Mapping[str, Any], time: str) -> Row:
    """Return `row` with its line; what no line can carry is refused here, and the run goes on."""
    try:
        full = row._replace(line=_encode(row, data, time))
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        return refusal_of(row._replace(line=_encode(row, {}, time)), "unstorable", str(error))
    if len(full.line) <= LINE_BYTES_MAX:
        return full
    return refusal_of(full, "too_large", f"{len(full.line)} bytes, the limit is {LINE_BYTES_MAX}")


def _encode(row: Row, data: Mapping[str, Any], time: str) -> bytes:
    return encode(
        row.type,
        dict(data),
        event_id=row.id,
        source=row.source,
        run_id=row.run_id,
        attempt=row.attempt,
        sequence=row.sequence,
        time=time,
        traceparent=row.traceparent,
    )


def bounded(end: Said) -> Said:
    """Return an end event whose texts are cut: it says less rather than nothing."""
    return Said(
        type=end.type,
        data={
            name: cut(value, END_TEXT_MAX) if isinstance(value, str) else value
            for name, value in end.data.items()
        },
    )


def cut(text: str, characters_max: int) -> str:
    """Return the beginning of `text` as something that JSON can hold."""
    # A path or an exception's message may hold lone surrogates, which no JSON text can.
    return text[:characters_max].encode("utf-8", "replace").decode()
