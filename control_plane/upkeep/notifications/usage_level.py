"""Which levels of a quota or a disk a use has reached, each told once until it fell again; pure.

Law: a level is reached again only after the use fell below `REST`, so that what goes to and fro at a level is
told once. Of two levels that are reached at once the higher one is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from events.text.worker_id import place_of

Measure = Literal["gpuHours", "usd", "disk"]
NONE: Final = 0
NEAR: Final = 80  # per cent
REACHED: Final = 100
REST: Final = 0.75
CROSSINGS_MAX: Final = 10  # of one use, the last ones
DISKS_MAX: Final = 8  # of one pod, which tells of as many as it likes
PATH_CHARS_MAX: Final = 200
KEPT: Final = timedelta(days=180)  # what was told of a pod that never came back
HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much of what there is somebody uses; `most` is None where there is no limit, so nothing to tell."""

    subject: str  # project/NAME or pod/NAME
    measure: Measure
    used: float
    most: float | None
    path: str | None = None  # of a disk

    @property
    def id(self) -> str:
        """The id under which its level is kept."""
        return "/".join(filter(None, (self.subject, self.measure, self.path)))

    @property
    def share(self) -> float:
        """The part of the limit that is used; of a limit of nothing anything is all."""
        if self.most is None or self.used <= 0:
            return 0.0
        return self.used / self.most if self.most > 0 else math.inf


def level_after(level: int, share: float) -> int:
    """Return the level of a use that was at `level`."""
    if share < REST:
        return NONE
    return max(level, REACHED if share >= 1.0 else NEAR if share * 100 >= NEAR else NONE)


def changes(
    stored: Mapping[str, Mapping[str, Any]], uses: Iterable[Use], now: datetime
) -> list[tuple[int, dict[str, Any]]]:
    """Return the documents of the uses whose level has changed, each with the revision that it replaces."""
    found = []
    for each in uses:
        before = stored.get(each.id, {})
        old = before.get("level", NONE)
        level = level_after(old, each.share)
        if level == old:
            continue
        revision = before.get("revision", 0)
        crossings = list(before.get("crossings", ()))
        if level > old:
            told = {"n": revision + 1, "level": level, "at": now, "used": each.used, "most": each.most}
            crossings = [*crossings, told][-CROSSINGS_MAX:]
        document = {
            "_id": each.id,
            "subject": each.subject,
            "measure": each.measure,
            "path": each.path,
            "level": level,
            "crossings": crossings,
            "revision": revision + 1,
            "updatedAt": now,
            "expiresAt": now + KEPT,
        }
        found.append((revision, document))
    return found


def of_project(stored: Mapping[str, Any], share: Mapping[str, Any]) -> list[Use]:
    """Return the uses of a stored project in this month, by what pods are told that it has used."""
    subject, quotas = f"project/{stored['_id']}", stored.get("quotas") or {}
    hours, usd = float(share.get("gpuS", 0.0)) / HOUR_S, float(share.get("usd", 0.0))
    return [
        Use(subject=subject, measure="gpuHours", used=hours, most=_amount(quotas.get("gpuHours"))),
        Use(subject=subject, measure="usd", used=usd, most=_amount(quotas.get("usd"))),
    ]


def of_pod(stored: Mapping[str, Any]) -> list[Use]:
    """Return the uses of the disks that a worker has told of; what is none of a disk is left out."""
    capabilities = stored.get("capabilities")
    disks = capabilities.get("disks") if isinstance(capabilities, Mapping) else None
    subject = f"pod/{place_of(str(stored['_id']))[0]}"
    found = [_of_disk(subject, each) for each in (disks if isinstance(disks, Sequence) else ())[:DISKS_MAX]]
    return [each for each in found if each is not None]


def fullest(uses: Iterable[Use]) -> list[Use]:
    """Return each use once: of the slots of a pod, which share its disks, the fullest that was told."""
    found: dict[str, Use] = {}
    for each in uses:
        if each.id not in found or found[each.id].share < each.share:
            found[each.id] = each
    return [*found.values()]


def _of_disk(subject: str, disk: object) -> Use | None:
    if not isinstance(disk, Mapping):
        return None
    path, most, free = disk.get("path"), _amount(disk.get("totalMib")), _amount(disk.get("freeMib"))
    if not isinstance(path, str) or not most or free is None or free > most:
        return None
    return Use(subject=subject, measure="disk", used=most - free, most=most, path=path[:PATH_CHARS_MAX])


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if value >= 0 else None
