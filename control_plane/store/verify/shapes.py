"""The types of stored documents that the verifier needs; a document that does not fit is reported.

Fields that the verifier does not use are not checked. `problem` returns the problem of a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Final

import msgspec

from control_plane.model.projection import LANES
from events.kinds import DOCUMENTS
from events.kinds.declaring.queues import QUEUES

# The document of a fleet nest a few levels; beyond this depth a comparison costs more than it tells.
DEPTH_MAX: Final = 100
SHOWN_CHARS_MAX: Final = 200
VALUE_CHARS_MAX: Final = 100

Counted = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class _Stored(msgspec.Struct, kw_only=True):
    id: str = msgspec.field(name="_id")


class _OfAttempt(_Stored, kw_only=True):
    runId: str
    attempt: Counted


class _Settled(msgspec.Struct):
    last: Counted
    root: str | None = None


class _Seal(msgspec.Struct):
    attempt: Counted
    last: Counted
    whole: bool
    root: str | None = None  # a verdict from before there were roots


class _Verdict(msgspec.Struct):
    verdict: str
    notes: str | None
    reviewer: str | None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None
    fault: str | None = None


class _Sets(msgspec.Struct, kw_only=True):
    attempt: Counted | msgspec.UnsetType = msgspec.UNSET
    claimedBy: str | msgspec.UnsetType | None = msgspec.UNSET
    lastEventSeq: Counted | msgspec.UnsetType = msgspec.UNSET
    settled: _Settled | msgspec.UnsetType | None = msgspec.UNSET
    error: _Error | msgspec.UnsetType | None = msgspec.UNSET
    humanVerdict: _Verdict | msgspec.UnsetType | None = msgspec.UNSET
    sealed: _Seal | msgspec.UnsetType | None = msgspec.UNSET


class _Entry(msgspec.Struct, kw_only=True):
    n: Positive
    cause: str
    by: str
    at: datetime
    came_from: str | None = msgspec.field(name="from")
    to: str
    attempt: Counted
    seq: Counted
    sets: _Sets = msgspec.field(name="set")


class _Lease(msgspec.Struct):
    until: datetime | None


class _Mark(msgspec.Struct, kw_only=True):
    begin: Counted = msgspec.field(name="from")
    to: Counted


class _Lost(_Mark, kw_only=True):
    attempt: Counted


class _Run(_Stored, kw_only=True):
    status: str
    revision: Counted
    attempt: Counted
    lastEventSeq: Counted
    lease: _Lease | None
    settled: _Settled | None
    sealed: _Seal | None = None
    failures: dict[str, Counted]
    journal: list[_Entry]
    logOpen: bool
    logIncomplete: _Mark | None
    lostEvents: list[_Lost] = []
    createdAt: datetime


class _Attempt(_OfAttempt, kw_only=True):
    pod: str | None = None
    lastEventSeq: Counted | None = None
    revision: Counted | None = None


class _Named(_OfAttempt, kw_only=True):
    name: str


class _Artifact(_Named, kw_only=True):
    key: str
    size: Counted
    sha256: str


class _Row(_OfAttempt, kw_only=True):
    key: str
    seq: Counted


class _Event(_OfAttempt, kw_only=True):
    sequence: Positive
    ceId: str
    source: str
    type: str
    time: str | None
    data: dict[str, Any]
    hash: str
    receivedAt: datetime


class _Decision(_OfAttempt, kw_only=True):
    revision: Positive
    data: _Entry
    hash: str
    receivedAt: datetime


class _Letter(_Stored, kw_only=True):
    at: datetime
    code: str
    runId: str | None = None
    attempt: int | None = None
    sequence: int | None = None
    line: str = ""
    principal: str = ""


SHAPES: Final[Mapping[str, type[_Stored]]] = {
    **dict.fromkeys(QUEUES, _Run),
    "attempts": _Attempt,
    "stages": _Named,
    "artifacts": _Artifact,
    "validations": _OfAttempt,
    LANES: _OfAttempt,
    "results": _Row,
    **dict.fromkeys((each.name for each in DOCUMENTS), _OfAttempt),
    "dead_letters": _Letter,
}


def problem(collection: str, document: Mapping[str, Any]) -> str | None:
    """Return the problem of a stored document's types; None if there is none."""
    shape = SHAPES.get(collection) or (_Decision if "revision" in document else _Event)
    try:
        msgspec.convert(document, shape)
        if _is_deep(document):
            return "it is nested too deep"
        return _odd_value(document["data"]) if shape is _Event else None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        return str(error)[:SHOWN_CHARS_MAX]


def name(document: Mapping[str, Any]) -> str:
    """Return a document's id as text, whatever its type is."""
    identity = document.get("_id")
    return (identity if isinstance(identity, str) else repr(identity))[:SHOWN_CHARS_MAX]


def _odd_value(data: Mapping[str, Any]) -> str | None:
    """Return a value in an event's data that JSON cannot represent, so that nobody sent it; else None."""
    left: list[Any] = [data]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            left += each.values()
        elif isinstance(each, list):
            left += each
        elif not isinstance(each, str | int | None) and not (isinstance(each, float) and isfinite(each)):
            return f"data hold {repr(each)[:VALUE_CHARS_MAX]}, which no JSON can say"
    return None


def _is_deep(document: Mapping[str, Any]) -> bool:
    level: list[Any] = [document]
    for _ in range(DEPTH_MAX):
        level = [
            below
            for each in level
            for below in (each.values() if isinstance(each, Mapping) else each)
            if isinstance(below, Mapping | list)
        ]
        if not level:
            return False
    return True
