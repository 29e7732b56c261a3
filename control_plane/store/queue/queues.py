"""Queries on the position of a run in its queue, each a bounded scan of the claim index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from control_plane.model.explanation import QueuePosition
from control_plane.store.database import Database, Document, answers
from control_plane.store.schema import CLAIM_INDEX
from events.kinds import KINDS
from events.kinds.declaring.queues import RUNS
from events.lifecycle import Status

AHEAD_MAX: Final = 10_000


async def ahead_of(db: Database, run: Mapping[str, Any]) -> QueuePosition:
    """Return what will be claimed before a queued run, counted up to `AHEAD_MAX`."""
    queue = KINDS[run["kind"]].queue.collection if run["kind"] in KINDS else RUNS.collection
    of_class: Document = {"status": Status.QUEUED.value, "classKey": run["classKey"]}
    of_rank = {**of_class, "priority": run["priority"]}
    async with answers():

        async def count(query: Document, most: int) -> int:
            return await db[queue].count_documents(query, limit=most, hint=CLAIM_INDEX) if most > 0 else 0

        higher = await count({**of_class, "priority": {"$gt": run["priority"]}}, AHEAD_MAX)
        earlier = await count({**of_rank, "queuedAt": {"$lt": run["queuedAt"]}}, AHEAD_MAX - higher)
        same = {**of_rank, "queuedAt": run["queuedAt"], "_id": {"$lt": run["_id"]}}
        beside = await count(same, AHEAD_MAX - higher - earlier)
    return QueuePosition(higher + earlier + beside, higher, AHEAD_MAX)
