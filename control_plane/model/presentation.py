"""Stored documents as API answers: plain JSON values without internal fields, pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final

from events.runtime.clock import timestamp

SPENT: Final = ("promptTokens", "completionTokens", "costUsd", "gpuSeconds", "calls", "unpricedCalls")
# What a browser shows in place without running anything of it; everything else is a download.
IN_PLACE: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")

AS_IT_IS: Final = frozenset({NoneType, str, bool, int})
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
    if type(value) in AS_IT_IS:  # nearly all that there is
        return value
    match value:
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
    if isinstance(total, int):
        return int(total)  # of the driver's own type, as in `plain`
    if math.isnan(total):
        return 0.0
    return max(-sys.float_info.max, min(total, sys.float_info.max))
