"""What several pods depend on and some report as failing: a pod looks at it before its next claim, pure.

Law: a pod's word makes others look, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from events.queue.roster import REPORT_EVERY_S

Document = dict[str, Any]

PODS_MAX: Final = 100  # the latest of those that report a failure
SUSPECTS_MAX: Final = 16
BELIEVED: Final = timedelta(seconds=3 * REPORT_EVERY_S)
STORAGE: Final = "storage"
MODEL: Final = "model:"


def failing(now: datetime) -> tuple[Document, Document]:
    """Return filter and projection of the pods that report a failing check now."""
    return {"checks.ok": False, "reportedAt": {"$gte": now - BELIEVED}}, {"checks": 1}


def suspects(pods: Iterable[Mapping[str, Any]], *, of: str) -> tuple[str, ...]:
    """Return what fails of the checks that pods share, the most reported first; `of` is who asks."""
    counts = Counter(
        name
        for pod in pods
        if pod["_id"] != of
        for name in {check["name"] for check in pod["checks"] if not check["ok"]}
        if name == STORAGE or name.startswith(MODEL)
    )
    return tuple(name for name, _ in counts.most_common(SUSPECTS_MAX))
