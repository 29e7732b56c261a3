"""The statements that maintain a pod's entry in the roster, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

Document = dict[str, Any]

REPORT_EVERY_S: Final = 10.0
TELEMETRY_KEPT: Final = timedelta(days=14)  # as long as heartbeats
SAMPLES_MAX: Final = 720  # of an hour: of a pod that reports more often than every 5 s, the last ones


def line(fields: Mapping[str, Any], started_at: datetime, *, key_id: str | None = None) -> Document:
    """Return the update that writes a pod's line; `key_id` is the key with which it reported first."""
    return {
        "$set": fields,
        "$currentDate": {"reportedAt": True},
        "$setOnInsert": {"orders": {"drain": False}, "startedAt": started_at, "keyId": key_id},
    }


def sample(pod_id: str, at: datetime, telemetry: Mapping[str, Any]) -> tuple[Document, Document]:
    """Return filter and upsert that keep what is in use: a bounded document an hour, gone after its time."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    used = {name: value for name, value in telemetry.items() if value not in (None, [], ())}
    update = {
        "$push": {"samples": {"$each": [{"at": at, **used}], "$slice": -SAMPLES_MAX}},
        "$setOnInsert": {"podId": pod_id, "from": hour, "expiresAt": hour + TELEMETRY_KEPT},
    }
    return {"_id": f"{pod_id}/{hour:%Y-%m-%dT%H}"}, update
