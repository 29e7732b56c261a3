"""Writes of a rebuild: each is a compare-and-set on the document that was read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from bson.errors import BSONError
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES
from events.runtime.errors import ConfigError, Rejected

# What moves with a run's decisions and events; it is leased and heard of all the time.
STANDING: Final = (
    "revision", "attempt", "status", "lastEventSeq", "currentStage", "startedAt", "validation",
    "summary", "summaryAttempt",
)  # fmt: skip
UNAUTHORIZED: Final = 13
ERROR_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Repairs:
    """Writes documents again; a write returns False if the document has changed since it was read.

    Raises `Rejected` for a value that the store refuses, as a manually written document may contain.
    """

    db: Database

    async def insert(self, collection: str, document: Mapping[str, Any]) -> bool:
        """Store a missing document; it replaces one that claims to belong to another run."""
        async with _taken():
            try:
                await self.db[collection].insert_one(dict(document))
            except DuplicateKeyError:
                return await self._replace_foreign(collection, document)
            return True

    async def _replace_foreign(self, collection: str, document: Mapping[str, Any]) -> bool:
        was = await self.db[collection].find_one({"_id": document["_id"]})
        if was is None or was.get("runId") == document["runId"]:
            return False
        return (await self.db[collection].replace_one(_as_read(was), document)).matched_count == 1

    async def change(
        self, collection: str, was: Mapping[str, Any], sets: Mapping[str, Any], drops: Sequence[str]
    ) -> bool:
        """Set and drop fields of a document, or of a run."""
        # Expressions, so that a name or a value of any form is taken as it is.
        pipeline: list[Document] = [
            {"$replaceWith": {"$unsetField": {"field": {"$literal": name}, "input": "$$ROOT"}}}
            for name in drops
        ]
        if sets:
            pipeline.append({"$set": {name: {"$literal": value} for name, value in sets.items()}})
        condition = _as_it_stood(was) if collection in QUEUES else _as_read(was)
        async with _taken():
            return (await self.db[collection].update_one(condition, pipeline)).matched_count == 1

    async def remove(self, collection: str, was: Mapping[str, Any]) -> bool:
        """Remove a document."""
        async with _taken():
            return (await self.db[collection].delete_one(_as_read(was))).deleted_count == 1


def _as_read(was: Mapping[str, Any]) -> Document:
    """Return the condition that no field of a document has changed since it was read."""
    return {"_id": was["_id"], "$expr": {"$eq": ["$$ROOT", {"$literal": was}]}}


def _as_it_stood(run: Mapping[str, Any]) -> Document:
    """Return the condition that no `STANDING` field of a run has changed since it was read."""
    same = [{"$eq": [{"$ifNull": [f"${name}", None]}, {"$literal": run.get(name)}]} for name in STANDING]
    return {"_id": run["_id"], "$expr": {"$and": same}}


@asynccontextmanager
async def _taken() -> AsyncIterator[None]:
    try:
        async with answers():
            yield
    except (PyMongoError, BSONError) as error:
        if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
            raise ConfigError([f"the user of MONGODB_URL may not write: {error}"]) from error
        raise Rejected("unwritable", f"MongoDB does not accept it: {error}"[:ERROR_CHARS_MAX]) from error
