"""Stored documents as API answers: plain JSON values without internal fields, pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from events.lifecycle import HELD
from events.runtime.clock import timestamp

SPENT: Final = ("promptTokens", "completionTokens", "costUsd", "gpuSeconds", "calls", "unpricedCalls")
MODELS_SHOWN: Final = 50
INTERRUPTED: Final = "INTERRUPTED"
# What a browser shows in place without running anything of it; everything else is a download.
IN_PLACE: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")

# What serves the queries or the fence, and is nobody else's business.
INTERNAL: Final = frozenset(
    {"words", "labelList", "idempotency", "tokens", "tokenHash", "hash", "orphan", "expiresAt"}
)


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored document with `id` for `_id` and without its internal fields."""
    fields = {("id" if name == "_id" else name): value for name, value in document.items()}
    lease = fields.get("lease")
    if isinstance(lease, Mapping):
        fields["lease"] = {name: value for name, value in lease.items() if name not in INTERNAL}
    return {name: plain(value) for name, value in fields.items() if name not in INTERNAL}


def plain(value: Any) -> Any:
    """Return `value` as JSON can say it: dates as RFC 3339 text, numbers that JSON lacks as null."""
    match value:  # what is frequent and quickly told comes first
        case None | str() | bool():
            return value
        case int():
            return int(value)  # beyond 32 bits the driver has a type of its own, which encoders do not know
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            return timestamp(value if value.tzinfo else value.replace(tzinfo=UTC))
        case list() | tuple():
            return [plain(each) for each in value]
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case _:
            return str(value)


def finite(total: float) -> float:
    """Return a sum as JSON can say it, however absurd what was reported: pages count with it."""
    if math.isnan(total):
        return 0.0
    return max(-sys.float_info.max, min(total, sys.float_info.max))


def stage(document: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stage of a run; one that was under way when its attempt was lost is no longer RUNNING."""
    found = shown(document)
    is_current = found["attempt"] == run["attempt"] and (run["status"] in HELD or run["logOpen"])
    if found["status"] == "RUNNING" and not is_current:
        found["status"] = INTERRUPTED
    return found


def event(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored event in the form in which the log shows it."""
    fields = {
        "runId": document["runId"],
        "position": document["position"],
        "id": document["ceId"],
        "source": document["source"],
        "type": document["type"],
        "time": document["time"],
        "attempt": document["attempt"],
        "sequence": document.get("sequence"),
        "revision": document.get("revision"),
        "data": document["data"],
        "traceparent": document.get("traceparent"),
        "receivedAt": document["receivedAt"],
    }
    return {name: plain(value) for name, value in fields.items()}


def usage(groups: Sequence[Mapping[str, Any]], events_max: int) -> dict[str, Any]:
    """Return what a run has spent, in all and by model; `isPartial` where more was said than was read."""
    by_model = [
        {"model": each["_id"], **{name: finite(each[name]) for name in SPENT}}
        for each in groups
        if each["calls"]
    ]
    return {
        **{name: finite(sum(each[name] for each in groups)) for name in SPENT},
        "models": by_model[:MODELS_SHOWN],
        "isPartial": sum(each["events"] for each in groups) >= events_max,
    }
