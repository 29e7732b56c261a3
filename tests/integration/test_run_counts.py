"""Counts of runs on a real MongoDB: exact where there are few, bounded where there are many."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from control_plane.store import database as store
from control_plane.store.queue import run_counts
from control_plane.store.queue.run_counts import Tallies, Tally
from events.lifecycle import FINAL, Status


async def look(url: str, times: int = 1) -> Tally:
    client = store.connect(url)
    counting = Tallies(store.database(client, url))
    for _ in range(times):
        tally = await counting.look()
    await client.close()
    return tally


async def test_a_short_queue_is_counted_whole(filled: tuple[str, Any]) -> None:
    url, db = filled
    tally = await look(url)
    assert dict(tally.statuses) == {
        **dict.fromkeys(Status, 0),
        **Counter(run["status"] for run in db.runs.find()),
    }
    queued = list(db.runs.find({"status": "QUEUED"}))
    assert {each.class_key: each.depth for each in tally.waiting} == Counter(
        run["classKey"] for run in queued
    )
    oldest = {each.class_key: each.oldest.replace(tzinfo=None) for each in tally.waiting}
    assert all(oldest[run["classKey"]] <= run["queuedAt"] for run in queued)
    assert not any(each.is_partial for each in tally.waiting)


async def test_the_classes_of_a_long_queue_share_what_is_counted(
    filled: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, db = filled
    depths = Counter(run["classKey"] for run in db.runs.find({"status": "QUEUED"}))
    share = sorted(depths.values())[-1] - 1  # all but the deepest fit
    monkeypatch.setattr(run_counts, "COUNT_MAX", depths.total())
    monkeypatch.setattr(run_counts, "SHARED_MAX", share * len(depths))
    tally = await look(url, times=2)
    found = {each.class_key: each.depth for each in tally.waiting}
    assert found == {name: min(depth, share) for name, depth in depths.items()}
    assert {each.class_key for each in tally.waiting if each.is_partial} == {
        name for name, depth in depths.items() if depth >= share
    }
    counts = Counter(run["status"] for run in db.runs.find())
    assert max(counts[status] for status in FINAL) > depths.total()
    assert dict(tally.statuses) == {status: min(counts[status], depths.total()) for status in Status}


async def test_a_status_that_a_revised_verdict_leaves_is_counted_again(
    filled: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, db = filled
    count = db.runs.count_documents({"status": "HUMAN_VALIDATED"})
    assert count > 0
    monkeypatch.setattr(run_counts, "COUNT_MAX", count)
    client = store.connect(url)
    counting = Tallies(store.database(client, url))
    assert (await counting.look()).statuses[Status.HUMAN_VALIDATED] == count
    run = db.runs.find_one_and_update({"status": "HUMAN_VALIDATED"}, {"$set": {"status": "HUMAN_REJECTED"}})
    assert (await counting.look()).statuses[Status.HUMAN_VALIDATED] == count - 1
    db.runs.update_one({"_id": run["_id"]}, {"$set": {"status": "HUMAN_VALIDATED"}})
    await client.close()
