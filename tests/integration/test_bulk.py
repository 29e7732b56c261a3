"""A bulk on a real MongoDB: bounded parts that follow each other, and nobody who came too late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from control_plane.config import read_settings
from control_plane.reads.reading import RunFilters
from control_plane.server.deps import wire
from control_plane.store import database as store
from control_plane.store import schema
from events.runtime.clock import SystemClock, SystemIds

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_bulk_takes_a_bounded_part_and_says_where_the_next_begins(database_url: str) -> None:
    client = store.connect(database_url)
    names = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
    values = {"MONGODB_URL": database_url, **dict.fromkeys(names, "127.0.0.1:1")}
    db = store.database(client, database_url)
    deps = wire(read_settings(values, host="127.0.0.1", port=8700), db, SystemClock(), SystemIds())
    await schema.migrate(db)
    await db.runs.insert_many(
        {"_id": f"{number:05}", "kind": "probe" if number % 7 else "experiment", "createdAt": LONG_AGO}
        for number in range(6_000)
    )
    later = LONG_AGO + timedelta(seconds=1)
    first = await deps.bulk.matching(RunFilters(), later)
    assert (len(first.runs), first.runs[0]["_id"], first.runs[-1]["_id"]) == (1000, "05999", "05000")
    second = await deps.bulk.matching(RunFilters(), later, first.next)
    assert (len(second.runs), second.runs[0]["_id"]) == (1000, "04999")
    assert (await deps.bulk.matching(RunFilters(), LONG_AGO - timedelta(seconds=1))).runs == []
    found: list[str] = []
    after: str | None = None
    while True:
        part = await deps.bulk.matching(RunFilters(kind="experiment"), later, after, limit=300)
        assert len(part.runs) <= 300
        found += [run["_id"] for run in part.runs]
        after = part.next
        if after is None:
            break
    assert found == [f"{number:05}" for number in range(5_999, -1, -1) if number % 7 == 0]
    await client.close()
