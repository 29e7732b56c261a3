"""Reads what a campaign left behind: MongoDB, S3, the journals and the outboxes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minio import Minio
from pymongo import MongoClient, ReadPreference
from pymongo.database import Database
from pymongo.read_concern import ReadConcern

from control_plane.model.run import Entry
from control_plane.store import database
from control_plane.store.queue.runs import decode_entry
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Finding, Objects, Verifier
from events.codec import moment
from testing.chaos.checking.evidence import Evidence, OutboxLeft, StoredEvent, StoredObject
from testing.chaos.records import journal, ledger

Document = dict[str, Any]

PIECE_BYTES = 1 << 20


def gather(
    url: str,
    journals: Iterable[Path],
    outboxes: Iterable[tuple[Path, bool]],
    bucket: Bucket | None = None,
    audited: Objects | None = None,
) -> Evidence:
    """Return everything that the checker reads; an outbox comes with whether its disk was lost.

    `bucket` is the object storage as the checker reads it, `audited` the same as the product does.
    """
    with MongoClient[Document](url, tz_aware=True) as client:
        db = client.get_default_database(
            read_concern=ReadConcern("majority"), read_preference=ReadPreference.PRIMARY
        )
        artifacts = list(db.artifacts.find())
        runs = {run["_id"]: run for name in ("runs", "ideation_requests") for run in db[name].find()}
        return Evidence(
            runs=runs,
            attempts={attempt["_id"]: attempt for attempt in db.attempts.find()},
            decisions=_decisions(db, runs),
            events=_events(db),
            dead_letters=list(db.dead_letters.find()),
            artifacts=artifacts,
            objects=None if bucket is None else bucket.objects({each["key"] for each in artifacts}),
            lines=sorted(
                (line for path in journals for line in journal.read(path)), key=lambda line: line.at_s
            ),
            outboxes=[_outbox(path, is_lost) for path, is_lost in outboxes if path.exists()],
            groups={group["_id"]: group for group in db.groups.find()},
            specs={each["_id"]: each["spec"] for each in db.run_specs.find({}, {"spec": 1})},
            rows=list(db.results.find({}, {"_id": 0, "runId": 1, "attempt": 1, "key": 1})),
            labels={pod["_id"]: pod.get("labels") or {} for pod in db.pods.find({}, {"labels": 1})},
            findings=asyncio.run(_audit(url, audited)),
        )


class Bucket:
    """The objects of one bucket."""

    def __init__(self, client: Minio, name: str) -> None:
        self._client = client
        self._name = name

    def objects(self, registered: set[str]) -> Mapping[str, StoredObject]:
        """Return every object; those that were registered are read whole."""
        found: dict[str, StoredObject] = {}
        for each in self._client.list_objects(self._name, recursive=True):
            key = str(each.object_name)
            found[key] = StoredObject(each.size or 0, self._sha256(key) if key in registered else None)
        return found

    def _sha256(self, key: str) -> str:
        digest = hashlib.sha256()
        answer = self._client.get_object(self._name, key)
        try:
            for piece in answer.stream(PIECE_BYTES):
                digest.update(piece)
        finally:
            answer.close()
            answer.release_conn()
        return digest.hexdigest()


def _decisions(db: Database[Document], runs: Mapping[str, Document]) -> Mapping[str, Sequence[Entry]]:
    found: dict[str, dict[int, Entry]] = {
        run_id: {entry["n"]: decode_entry(entry) for entry in run["journal"]} for run_id, run in runs.items()
    }
    for document in db.events.find({"revision": {"$exists": True}}, {"runId": 1, "data": 1}):
        entry = decode_entry(document["data"])
        found.setdefault(document["runId"], {})[entry.n] = entry
    return {run_id: [entries[n] for n in sorted(entries)] for run_id, entries in found.items()}


def _events(db: Database[Document]) -> list[StoredEvent]:
    fields = dict.fromkeys(("runId", "attempt", "sequence", "ceId", "type", "time", "receivedAt"), 1)
    return [
        StoredEvent(
            each["runId"],
            each["attempt"],
            each["sequence"],
            each["ceId"],
            each["type"],
            moment(each["time"]),
            each["receivedAt"],
        )
        for each in db.events.find({"sequence": {"$exists": True}}, fields)
    ]


def _outbox(path: Path, is_lost: bool) -> OutboxLeft:
    return OutboxLeft(
        name="/".join(path.parts[-3:-1]),
        is_lost=is_lost,
        given=list(ledger.given(path)),
        waiting=list(ledger.waiting(path)),
    )


async def _audit(url: str, objects: Objects | None) -> list[Finding]:
    """Return what `podfleet verify --rebuild` finds; what a lost disk took is a note and no finding."""
    client = database.connect(url)
    try:
        auditor = Verifier(VerifyReads(database.database(client, url)), objects)
        return [found async for found in auditor.audit(rebuilds=True) if not found.is_note]
    finally:
        await client.close()
