"""The documents of an imported run: what an archive may say of each, and what is stored of that.

Law: a field that is not named here is refused, and so is whatever grants something: tokens, leases, secrets.
What means something in one fleet alone (groups, hypotheses, other runs, people) is kept as text that nothing
looks up. What would count as this fleet's own time or money is marked, and counted nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from bson import encode
from bson.errors import BSONError

from control_plane.files.archives.exporter import LEFT_OUT, MOVED, NOT_BROUGHT
from control_plane.model.ownership import IMPORTED, OWNERS, strangers
from control_plane.model.run import Entry
from control_plane.runs.submission import label_list, words_of
from control_plane.store.files.archives import LISTS
from control_plane.store.log.events import Arrival, entry_document
from control_plane.store.queue.runs import decode, decode_entry
from control_plane.store.verify.evidence import readable
from control_plane.store.verify.shapes import problem
from events.catalog import RunUsage, StatusChanged, type_of
from events.codec import LINE_BYTES_MAX
from events.files.archive import tape
from events.files.archive.manifest import Manifest
from events.kinds import RUN_KINDS, read_spec
from events.kinds.declaring.queues import RUNS
from events.lifecycle import FINAL, Status
from events.runtime.errors import Rejected

BAD: Final = "bad_document"
RUN_BYTES_MAX: Final = 2 * 1024 * 1024  # lists read many runs at once
EVENT_BYTES_MAX: Final = 2 * LINE_BYTES_MAX  # as it is stored; the wire has smaller ones
DOCUMENT_BYTES_MAX: Final = 15 * 1024 * 1024  # what MongoDB holds, with room for a mark
RECORDED: Final = frozenset(OWNERS[RUNS.collection]) - LEFT_OUT  # what a decision may set
USAGE: Final = type_of(RunUsage)

_Id = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
_Text = Annotated[str, msgspec.Meta(max_length=1_024)]
_Title = Annotated[str, msgspec.Meta(max_length=16_384)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Attempt = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Fields = dict[str, Any]


class _Failures(msgspec.Struct, forbid_unknown_fields=True):
    app: _Count
    infra: _Count
    preempted: _Count
    outside: _Count = 0


class _Run(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The run of an archive: every field that one has."""

    id: _Id = msgspec.field(name="_id")
    kind: _Text
    title: _Title | None
    status: _Text
    review: Literal["none", "human"]
    words: Annotated[list[_Text], msgspec.Meta(max_length=100)]
    labels: Annotated[dict[_Text, _Text], msgspec.Meta(max_length=1_000)] = msgspec.field(
        default_factory=dict
    )
    labelList: Annotated[list[_Title], msgspec.Meta(max_length=1_000)] = msgspec.field(default_factory=list)
    hypothesisId: _Text | None = None
    parentRunId: _Text | None = None
    groupId: _Text | msgspec.UnsetType | None = msgspec.UNSET
    slot: int | msgspec.UnsetType | None = msgspec.UNSET
    after: Annotated[list[_Text], msgspec.Meta(max_length=10_000)] | msgspec.UnsetType = msgspec.UNSET
    submittedBy: _Text | msgspec.UnsetType | None = msgspec.UNSET
    waitsForRuns: bool = False
    createdAt: datetime
    queuedAt: datetime
    notBefore: datetime | None
    finishedAt: datetime
    startedAt: datetime | None
    claimedAt: datetime | None
    claimedBy: _Text | None
    lastHeartbeat: datetime | None
    startAt: datetime | None = None
    queueDeadline: datetime | None = None
    queueLimitS: _Count | None = None
    classKey: _Text
    priority: int
    maxAttempts: _Count
    requires: _Fields | None = None
    revision: _Count
    attempt: _Attempt
    lastEventSeq: _Count
    failures: _Failures
    faults: Annotated[list[_Fields], msgspec.Meta(max_length=10_000)] = msgspec.field(default_factory=list)
    error: _Fields | None
    settled: _Fields | None
    cancelRequested: _Fields | None
    humanVerdict: _Fields | None = None
    sealed: _Fields | None = None
    paused: bool = False
    notes: Annotated[list[_Fields], msgspec.Meta(max_length=10_000)] = msgspec.field(default_factory=list)
    node: _Fields | None = None
    preempt: _Fields | None = None
    currentStage: _Fields | None
    validation: _Fields | None
    summary: _Fields | None = None
    summaryAttempt: _Attempt | None = None
    logOpen: Literal[False]
    logIncomplete: _Fields | None
    lostEvents: Annotated[list[_Fields], msgspec.Meta(max_length=10_000)] = msgspec.field(
        default_factory=list
    )
    taken: dict[Literal["checkpoints", "files", "runs"], _Fields] = msgspec.field(default_factory=dict)


class _Spec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    id: _Id = msgspec.field(name="_id")
    kind: _Text
    spec: _Fields
    requires: _Fields
    hypothesisId: _Text | None
    fromStage: _Text | None
    traceparent: _Text | None = None
    putAt: datetime
    barrier: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """By whom and when a run was imported."""

    by: str
    at: datetime


