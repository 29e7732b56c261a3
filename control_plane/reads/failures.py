"""Failed runs grouped by their cause, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

LOOKED_AT_MAX: Final = 200  # of the newest failed runs
RUNS_SHOWN: Final = 5  # of one cause
TEXT_CHARS_MAX: Final = 300

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A failed run, briefly."""

    id: str
    title: str
    finished_at: datetime


@dataclass(slots=True)
class FailureGroup:
    """Runs that failed with the same code in the same stage, the latest first, which has said `message`."""

    code: str
    stage: str | None
    fault: str | None
    message: str
    count: int = 0
    runs: list[FailedRun] = field(default_factory=list)


def grouped(failed: Sequence[Json], since: datetime) -> list[FailureGroup]:
    """Return the causes of what failed since a moment, the most frequent first, equal ones by time."""
    recent = [each for each in failed if (each.get("finishedAt") or since) > since and each.get("finishedAt")]
    groups: dict[tuple[str, str | None], FailureGroup] = {}
    for each in sorted(recent, key=lambda one: one["finishedAt"], reverse=True):
        error = each.get("error") or {}
        code, stage = str(error.get("code") or "UNKNOWN"), error.get("stage")
        group = groups.get((code, stage))
        if group is None:
            message = str(error.get("message") or "")[:TEXT_CHARS_MAX]
            group = groups[code, stage] = FailureGroup(code, stage, error.get("fault"), message)
        group.count += 1
        if len(group.runs) < RUNS_SHOWN:
            group.runs.append(
                FailedRun(each["_id"], str(each.get("title") or each["_id"]), each["finishedAt"])
            )
    return sorted(groups.values(), key=lambda group: -group.count)
