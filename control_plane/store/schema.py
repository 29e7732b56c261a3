"""Collections and indexes: created by one idempotent migration, verified at every start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import OperationFailure

from control_plane.store.database import Database, answers
from events.errors import ConfigError
from events.lifecycle import Status

QUEUES: Final = ("runs", "ideation_requests")
CLAIM_INDEX: Final = "claim"

_UP, _DOWN = ASCENDING, DESCENDING


def _index(name: str, *keys: tuple[str, int], **options: Any) -> IndexModel:
    return IndexModel(list(keys), name=name, **options)


def _partial(**conditions: Any) -> dict[str, Any]:
    return {"partialFilterExpression": conditions}


_CLAIMABLE: Final = (
    _index(
        CLAIM_INDEX, ("status", _UP), ("classKey", _UP), ("priority", _DOWN), ("queuedAt", _UP), ("_id", _UP),
        **_partial(status=Status.QUEUED.value),
    ),
    _index("token", ("lease.tokenHash", _UP), unique=True,
           **_partial(**{"lease.tokenHash": {"$type": "string"}})),
    _index("lease", ("lease.until", _UP), **_partial(**{"lease.until": {"$type": "date"}})),
    _index("due", ("notBefore", _UP), **_partial(status=Status.DELAYED.value)),
    _index("overdue", ("queueDeadline", _UP),
           **_partial(status={"$in": [Status.QUEUED.value, Status.DELAYED.value]},
                      queueDeadline={"$type": "date"})),
    _index("open_logs", ("logOpen", _UP), ("_id", _UP), **_partial(logOpen=True)),
    _index("journal", ("journal.n", _UP), sparse=True),
    _index("by_status", ("status", _UP), ("_id", _DOWN)),
    _index("by_hypothesis", ("hypothesisId", _UP), ("_id", _DOWN)),
)  # fmt: skip

INDEXES: Final[Mapping[str, Sequence[IndexModel]]] = {
    "runs": (
        *_CLAIMABLE,
        _index("by_kind", ("kind", _UP), ("_id", _DOWN)),
        _index("by_pod", ("claimedBy", _UP), ("_id", _DOWN)),
        _index("by_label", ("labelList", _UP), ("_id", _DOWN)),
        _index("by_word", ("words", _UP), ("_id", _DOWN)),
        _index("idempotency", ("idempotency.key", _UP), unique=True,
               **_partial(**{"idempotency.key": {"$type": "string"}})),
    ),
    "ideation_requests": _CLAIMABLE,
    "run_specs": (_index("unchecked", ("putAt", _UP), **_partial(unchecked=True)),),
    "events": (
        _index("by_sequence", ("runId", _UP), ("attempt", _UP), ("sequence", _UP), unique=True,
               **_partial(sequence={"$exists": True})),
        _index("by_revision", ("runId", _UP), ("revision", _UP), unique=True,
               **_partial(revision={"$exists": True})),
        _index("by_arrival", ("runId", _UP), ("position", _UP)),
        _index("by_type", ("runId", _UP), ("type", _UP), ("position", _UP)),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
        _index("orphans", ("orphan", _UP), ("runId", _UP), **_partial(orphan=True)),
    ),
    "attempts": (_index("by_run", ("runId", _UP), ("attempt", _UP)),),
    "stages": (_index("by_run", ("runId", _UP), ("attempt", _UP), ("order", _UP)),),
    "artifacts": (_index("by_run", ("runId", _UP), ("attempt", _UP), ("name", _UP)),),
    "validations": (_index("by_run", ("runId", _UP), ("_id", _UP)),),
    "dead_letters": (_index("by_run", ("runId", _UP), ("_id", _DOWN)),),
    "hypotheses": (_index("by_time", ("createdAt", _DOWN)),),
    "schedules": (
        _index("due", ("nextAt", _UP), **_partial(nextAt={"$type": "date"})),
        _index("by_time", ("createdAt", _DOWN), ("_id", _DOWN)),
    ),
    "pods": (
        _index("by_report", ("reportedAt", _DOWN)),
        _index("by_start", ("startedAt", _DOWN), ("_id", _DOWN)),
    ),
}  # fmt: skip


@answers()
async def migrate(db: Database) -> None:
    """Create what is missing. Raises `ConfigError` where an index exists in another form."""
    for name, models in INDEXES.items():
        if not models:
            continue
        try:
            await db[name].create_indexes(list(models), commitQuorum="majority")
        except OperationFailure as error:
            raise ConfigError([f"index of collection {name}: {error.details}"]) from error


@answers()
async def verify(db: Database) -> None:
    """Refuse to run without an index: the unique ones are the correctness, the others the speed."""
    problems = []
    for name, models in INDEXES.items():
        present = set(await db[name].index_information())
        missing = [model.document["name"] for model in models if model.document["name"] not in present]
        problems += [f"collection {name} lacks the index {index!r}" for index in missing]
    if problems:
        raise ConfigError(
            [
                *problems,
                "run `podfleet migrate` once with a user that may create indexes",
            ]
        )
