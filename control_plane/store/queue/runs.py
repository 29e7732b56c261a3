"""Queries on the claimable collections: `runs` and `ideation_requests`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, PyMongoError

from control_plane.model.run import (
    AttemptToken,
    CurrentStage,
    Entry,
    HeldLease,
    Lease,
    Run,
    Seal,
    Settled,
    Summary,
)
from control_plane.store.database import Database, Document, answers
from events.kinds.declaring.queues import QUEUES
from events.lifecycle import Failures, Status
from events.queue import journal
from events.queue.claims import past_faults
from events.queue.lease_times import LEASE_TTL_S
from events.runtime.errors import Transient
from events.text.attempt_id import AttemptId

BATCH_MAX: Final = 200
LOST_MAX: Final = 50  # stretches that a run names, the newest
OVER_MAX: Final = 1_000  # leases that are watched at once; the others wait for their turn


@dataclass(frozen=True, slots=True)
class Found:
    """A run, and the collection it lives in."""

    collection: str
    run: Run


@dataclass(frozen=True, slots=True)
class Advance:
    """An application to commit; journal entries up to `flushed` are in the log by now and leave the run."""

    found: Found
    view: Mapping[str, Any]
    flushed: int
    decision: journal.Decision | None


@dataclass(frozen=True, slots=True)
class Runs:
    """Reads and compare-and-sets of runs."""

    db: Database

    @answers()
    async def find(self, run_id: str) -> Found | None:
        """Return the run of this id, wherever it is queued."""
        for collection in QUEUES:
            document = await self.db[collection].find_one({"_id": run_id})
            if document is not None:
                return Found(collection, decode(document))
        return None

    @answers()
    async def token_of_deleted(self, attempt_id: AttemptId) -> AttemptToken | None:
        """Return the token of an attempt whose run was deleted; None where its tombstone has none."""
        found = await self.db.tombstones.find_one({"_id": attempt_id.run_id}, {"tokens": 1})
        return next(
            (
                AttemptToken(each["attempt"], each["hash"], each["keyId"], each["endsAt"])
                for each in (found or {}).get("tokens") or ()
                if each["attempt"] == attempt_id.attempt
            ),
            None,
        )

    @answers()
    async def find_all(self, run_ids: Collection[str]) -> Mapping[str, Found]:
        """Return the runs of these ids, as many as there are, in one look at each queue that may have one."""
        found: dict[str, Found] = {}
        for name in QUEUES:
            missing = sorted(run_id for run_id in run_ids if run_id not in found)
            if missing:
                documents = await self.db[name].find({"_id": {"$in": missing}}).to_list()
                found |= {document["_id"]: Found(name, decode(document)) for document in documents}
        return found

    @answers()
    async def decide(self, found: Found, decision: journal.Decision, **guard: Any) -> Found | None:
        """Make `decision` if the run is unchanged since it was read; else return None."""
        document = await self.db[found.collection].find_one_and_update(
            {"_id": found.run.id, "revision": found.run.revision, **guard},
            journal.update(decision),
            return_document=ReturnDocument.AFTER,
        )
        return None if document is None else Found(found.collection, decode(document))

    @answers()
    async def advance(self, advances: Sequence[Advance]) -> bool:
        """Commit applications, of a run each: cursor, view, and the end that it brings.

        False if any of the runs moved since it was read; which, nobody knows until they are read again.
        """
        updates: dict[str, list[UpdateOne]] = {}
        for each in advances:
            updates.setdefault(each.found.collection, []).append(_advancing(each))
        matched = 0
        for collection, changes in updates.items():
            try:
                result = await self.db[collection].bulk_write(changes, ordered=False)
            except BulkWriteError as error:
                if (error.details or {}).get("writeConcernErrors"):
                    raise Transient("not_durable", f"{collection}: the write was not confirmed") from error
                if len(advances) == 1:
                    raise
                return False  # each alone meets its own error
            matched += result.matched_count
        return matched == len(advances)

    @answers()
    async def unload(self, found: Found, flushed: int) -> None:
        """Drop journal entries that are in the log."""
        await self.db[found.collection].update_one(
            {"_id": found.run.id}, {"$pull": {"journal": {"n": {"$lte": flushed}}}}
        )

    @answers()
    async def beat(self, run_id: str, attempt: int, at: datetime) -> None:
        """Store the time of the last event of the run's owner."""
        for collection in QUEUES:
            result = await self.db[collection].update_one(
                {"_id": run_id, "attempt": {"$lte": attempt}},
                {"$max": {"lastHeartbeat": at}},
            )
            if result.matched_count:
                return

    @answers()
    async def leases_over(self, collection: str) -> Sequence[HeldLease]:
        """Return the leases that are over by the store's clock, those that ended first."""
        wanted = {
            "attempt": 1,
            "renewals": "$lease.renewals",
            "ttlS": {"$ifNull": ["$lease.ttlS", LEASE_TTL_S]},
        }
        over = {"lease.until": {"$type": "date"}, "$expr": {"$lt": ["$lease.until", "$$NOW"]}}
        found = await self.db[collection].aggregate(
            [{"$match": over}, {"$sort": {"lease.until": 1}}, {"$limit": OVER_MAX}, {"$project": wanted}]
        )
        return [
            HeldLease(each["_id"], each["attempt"], each["renewals"], each["ttlS"]) async for each in found
        ]

    async def rescue(self, found: Found, decision: journal.Decision) -> Found | None:
        """Make `decision` if the very lease that was read is still there and over by the store's clock."""
        assert found.run.lease is not None
        return await self.decide(
            found,
            decision,
            **{
                "lease.until": found.run.lease.until,
                "$expr": {"$lt": ["$lease.until", "$$NOW"]},
            },
        )

    async def due(self, collection: str) -> Sequence[Run]:
        """Return delayed runs whose time has come by the store's clock."""
        query = {
            "status": Status.DELAYED.value,
            "waitsForRuns": {"$ne": True},
            "notBefore": {"$type": "date"},
            "$expr": {"$lte": ["$notBefore", "$$NOW"]},
        }
        return await self._read(collection, query, "notBefore")

    async def overdue(self, collection: str) -> Sequence[Run]:
        """Return waiting runs whose longest queue time is over by the store's clock."""
        query = {
            "status": {"$in": [Status.QUEUED.value, Status.DELAYED.value]},
            "queueDeadline": {"$type": "date"},
            "$expr": {"$lt": ["$queueDeadline", "$$NOW"]},
        }
        return await self._read(collection, query, "queueDeadline")

    async def with_journal(self, collection: str) -> Sequence[Run]:
        """Return runs that still carry decisions which are not in the log."""
        # In no order: the order of the ids would be found by looking at every run there is.
        return await self._read(collection, {"journal.n": {"$gte": 0}}, None)

    async def with_open_log(self, collection: str, after: str) -> Sequence[Run]:
        """Return a page of runs whose log is not complete yet, in id order after `after`."""
        return await self._read(collection, {"logOpen": True, "_id": {"$gt": after}}, "_id")

    async def stale_logs(self, collection: str, run_ids: Sequence[str], grace_s: float) -> Sequence[Run]:
        """Return those of these runs whose log stayed short for `grace_s` after their settle."""
        return await self._read(collection, {"_id": {"$in": list(run_ids)}, **_stale(grace_s)}, None)

    @answers()
    async def close_stale_logs(self, collection: str, run_ids: Sequence[str], grace_s: float) -> int:
        """Give up those of these logs that are stale still; return how many.

        The mark names what is missing, refuses nothing, and goes when the rest arrives.
        """
        missing = {"from": {"$add": ["$lastEventSeq", 1]}, "to": "$settled.last"}
        result = await self.db[collection].update_many(
            {"_id": {"$in": list(run_ids)}, **_stale(grace_s)},
            [{"$set": {"logOpen": False, "logIncomplete": missing}}],
        )
        return result.modified_count

    @answers()
    async def mark_lost(self, collection: str, attempt_id: AttemptId, mark: Mapping[str, Any]) -> None:
        """Let the run say which events of an attempt are lost; once, however often it is repeated."""
        same = {"attempt": attempt_id.attempt, "from": mark["from"], "to": mark["to"]}
        await self.db[collection].update_one(
            {"_id": attempt_id.run_id, "lostEvents": {"$not": {"$elemMatch": same}}},
            {"$push": {"lostEvents": {"$each": [dict(mark)], "$slice": -LOST_MAX}}},
        )

    async def _read(self, collection: str, query: Mapping[str, Any], order: str | None) -> Sequence[Run]:
        try:
            cursor = self.db[collection].find(query).limit(BATCH_MAX)
            if order is not None:
                cursor.sort(order)
            return [decode(document) async for document in cursor]
        except PyMongoError as error:
            raise Transient("mongodb_unreachable", str(error)) from error


