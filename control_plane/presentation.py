"""Stored documents as the outside sees them: plain JSON values, and nothing that is internal, pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from events.clock import timestamp

# What serves the queries or the fence, and is nobody else's business.
INTERNAL: Final = frozenset({"words", "labelList", "idempotency", "tokenHash", "hash", "orphan", "expiresAt"})


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored document with `id` for `_id` and without its internal fields."""
    fields = {("id" if name == "_id" else name): value for name, value in document.items()}
    lease = fields.get("lease")
    if isinstance(lease, Mapping):
        fields["lease"] = {name: value for name, value in lease.items() if name not in INTERNAL}
    return {name: plain(value) for name, value in fields.items() if name not in INTERNAL}


def plain(value: Any) -> Any:
    """Return `value` as JSON can say it: dates as RFC 3339 text, numbers that JSON lacks as null."""
    match value:
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case datetime():
            return timestamp(value if value.tzinfo else value.replace(tzinfo=UTC))
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def event(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored event in the form in which the log shows it."""
    fields = {
        "position": document["position"],
        "id": document["ceId"],
        "source": document["source"],
        "type": document["type"],
        "time": document["time"],
        "attempt": document["attempt"],
        "sequence": document.get("sequence"),
        "revision": document.get("revision"),
        "data": document["data"],
        "receivedAt": document["receivedAt"],
    }
    return {name: plain(value) for name, value in fields.items()}
