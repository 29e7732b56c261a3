"""What each attempt of a benchmark is told at its start: its model, and what earlier ones did and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from control_plane.store.catalogue.models import ModelEntries
from control_plane.store.database import Database, Document, answers
from control_plane.store.reads import RunReads
from events.catalog import ResultRecorded, type_of
from events.kinds.benchmark import ITEMS, ItemsAsked

ROWS_MAX: Final = 2_000
ROWS_BYTES_MAX: Final = 200_000  # of what all of it may have
ASKED_MAX: Final = 500
INDEX: Final = "by_type"
_OF_MODEL: Final = ("endpoint", "served", "inputUsdPerMtok", "outputUsdPerMtok")


async def told(reads: RunReads, run_id: str) -> Mapping[str, Any]:
    """Return what a run has done lately; checkpoints have what was before."""
    usage = await reads.usage([run_id])
    return {
        "model": await _model(reads, run_id),
        "rows": await _rows(reads.db, run_id),
        "asked": await _asked(reads.db, run_id),
        "tokens": sum(each["promptTokens"] + each["completionTokens"] for each in usage),
        "cost_usd": sum(each["costUsd"] for each in usage),
    }


async def _model(reads: RunReads, run_id: str) -> Mapping[str, Any] | None:
    """Return what the catalogue says of the model that a run names; None where it has none of that name."""
    stored = await reads.spec(run_id)
    name = None if stored is None else stored["spec"].get("model")
    entry = await ModelEntries(reads.db).find(name) if isinstance(name, str) else None
    return None if entry is None else {field: entry.get(field) for field in _OF_MODEL}


async def _rows(db: Database, run_id: str) -> list[Document]:
    """Return the latest rows of items, the newest of each key, as many as may be told."""
    found: dict[str, Document] = {}
    size = 0
    for event in await _latest(db, run_id, type_of(ResultRecorded), ROWS_MAX):
        data = event["data"]
        if data.get("set") != ITEMS.name or data.get("key") in found:
            continue
        row = {name: data.get(name) for name in ("key", "values", "status", "detail")}
        size += len(msgspec.json.encode(row))
        if size > ROWS_BYTES_MAX:
            break
        found[row["key"]] = row
    return [*found.values()]


async def _asked(db: Database, run_id: str) -> list[str]:
    """Return the keys of the items that were asked last."""
    events = await _latest(db, run_id, type_of(ItemsAsked), ASKED_MAX)
    return [*dict.fromkeys(key for event in events for key in event["data"].get("keys", ()))]


@answers()
async def _latest(db: Database, run_id: str, event_type: str, most: int) -> list[Document]:
    cursor = db.events.find({"runId": run_id, "type": event_type}, {"_id": 0, "data": 1}).hint(INDEX)
    return await cursor.sort("position", -1).limit(most).to_list()
