"""Queries on `byte_counts`: how many bytes each account has left in the log and in the storage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.write_concern import WriteConcern

from control_plane.store.database import Database, answers
from control_plane.store.log.events import DUPLICATE_KEY
from events.runtime.errors import Transient

# A count that a failover takes back costs some bytes of a budget, and no upload has to wait for a majority.
UNSURE: Final = WriteConcern(w=1, j=False)


@dataclass(frozen=True, slots=True)
class ByteCounts:
    """What the accounts of attempts and keys have left; a count only grows, but where a file did not fit."""

    db: Database

    @answers()
    async def event_bytes(self, accounts: Collection[str]) -> Mapping[str, int]:
        """Return how many bytes of events are stored of these accounts, of those that have any."""
        query = {"_id": {"$in": list(accounts)}, "events": {"$gt": 0}}
        cursor = self.db.byte_counts.find(query, {"events": 1})
        return {each["_id"]: each["events"] async for each in cursor}

    @answers()
    async def add_event_bytes(self, added: Mapping[str, int]) -> None:
        """Add to the counts of event bytes."""
        updates = [
            UpdateOne({"_id": account}, {"$inc": {"events": size}}, upsert=True)
            for account, size in added.items()
        ]
        await self.db.byte_counts.bulk_write(updates, ordered=False)

    @answers()
    async def new_puts(self, puts: Sequence[tuple[str, int]], expires_at: datetime) -> list[int]:
        """Note PUTs (key and size) that are signed; return the indexes of those that never were before."""
        noted = [{"_id": f"{key}:{size}", "expiresAt": expires_at} for key, size in puts]
        puts_signed = self.db.signed_puts.with_options(write_concern=UNSURE)
        try:
            await puts_signed.insert_many(noted, ordered=False)
        except BulkWriteError as error:
            failed = (error.details or {}).get("writeErrors", ())
            if any(each["code"] != DUPLICATE_KEY for each in failed):
                raise Transient("not_durable", "signed_puts: the write was not confirmed") from error
            known = {each["index"] for each in failed}
            return [index for index in range(len(puts)) if index not in known]
        return list(range(len(puts)))

    @answers()
    async def forget_puts(self, puts: Sequence[tuple[str, int]]) -> None:
        """Subtract the counts of PUTs that were not signed."""
        await self.db.signed_puts.delete_many({"_id": {"$in": [f"{key}:{size}" for key, size in puts]}})

    @answers()
    async def add_files(self, account: str, added: Mapping[str, int], most: Mapping[str, int]) -> bool:
        """Add to `artifacts` (bytes) and `files`, if neither is more than its `most` then; say whether."""
        counts = self.db.byte_counts.with_options(write_concern=UNSURE)
        room = {name: {"$not": {"$gt": most[name] - size}} for name, size in added.items()}
        fits = all(size <= most[name] for name, size in added.items())
        try:
            await counts.update_one({"_id": account, **room}, {"$inc": dict(added)}, upsert=fits)
        except DuplicateKeyError:  # it is there, and does not fit the question
            return False
        return fits
