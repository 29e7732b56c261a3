"""Lines of an event log in an archive: CloudEvents as they were taken in, with what the log noted; pure.

Beside the attributes of the envelope a line has `hash` (the digest under which it was taken in), `position`
(the order of arrival) and `receivedat`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from events.envelope import SEQUENCE_DIGITS, SPEC_VERSION, SUBJECT_PREFIX, hash_of, storage_id
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId

CHARS_MAX: Final = 1_024
BAD: Final = "bad_event"
BY_ITSELF: Final = "//podfleet/control-plane"  # the source of what a control plane adds to a log

_Text = Annotated[str, msgspec.Meta(max_length=CHARS_MAX)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Digits = Annotated[str, msgspec.Meta(pattern=rf"\A[0-9]{{{SEQUENCE_DIGITS}}}\Z")]


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    specversion: Annotated[str, msgspec.Meta(pattern=r"\A1\.0\Z")]
    id: _Text
    source: _Text
    type: _Text
    subject: _Text
    time: _Text | None = None
    datacontenttype: Annotated[str, msgspec.Meta(pattern=r"\Aapplication/json\Z")]
    attempt: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    sequence: _Digits | None = None
    traceparent: _Text | None = None
    hash: _Digest
    position: _Text
    receivedat: Annotated[datetime, msgspec.Meta(tz=True)]
    data: dict[str, Any]


_DECODER: Final = msgspec.json.Decoder(_Line)


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return a stored event that is no decision as one line without its end. Raises `Rejected`."""
    try:
        sequence = document.get("sequence")
        line = _Line(
            specversion=SPEC_VERSION,
            id=document["ceId"],
            source=document["source"],
            type=document["type"],
            subject=f"{SUBJECT_PREFIX}{document['runId']}",
            time=document.get("time"),
            datacontenttype="application/json",
            attempt=document["attempt"],
            sequence=None if sequence is None else f"{sequence:0{SEQUENCE_DIGITS}d}",
            traceparent=document.get("traceparent"),
            hash=document["hash"],
            position=document["position"],
            receivedat=document["receivedAt"],
            data=document["data"],
        )
        written = msgspec.json.encode(line)
        is_same = decoded(written, document["runId"]) == {**document, "receivedAt": line.receivedat}
    except (KeyError, TypeError, ValueError, Rejected) as error:
        raise Rejected("not_archivable", f"event {document.get('_id')} is not as it was taken in") from error
    if not is_same:
        raise Rejected("not_archivable", f"event {document['_id']} has fields that no event has")
    return written


def decoded(line: bytes, run_id: str) -> dict[str, Any]:
    """Return the event of a line as the log of a run keeps it. Raises `Rejected` (`bad_event`)."""
    try:
        read = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(BAD, f"a line is no event: {error}") from error
    if read.subject != f"{SUBJECT_PREFIX}{run_id}":
        raise Rejected(BAD, f"event {read.id[:80]!r} belongs to another run")
    sequence = None if read.sequence is None else int(read.sequence)
    if hash_of(read.type, AttemptId(run_id, read.attempt), sequence, read.time, read.data) != read.hash:
        raise Rejected("event_changed", f"event {_place(read)} is not what was taken in")
    is_own = read.source == BY_ITSELF and sequence is None
    document: dict[str, Any] = {
        "_id": f"{run_id}/{read.id}" if is_own else storage_id(run_id, read.source, read.id),
        "position": read.position,
        "runId": run_id,
        "attempt": read.attempt,
        "ceId": read.id,
        "source": read.source,
        "type": read.type,
        "time": read.time,
        "data": read.data,
        "hash": read.hash,
        "receivedAt": read.receivedat.astimezone(UTC),
    }
    if sequence is not None:
        document["sequence"] = sequence
    if read.traceparent is not None:
        document["traceparent"] = read.traceparent
    return document


def _place(read: _Line) -> str:
    return read.id[:80] if read.sequence is None else f"{int(read.sequence)} of attempt {read.attempt}"