def _stale(grace_s: float) -> Document:
    """Return the filter of settled runs whose log stayed short for so long."""
    limit = {"$dateSubtract": {"startDate": "$$NOW", "unit": "second", "amount": int(grace_s)}}
    is_long_ago, is_short = {"$lt": ["$settled.at", limit]}, {"$lt": ["$lastEventSeq", "$settled.last"]}
    return {
        "logOpen": True,
        "settled.last": {"$type": "number"},
        "$expr": {"$and": [is_long_ago, is_short]},
    }


def _advancing(advance: Advance) -> UpdateOne:
    run = advance.found.run
    kept = {"$filter": {"input": "$journal", "cond": {"$gt": ["$$this.n", advance.flushed]}}}
    values = {name: journal.expression(value) for name, value in advance.view.items()}
    pipeline: list[Document] = [{"$set": {"journal": kept}}] if run.journal else []
    if advance.decision is not None:
        pipeline += journal.update(advance.decision)
    # The decision's entry records the cursor as it was, so the view moves after it.
    pipeline.append({"$set": values})
    return UpdateOne({"_id": run.id, "revision": run.revision, "lastEventSeq": run.last_event_seq}, pipeline)


def decode(document: Mapping[str, Any]) -> Run:
    """Return a stored run in types."""
    lease, settled, stage = (
        document["lease"],
        document["settled"],
        document["currentStage"],
    )
    return Run(
        id=document["_id"],
        kind=document["kind"],
        status=Status(document["status"]),
        revision=document["revision"],
        attempt=document["attempt"],
        last_event_seq=document["lastEventSeq"],
        failures=Failures(**document["failures"]),
        max_attempts=document["maxAttempts"],
        review=document["review"] == "human",
        class_key=document["classKey"],
        claimed_by=document["claimedBy"],
        lease=lease and _lease(lease),
        settled=settled and Settled(settled["outcome"], settled["last"], settled.get("root")),
        log_open=bool(document["logOpen"]),
        log_incomplete=document["logIncomplete"] is not None,
        current_stage=stage and CurrentStage(stage["name"], stage["progress"], stage["activity"]),
        started_at=document["startedAt"],
        validation=document["validation"],
        journal=tuple(decode_entry(entry) for entry in document["journal"]),
        hypothesis_id=document["hypothesisId"],
        # Runs from before there were pauses, notes and tokens lack them.
        paused=bool(document.get("paused")),
        notes_count=len(document.get("notes") or ()),
        faults=past_faults(document.get("faults")),
        tokens=tuple(
            AttemptToken(each["attempt"], each["hash"], each["keyId"], each["endsAt"], each.get("last"))
            for each in document.get("tokens") or ()
        ),
        sealed=_seal(document.get("sealed")),
        priority=document["priority"],
        queued_at=document["queuedAt"],
        not_before=document["notBefore"],
        queue_limit_s=document.get("queueLimitS"),
        queue_deadline=document.get("queueDeadline"),
        labels=document.get("labels") or {},
        requires=document.get("requires"),
        secrets=tuple(document.get("secrets") or ()),
        user_id=document.get("userId"),
        group_id=document.get("groupId"),
        slot=document.get("slot"),
        summary=_summary(document),
        start_at=document.get("startAt"),
        after=tuple(document.get("after") or ()),
        waits_for_runs=bool(document.get("waitsForRuns")),
        node=document.get("node"),
        preempt=document.get("preempt"),
        is_imported=document.get("importedFrom") is not None,
    )


def _summary(document: Mapping[str, Any]) -> Summary | None:
    if document.get("summary") is None:
        return None
    return Summary(document["summaryAttempt"], document["summary"])


def _lease(stored: Document) -> Lease:
    return Lease(
        token_hash=stored["tokenHash"],
        until=stored["until"],
        renewals=stored["renewals"],
        heard=stored.get("heard"),
        ttl_s=stored.get("ttlS", LEASE_TTL_S),
    )


def _seal(document: Mapping[str, Any] | None) -> Seal | None:
    return (
        None
        if document is None
        else Seal(document["attempt"], document["last"], document["whole"], document.get("root"))
    )


def decode_entry(entry: Mapping[str, Any]) -> Entry:
    """Return a stored journal entry in types."""
    return Entry(
        n=entry["n"],
        cause=entry["cause"],
        by=entry["by"],
        at=entry["at"],
        came_from=entry["from"],
        to=entry["to"],
        attempt=entry["attempt"],
        seq=entry["seq"],
        sets=entry["set"],
    )
