"""What the checks that pods report tell: what keeps a pod from claiming, and what others look at, pure.

Law: a failing check keeps its own pod from claiming. It makes other pods look, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self

from events.queue.labels import GPU_GIB
from events.queue.requirements import GPU_TIERS, read_class
from events.queue.roster import REPORT_EVERY_S

Document = dict[str, Any]

PODS_MAX: Final = 100  # the latest of those that report a failure
SUSPECTS_MAX: Final = 16
BELIEVED: Final = timedelta(seconds=3 * REPORT_EVERY_S)
STORAGE: Final = "storage"
MODEL: Final = "model:"
GPU: Final = "gpu"
GPU_LABELS: Final = frozenset({"gpu", "gpus", GPU_GIB, "driver"})
SHOWN_MAX: Final = 20  # names of checks in a count; pods choose those of their models
OTHERS: Final = "other"


@dataclass(frozen=True, slots=True)
class Broken:
    """A check of a pod that fails; `kinds` need it, None is all."""

    name: str
    message: str
    kinds: frozenset[str] | None

    @classmethod
    def of(cls, checks: Iterable[Mapping[str, Any]]) -> tuple[Self, ...]:
        """Return those of the stored checks of a pod that fail."""
        return tuple(
            cls(each["name"], each["message"], None if each["kinds"] is None else frozenset(each["kinds"]))
            for each in checks
            if not each["ok"]
        )


def obstacle(class_key: str, broken: Sequence[Broken]) -> Broken | None:
    """Return what keeps a pod from claiming runs of a class; None where nothing does."""
    wanted = read_class(class_key)
    needs_gpu = wanted.tier != GPU_TIERS[0] or any(name in GPU_LABELS for name, _ in wanted.labels)
    for each in broken:
        if each.kinds is None or wanted.kind in each.kinds or (each.name == GPU and needs_gpu):
            return each
    return None


def failing_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the checks that a stored pod reports as failing; what is no check is none."""
    checks = pod.get("checks")
    return [
        each["name"]
        for each in (checks if isinstance(checks, list) else ())
        if isinstance(each, Mapping) and not each.get("ok") and isinstance(each.get("name"), str)
    ]


def count_failing(pods: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
    """Return how many pods report each check as failing; the rarer ones together."""
    counts = Counter(name for pod in pods for name in failing_of(pod))
    shown = dict(counts.most_common(SHOWN_MAX))
    rest = sum(counts.values()) - sum(shown.values())
    return {**shown, OTHERS: rest} if rest else shown


def failing(now: datetime) -> tuple[Document, Document]:
    """Return filter and projection of the pods that report a failing check now."""
    return {"checks.ok": False, "reportedAt": {"$gte": now - BELIEVED}}, {"checks.name": 1, "checks.ok": 1}


def suspects(pods: Iterable[Mapping[str, Any]], *, of: str) -> tuple[str, ...]:
    """Return what fails of the checks that pods share, the most reported first; `of` is who asks."""
    counts = Counter(
        name
        for pod in pods
        if pod["_id"] != of
        for name in {*failing_of(pod)}
        if name == STORAGE or name.startswith(MODEL)
    )
    return tuple(name for name, _ in counts.most_common(SUSPECTS_MAX))
