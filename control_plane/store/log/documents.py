"""Queries on the documents beside a run: attempts, stages, artifacts, validations, dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pymongo import InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from control_plane.model.projection import RESULTS, AttemptView, Write, attempt_id
from control_plane.model.run import CurrentStage, Entry
from control_plane.store.database import Database, Document, answers
from control_plane.store.log.dead_letter_quota import LETTERS_MAX, DeadLetterQuota
from control_plane.store.log.events import DUPLICATE_KEY
from control_plane.store.queue.runs import BATCH_MAX
from events.lifecycle import Cause, Status
from events.runtime.errors import Transient
from events.text.attempt_id import AttemptId

WATCH: Final = timedelta(minutes=10)
_EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """An attempt's own cursor and view."""

    seq: int
    view: AttemptView


@dataclass(frozen=True, slots=True)
class Documents:
    """Guarded writes: a document is changed only by a newer position."""

    db: Database
    dead_letter_quota: DeadLetterQuota = field(default_factory=DeadLetterQuota)

    @answers()
    async def attempt(self, name: AttemptId) -> AttemptRecord:
        """Return the attempt's document; empty for an attempt without events."""
        return (await self.attempt_records([name]))[0]

    @answers()
    async def attempt_records(self, attempts: Sequence[AttemptId]) -> list[AttemptRecord]:
        """Return the records of several attempts, in one look."""
        query = {"_id": {"$in": [attempt_id(*each) for each in attempts]}}
        found = {document["_id"]: document for document in await self.db.attempts.find(query).to_list()}
        return [_record(*each, found.get(attempt_id(*each), {})) for each in attempts]

    @answers()
    async def watched(self, after: str) -> list[AttemptId]:
        """Return a page of attempts that were left with an open log, in id order after `after`."""
        query = {"watchedUntil": {"$type": "date"}, "_id": {"$gt": after}}
        cursor = self.db.attempts.find(query, {"runId": 1, "attempt": 1}).sort("_id").limit(BATCH_MAX)
        return [AttemptId(document["runId"], document["attempt"]) async for document in cursor]

    @answers()
    async def watch(self, attempts: Sequence[AttemptId]) -> None:
        """Look for events of these attempts for a while, by the store's clock."""
        ids = [attempt_id(*each) for each in attempts]
        until = {"$dateAdd": {"startDate": "$$NOW", "unit": "second", "amount": int(WATCH.total_seconds())}}
        await self.db.attempts.update_many({"_id": {"$in": ids}}, [{"$set": {"watchedUntil": until}}])

    @answers()
    async def forget_watched(self) -> None:
        """Stop to look for events of attempts that were left long ago, by the store's clock."""
        query = {"watchedUntil": {"$type": "date"}, "$expr": {"$lt": ["$watchedUntil", "$$NOW"]}}
        await self.db.attempts.update_many(query, {"$set": {"watchedUntil": None}})

    async def write(self, writes: Sequence[Write]) -> None:
        """Write secondary documents; a document that is further than `seq` already stays."""
        by_collection: dict[str, list[UpdateOne]] = {}
        rows = [write for write in writes if write.collection == RESULTS]
        for write in [*await self._new_rows(rows), *(each for each in writes if each.collection != RESULTS)]:
            update = _guarded(write.id, "seq", write.seq, write.fields)
            by_collection.setdefault(write.collection, []).append(update)
        for collection, updates in by_collection.items():
            await self._bulk(collection, updates)

    @answers()
    async def _new_rows(self, rows: Sequence[Write]) -> Sequence[Write]:
        """Insert rows of results; return those that are there already.

        Nearly all rows are new, and an insert of many takes a third of the time of as many upserts.
        """
        if not rows:
            return ()
        documents = [{"_id": row.id, **row.fields, "seq": row.seq} for row in rows]
        try:
            await self.db[RESULTS].insert_many(documents, ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            failed = details.get("writeErrors", ())
            if details.get("writeConcernErrors") or any(each["code"] != DUPLICATE_KEY for each in failed):
                raise Transient("not_durable", f"{RESULTS}: the write was not confirmed") from error
            return [rows[each["index"]] for each in failed]
        return ()

    async def advance_attempts(self, cursors: Sequence[tuple[AttemptView, int]]) -> None:
        """Move each attempt's own cursor and view to a position, never back."""
        updates = [
            _guarded(attempt_id(view.run_id, view.attempt), "lastEventSeq", seq, view_fields(view))
            for view, seq in cursors
        ]
        await self._bulk("attempts", updates)

    async def chronicle(self, entries: Sequence[tuple[str, Entry]]) -> None:
        """Write what decisions change in attempts: who claimed it, how it ended."""
        latest: dict[str, tuple[int, Document]] = {}
        for run_id, entry in entries:
            attempt, fields = attempt_fields(run_id, entry)
            if fields:
                # One update an attempt: of two in one command, the server may let the later one win first.
                identity = attempt_id(run_id, attempt)
                _, earlier = latest.get(identity, (0, {}))
                latest[identity] = (entry.n, {**earlier, **fields})
        updates = [_guarded(identity, "revision", n, fields) for identity, (n, fields) in latest.items()]
        if updates:
            await self._bulk("attempts", updates)
        await self.write([write for each in entries for write in human_validations(*each)])

    async def refuse(self, letters: Sequence[Document]) -> None:
        """Keep refused lines with their reason, as many as there is room for; one that is there stays."""
        kept = letters[: await self._room(len(letters))] if letters else ()
        if kept:
            await self._bulk("dead_letters", [InsertOne(letter) for letter in kept])

    async def _room(self, wanted: int) -> int:
        room = self.dead_letter_quota
        if room.is_to_be_counted(wanted):
            query = {"at": {"$gt": _EVER}}
            async with answers():
                count = await self.db.dead_letters.count_documents(query, limit=LETTERS_MAX, hint="by_time")
            room.found(count)
        return room.take(wanted)

    @answers()
    async def _bulk(self, collection: str, operations: Sequence[UpdateOne | InsertOne[Document]]) -> None:
        try:
            await self.db[collection].bulk_write(list(operations), ordered=False)
        except BulkWriteError as error:
            details = error.details or {}
            other = [each for each in details["writeErrors"] if each["code"] != DUPLICATE_KEY]
            # A guarded upsert that finds a newer document collides with it: nothing to do.
            if details.get("writeConcernErrors") or other:
                raise Transient("not_durable", f"{collection}: the write was not confirmed") from error


def _record(run_id: str, attempt: int, document: Mapping[str, Any]) -> AttemptRecord:
    stage = document.get("currentStage")
    view = AttemptView(
        run_id=run_id,
        attempt=attempt,
        current_stage=stage and CurrentStage(stage["name"], stage["progress"], stage["activity"]),
        started_at=document.get("startedAt"),
        validation=document.get("validation"),
        error=document.get("error"),
        end_seq=document.get("endSeq"),
        summary=document.get("summary"),
        marks=document.get("marks"),
    )
    return AttemptRecord(document.get("lastEventSeq", 0), view)


def view_fields(view: AttemptView) -> dict[str, Any]:
    """Return the fields of an attempt's document that follow from its log."""
    return {
        "runId": view.run_id,
        "attempt": view.attempt,
        "currentStage": stage_document(view.current_stage),
        "startedAt": view.started_at,
        "validation": view.validation,
        "error": view.error,
        "endSeq": view.end_seq,
        "summary": view.summary,
        "marks": None if view.marks is None else dict(view.marks),
    }


def attempt_fields(run_id: str, entry: Entry) -> tuple[int, Mapping[str, Any]]:
    """Return the attempt of a journal entry and its fields; None for other entries."""
    if entry.cause == "claim":
        attempt = entry.sets.get("attempt", entry.attempt + 1)  # by hand anything may be gone from the log
        named = {"runId": run_id, "attempt": attempt}
        return attempt, {**named, "pod": entry.sets.get("claimedBy"), "claimedAt": entry.at}
    if entry.cause.startswith("end: ") or entry.cause == "rescue":
        error = entry.sets.get("error") or {}
        outcome = "lost" if entry.cause == "rescue" else entry.cause.removeprefix("end: ")
        return entry.attempt, {
            "runId": run_id,
            "attempt": entry.attempt,
            "outcome": outcome,
            "code": error.get("code"),
            "message": error.get("message"),
            "fault": error.get("fault"),
            "endedAt": entry.at,
            "watchedUntil": _watched_until(entry),
        }
    return entry.attempt, {}


def _watched_until(entry: Entry) -> datetime | None:
    """Return until when somebody looks for stored events of an attempt that nobody waits for any more."""
    is_left = entry.cause == "rescue" or entry.to in (Status.QUEUED, Status.DELAYED)
    return entry.at + WATCH if is_left else None


def human_validations(run_id: str, entry: Entry) -> list[Write]:
    """Return the validation of a journal entry; None for other entries."""
    verdict = entry.sets.get("humanVerdict")
    if entry.cause not in (Cause.REVIEW, Cause.REVISE) or verdict is None:
        return []
    # The first under its own name; each that revises it beside it.
    name = "human" if entry.cause == Cause.REVIEW else f"human/{entry.n:06d}"
    fields = {
        "runId": run_id,
        "attempt": entry.attempt,
        "by": "human",
        "verdict": verdict["verdict"],
        "summary": verdict["notes"],
        "reviewer": verdict["reviewer"],
        "scores": {},
        "at": entry.at,
    }
    return [Write("validations", f"{attempt_id(run_id, entry.attempt)}/{name}", entry.n, fields)]


def stage_document(stage: CurrentStage | None) -> Document | None:
    """Return a current stage as it is stored."""
    return None if stage is None else asdict(stage)


def _guarded(identity: str, guard: str, value: int, fields: Mapping[str, Any]) -> UpdateOne:
    # `$not $gte` also matches a document that lacks the guard.
    return UpdateOne(
        {"_id": identity, guard: {"$not": {"$gte": value}}},
        {"$set": {**fields, guard: value}},
        upsert=True,
    )
