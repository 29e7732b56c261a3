"""Collections and indexes: created by one idempotent migration, verified at every start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.errors import OperationFailure

from control_plane.store import state
from control_plane.store.database import Database, answers
from events.catalog import RunUsage, type_of
from events.kinds import DOCUMENTS, NOUNS
from events.kinds.declaring.queues import REQUESTS, RUNS
from events.kinds.kind import Index
from events.kinds.results import SORT_NAMES
from events.lifecycle import Status
from events.runtime.errors import ConfigError
from events.runtime.guarantees import TOKEN_CONDITION, TOKEN_INDEX, TOKEN_KEY

CLAIM_INDEX: Final = "claim"
SUCCEEDED_INDEX: Final = "succeeded_of_kind"
SUCCEEDED: Final = (Status.COMPLETED.value, Status.HUMAN_VALIDATED.value)
BUILD_S: Final = 600.0
MEND: Final = "run `podfleet migrate` once, with a user that may create indexes"
_OTHER_FORM: Final = "an index of this name or these keys has another form: drop it and migrate again"
# What people can do about a refusal, by the server's code for it.
ADVICE: Final[Mapping[int | None, str]] = {
    13: "migrate with a user that may create indexes",
    50: f"it took longer than {BUILD_S:.0f} s: what is built stays, migrate again",
    85: _OTHER_FORM,
    86: _OTHER_FORM,
    11000: "documents contradict each other: `podfleet verify` names them",
}

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
    _index(TOKEN_INDEX, *TOKEN_KEY, unique=True, **_partial(**TOKEN_CONDITION)),
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

_OF_EVERY_KIND: Final[Mapping[str, Sequence[IndexModel]]] = {
    RUNS.collection: (
        *_CLAIMABLE,
        _index("by_kind", ("kind", _UP), ("_id", _DOWN)),
        _index("by_pod", ("claimedBy", _UP), ("_id", _DOWN)),
        _index("by_submitter", ("submittedBy", _UP), ("_id", _DOWN),
               **_partial(submittedBy={"$exists": True})),
        _index(SUCCEEDED_INDEX, ("kind", _UP), ("_id", _DOWN), **_partial(status={"$in": [*SUCCEEDED]})),
        _index("by_label", ("labelList", _UP), ("_id", _DOWN)),
        # of the few runs that name secrets
        _index("by_secret", ("secrets", _UP), ("status", _UP), ("_id", _DOWN), sparse=True),
        # of a group: its runs in the order of the ids, and where each slot stands from the keys alone
        _index("by_group", ("groupId", _UP), ("_id", _DOWN), ("slot", _UP), ("status", _UP),
               **_partial(groupId={"$exists": True})),
        # a slot has one run, and each of its runs at most one retry
        _index("by_slot", ("groupId", _UP), ("slot", _UP), ("parentRunId", _UP), unique=True,
               **_partial(groupId={"$exists": True})),
        # the few runs that name others for which they wait, or waited, and those that still do
        _index("by_predecessor", ("after", _UP), **_partial(after={"$exists": True})),
        _index("waiting", ("_id", _UP), ("waitsForRuns", _UP),
               **_partial(waitsForRuns=True, status=Status.DELAYED.value)),
        # the runs that are retries, by their parents
        _index("by_parent", ("parentRunId", _UP), **_partial(parentRunId={"$type": "string"})),
        _index("by_word", ("words", _UP), ("_id", _DOWN)),
        # not partial: a partial filter by type makes a range over moments walk the whole index
        _index("by_finish", ("finishedAt", _DOWN), ("status", _UP)),
        _index("idempotency", ("idempotency.key", _UP), unique=True,
               **_partial(**{"idempotency.key": {"$type": "string"}})),
    ),
    REQUESTS.collection: _CLAIMABLE,
    "run_specs": (_index("unchecked", ("putAt", _UP), **_partial(unchecked=True)),),
    "events": (
        _index("by_sequence", ("runId", _UP), ("attempt", _UP), ("sequence", _UP), unique=True,
               **_partial(sequence={"$exists": True})),
        _index("by_revision", ("runId", _UP), ("revision", _UP), unique=True,
               **_partial(revision={"$exists": True})),
        _index("by_arrival", ("runId", _UP), ("position", _UP)),
        _index("by_type", ("runId", _UP), ("type", _UP), ("position", _UP)),
        # money and GPU time of a day, from the keys alone
        _index("by_usage", ("type", _UP), ("receivedAt", _UP), ("data.gpu_s", _UP), ("data.cost_usd", _UP),
               **_partial(type=type_of(RunUsage))),
        # the part of it that other fleets have spent
        _index("imported_usage", ("imported", _UP), ("receivedAt", _UP), ("data.gpu_s", _UP),
               ("data.cost_usd", _UP), **_partial(imported=True)),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
        _index("orphans", ("orphan", _UP), ("runId", _UP), **_partial(orphan=True)),
    ),
    "early_lines": (_index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),),
    "attempts": (
        _index("by_run", ("runId", _UP), ("attempt", _UP)),
        _index("by_pod", ("pod", _UP), ("_id", _DOWN)),
        _index("by_end", ("endedAt", _DOWN)),
        _index("watched", ("_id", _UP), ("watchedUntil", _UP), **_partial(watchedUntil={"$type": "date"})),
    ),
    "stages": (_index("by_run", ("runId", _UP), ("attempt", _UP), ("order", _UP)),),
    "artifacts": (_index("by_attempt", ("runId", _UP), ("attempt", _DOWN), ("name", _UP)),),
    "results": (
        _index("by_key", ("runId", _UP), ("attempt", _UP), ("set", _UP), ("key", _UP)),
        # what a column is called, its kind says: one index a place serves the sets of all kinds
        *(
            _index(f"by_{name}", ("runId", _UP), ("attempt", _UP), ("set", _UP), (name, _UP), ("key", _UP),
                   **_partial(**{name: {"$exists": True}}))
            for name in SORT_NAMES
        ),
    ),
    "validations": (_index("by_run", ("runId", _UP), ("_id", _UP)),),
    "lanes": (_index("by_run", ("runId", _UP), ("attempt", _UP)),),
    "retention": (),
    "retention_sweeps": (),
    "imports": (_index("by_time", ("at", _UP)),),
    "tombstones": (
        _index("due", ("dueAt", _UP), **_partial(dueAt={"$type": "date"})),
        _index("by_slot", ("groupId", _UP), ("slot", _UP), ("status", _UP),
               **_partial(groupId={"$type": "string"})),
        _index("idempotency", ("idempotency.key", _UP),
               **_partial(**{"idempotency.key": {"$type": "string"}})),
    ),
    "dead_letters": (
        _index("by_run", ("runId", _UP), ("_id", _DOWN)),
        _index("by_time", ("at", _DOWN), ("code", _UP)),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
    ),
    "schedules": (
        _index("due", ("nextAt", _UP), **_partial(nextAt={"$type": "date"})),
        _index("by_time", ("createdAt", _DOWN), ("_id", _DOWN)),
        _index("failed", ("updatedAt", _UP), **_partial(error={"$type": "object"})),
    ),
    "groups": (
        _index("by_status", ("status", _UP), ("_id", _UP)),
        _index("by_time", ("createdAt", _DOWN), ("_id", _DOWN)),
        _index("by_change", ("updatedAt", _UP), ("status", _UP)),
    ),
    "webhooks": (),
    "deliveries": (
        _index("by_webhook", ("webhookId", _UP), ("createdAt", _DOWN), ("_id", _DOWN)),
        _index("due", ("webhookId", _UP), ("dueAt", _UP), **_partial(state="pending")),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
    ),
    "notification_cursors": (),
    "usage_levels": (
        _index("by_change", ("updatedAt", _UP)),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
    ),
    "boards": (),
    "models": (),
    "model_syncs": (),
    "trees": (
        _index("by_use", ("usedAt", _UP)),
        # of the trees that are files of runs
        _index("by_run", ("run", _UP), **_partial(run={"$exists": True})),
    ),
    "object_removals": (),
    "data_sets": (_index("by_name", ("name", _UP), ("version", _DOWN)),),
    "pods": (
        _index("by_report", ("reportedAt", _DOWN)),
        _index("by_start", ("startedAt", _DOWN), ("_id", _DOWN)),
        _index("failing", ("reportedAt", _DOWN), **_partial(**{"checks.ok": False})),
    ),
    "pod_lives": (
        _index("by_report", ("reportedAt", _DOWN)),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
    ),
    "api_keys": (_index("by_time", ("createdAt", _DOWN), ("_id", _DOWN)),),
    "audit": (
        _index("by_actor", ("by", _UP), ("_id", _DOWN)),
        _index("by_key", ("keyId", _UP), ("_id", _DOWN)),
        _index("by_object", ("object", _UP), ("_id", _DOWN)),
    ),
    "secrets": (),
    "cordons": (_index("expiry", ("until", _UP), expireAfterSeconds=0),),
    "quarantines": (),
    "projects": (),
    "project_usage": (),
    "shares": (),
    "byte_counts": (),
    "lease_watches": (),
    "signed_puts": (_index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),),
    "inspections": (),
    "sessions": (
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
        _index("by_key", ("keyHash", _UP), ("createdAt", _DOWN)),
    ),
    "store_state": (),
    "live_texts": (
        _index("by_topic", ("topics", _UP), ("_id", _UP)),
        _index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),
    ),
    "pod_telemetry": (_index("expiry", ("expiresAt", _UP), expireAfterSeconds=0),),
}  # fmt: skip


def _of_kinds() -> Iterator[tuple[str, Sequence[IndexModel]]]:
    by_run = Index("by_run", (("runId", 1), ("attempt", 1)))
    collections = {
        **{each.name: (by_run, *each.indexes) for each in DOCUMENTS},
        **{each.collection: each.indexes for each in NOUNS},
    }
    for name, indexes in collections.items():
        if name in _OF_EVERY_KIND:
            raise ConfigError([f"a kind of run brings the collection {name!r}, which belongs to all"])
        yield name, tuple(_of_kind(index) for index in indexes)


def _of_kind(index: Index) -> IndexModel:
    return _index(index.name, *index.keys, **({"unique": True} if index.unique else {}))


INDEXES: Final[Mapping[str, Sequence[IndexModel]]] = {**_OF_EVERY_KIND, **dict(_of_kinds())}


@dataclass(frozen=True, slots=True)
class Step:
    """What brings the documents of a store to a version, from the one before; it may be done twice.

    Programs of `works_beside` and later may work on the store from its beginning on.
    """

    version: int
    works_beside: int
    run: Callable[[Database], Awaitable[None]]


# Ascending, without a gap behind the first version, which has none; the last one is `state.VERSION`.
STEPS: Final[tuple[Step, ...]] = ()


@answers()
async def migrate(db: Database, steps: Sequence[Step] = STEPS) -> None:
    """Create missing collections and indexes, and bring the documents to the version of this program.

    Idempotent, and goes on where it was cut off. Raises `ConfigError` for what people must mend, and for a
    store that is newer than this program.
    """
    at = await state.version(db)
    problems = [problem for name in INDEXES for problem in await _create(db, name)]
    if problems:
        raise ConfigError(problems)
    for noun in NOUNS:
        for path, value in noun.added.items():
            parent = path.rpartition(".")[0]
            old = {parent: {"$type": "object"}, path: {"$exists": False}}
            await db[noun.collection].update_many(old, {"$set": {path: value}})
    for step in steps:
        if step.version > at:
            # before its first write: a program that would misread the result must not start beside it
            await state.record(db, at, step.works_beside)
            await step.run(db)
            await state.record(db, step.version, step.works_beside)
            at = step.version
    await state.record(db, state.VERSION, state.WORKS_BESIDE)


@answers()
async def build(db: Database, name: str, *, within: str) -> None:
    """Create the indexes of the collection `name` on another one, which shall take its name.

    Raises `ConfigError`.
    """
    if problems := await _create(db, name, within):
        raise ConfigError(problems)


async def _create(db: Database, name: str, within: str | None = None) -> list[str]:
    if not INDEXES.get(name):
        return []
    try:
        await db[within or name].create_indexes(
            list(INDEXES[name]), commitQuorum="majority", maxTimeMS=int(BUILD_S * 1000)
        )
    except OperationFailure as error:
        if error.code not in ADVICE:
            raise
        return [f"collection {name}: {(error.details or {}).get('errmsg', error)}; {ADVICE[error.code]}"]
    return []


@answers()
async def verify(db: Database) -> None:
    """Refuse to run without an index: the unique ones are the correctness, the others the speed.

    Raises `ConfigError`, also for a store that is newer than this program, or half restored.
    """
    await state.require(db)
    problems = [problem for name in INDEXES for problem in await _lacks(db, name)]
    if problems:
        raise ConfigError([*problems, MEND])


async def _lacks(db: Database, name: str) -> list[str]:
    if not INDEXES[name]:
        return []
    present = await db[name].index_information()
    problems = []
    for model in INDEXES[name]:
        wanted = model.document
        found = present.get(wanted["name"])
        if found is None:
            kind = "unique index" if wanted.get("unique") else "index"
            problems.append(f"collection {name} lacks the {kind} {wanted['name']!r}")
        elif _form(found) != _form(wanted):
            problems.append(f"collection {name}: the index {wanted['name']!r} has another form: drop it")
    return problems


def _form(index: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the properties of an index that decide its effect."""
    key = index["key"]
    pairs = key.items() if isinstance(key, Mapping) else key
    options = ("unique", "sparse", "partialFilterExpression", "expireAfterSeconds")
    return (tuple(tuple(pair) for pair in pairs), *(index.get(name) or None for name in options))