def require_run(run: Mapping[str, Any]) -> None:
    """Check the run of an archive. Raises `Rejected`, which names the member."""
    try:
        read = msgspec.convert(run, _Run)
        Status(read.status)
    except (msgspec.ValidationError, ValueError) as error:
        raise Rejected(BAD, f"{tape.RUN}: {error}") from error
    if Status(read.status) not in FINAL:
        raise Rejected("run_not_over", f"{tape.RUN}: the run is {read.status}: it has not ended")
    if read.kind not in RUN_KINDS:
        raise Rejected("unknown_kind", f"{tape.RUN}: this fleet has no kind {read.kind!r}")
    if read.labelList != label_list(read.labels) or read.words != words_of(read.title or ""):
        raise Rejected(BAD, f"{tape.RUN}: it would be found by labels or words that are not its own")
    _require_small(tape.RUN, run, RUN_BYTES_MAX)
    try:
        decode(stored_run(run))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Rejected(BAD, f"{tape.RUN}: a field of it has another type: {error!r}"[:300]) from error


def stored_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run of an archive as this fleet holds it, but for its origin."""
    kept = {name: value for name, value in run.items() if name not in MOVED}
    return {**kept, "hypothesisId": None, "parentRunId": None, "lease": None, "journal": []}


def with_origin(
    run: Mapping[str, Any], manifest: Manifest, origin: Origin, not_brought: frozenset[str]
) -> dict[str, Any]:
    """Return the run as it is stored, with its origin and what of its files the archive does not have."""
    marks = {
        what: {"at": origin.at, "by": NOT_BROUGHT, "removedAt": origin.at}
        for what in not_brought - {*run.get("taken", {})}
    }
    taken = {**run.get("taken", {}), **marks}
    source = {
        "fleet": manifest.fleet,
        "podfleet": manifest.podfleet,
        "by": origin.by,
        "at": origin.at,
        "references": {name: run[name] for name in MOVED if name in run},
    }
    return {**stored_run(run), "importedFrom": source, **({"taken": taken} if taken else {})}


def require_spec(spec: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Check the specification of an archive. Raises `Rejected`."""
    try:
        read = msgspec.convert(spec, _Spec)
    except msgspec.ValidationError as error:
        raise Rejected(BAD, f"run_specs: {error}") from error
    if (read.id, read.kind) != (run["_id"], run["kind"]):
        raise Rejected(BAD, f"run_specs: it is the specification of {read.id} ({read.kind})")
    _require_small("run_specs", spec, DOCUMENT_BYTES_MAX)
    read_spec(read.kind, read.spec)


def require_beside(listed: str, document: Mapping[str, Any], run: Mapping[str, Any]) -> int:
    """Check a document beside the run; return its size in bytes. Raises `Rejected`."""
    if listed not in LISTS:
        raise Rejected("unknown_list", f"no run has documents {listed!r}")
    if (wrong := problem(listed, document)) is not None:
        raise Rejected(BAD, f"{listed} {document.get('_id')!r}: {wrong}"[:300])
    if document["runId"] != run["_id"] or not document["_id"].startswith(f"{run['_id']}/"):
        raise Rejected(BAD, f"{listed} {document['_id']!r} belongs to another run"[:300])
    if (names := strangers(listed, document)) or IMPORTED in document:
        raise Rejected(BAD, f"{listed} {document['_id']}: no archive has {', '.join(names) or IMPORTED}")
    return _require_small(listed, document, DOCUMENT_BYTES_MAX)


def require_decision(document: Mapping[str, Any], run: Mapping[str, Any]) -> int:
    """Check a decision of the log; return its size in bytes. Raises `Rejected`."""
    is_one = "revision" in document and document.get("type") == type_of(StatusChanged)
    wrong = problem("events", document) if is_one else "it is no decision"
    if wrong is not None:
        raise Rejected(BAD, f"decision {document.get('_id')!r}: {wrong}"[:300])
    entry: Entry = decode_entry(document["data"])
    if beyond := sorted({*entry.sets} - RECORDED):
        raise Rejected(BAD, f"decision {entry.n} sets {', '.join(beyond)}, which no decision of a log does")
    arrival = Arrival(document["position"], document["receivedAt"])
    if entry_document(run["_id"], entry, arrival) != document:
        raise Rejected(BAD, f"decision {entry.n} is not as a log of run {run['_id']} holds it")
    return _require_small(f"decision {entry.n}", document, DOCUMENT_BYTES_MAX)


def require_event(event: Mapping[str, Any], run: Mapping[str, Any]) -> int:
    """Check an event that is no decision; return its size in bytes. Raises `Rejected`."""
    name = f"event {event['ceId'][:80]!r}"
    if event["attempt"] > run["attempt"]:
        raise Rejected(BAD, f"{name} is of attempt {event['attempt']}, the run has {run['attempt']}")
    if event["type"] == type_of(StatusChanged):
        raise Rejected(BAD, f"{name} says that it is a decision")
    if readable(event) is None or ("sequence" in event and problem("events", event) is not None):
        raise Rejected(BAD, f"{name} has data that no event of its type has")
    return _require_small(name, event, EVENT_BYTES_MAX)


def stored(listed: str, document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the collection of a document of an archive, and the document as it is stored."""
    if listed == tape.DECISIONS:
        return "events", document
    return listed, {**document, IMPORTED: True} if listed == "attempts" else document


def stored_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event that is no decision as it is stored."""
    return {**event, IMPORTED: True} if event["type"] == USAGE else event


def _require_small(what: str, document: Mapping[str, Any], most: int) -> int:
    try:
        size = len(encode(document))
    except (BSONError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise Rejected("unstorable", f"{what}: MongoDB cannot hold it: {error}"[:300]) from error
    if size > most:
        raise Rejected("too_large", f"{what} has more than {most:,} bytes")
    return size
