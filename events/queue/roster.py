"""The statements that maintain a pod's entry in the roster, pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

Document = dict[str, Any]

REPORT_EVERY_S: Final = 10.0
TELEMETRY_KEPT: Final = timedelta(days=14)  # as long as heartbeats
LOOKED_AT_EVERY_S: Final = 1.0  # while somebody looks at the pod; no order makes it report more often
SPAN: Final = timedelta(minutes=10)  # of the samples in one document, which each of them rewrites
SAMPLES_MAX: Final = 720  # of such a span: of a pod that reports more often than every second, the last ones
SPANS_PER_HOUR: Final = 6


def line(fields: Mapping[str, Any], started_at: datetime, *, key_id: str | None = None) -> Document:
    """Return the update that writes a pod's line; `key_id` is the key with which it reported first."""
    return {
        "$set": fields,
        "$currentDate": {"reportedAt": True},
        "$setOnInsert": {"orders": {"drain": False}, "startedAt": started_at, "keyId": key_id},
    }


def sample(pod_id: str, at: datetime, telemetry: Mapping[str, Any]) -> tuple[Document, Document]:
    """Return filter and upsert that keep what is in use: bounded documents, gone after their time."""
    first = span_of(at)
    used = {name: value for name, value in telemetry.items() if value not in (None, [], ())}
    update = {
        "$push": {"samples": {"$each": [{"at": at, **used}], "$slice": -SAMPLES_MAX}},
        "$setOnInsert": {"podId": pod_id, "from": first, "expiresAt": first + TELEMETRY_KEPT},
    }
    return {"_id": f"{pod_id}/{first:%Y-%m-%dT%H:%M}"}, update


def resets_due(document: Mapping[str, Any]) -> list[Document]:
    """Return the orders to reset services that a pod has not answered, by its line as a report left it."""
    answered = {each.get("id") for each in document.get("resets") or ()}
    now = document["reportedAt"]
    return [
        {name: each[name] for name in ("id", "service", "force")}
        for each in (document.get("orders") or {}).get("resets") or ()
        if each["id"] not in answered and each["until"] > now
    ]


def span_of(at: datetime) -> datetime:
    """Return the beginning of the span of samples that a moment is in."""
    minutes = int(SPAN.total_seconds()) // 60
    return at.replace(minute=at.minute - at.minute % minutes, second=0, microsecond=0)


def report_every_s(document: Mapping[str, Any]) -> float:
    """Return how often a pod shall report, by its line as the report has left it."""
    until = document.get("lookedUntil")
    is_looked_at = isinstance(until, datetime) and until > document["reportedAt"]
    return LOOKED_AT_EVERY_S if is_looked_at else REPORT_EVERY_S
