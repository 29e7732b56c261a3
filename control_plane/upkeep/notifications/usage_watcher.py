"""Notes when a project's quota or a pod's disk passes a level: once, however many replicas look."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.model.views.readable import those_readable
from control_plane.reads.reading import SILENT_AFTER
from control_plane.store.access.projects import Projects
from control_plane.store.access.usage_levels import UsageLevels
from control_plane.store.pods import Pods
from control_plane.upkeep.notifications.usage_level import changes, fullest, of_pod, of_project
from events.queue.fair.shares import shares_in

log = logging.getLogger(__name__)

TICK_S: Final = 10.0  # as often as pods report, and as what projects have used is told


@dataclass(frozen=True, slots=True)
class UsageWatcher:
    """Compares what is used with what was noted before."""

    levels: UsageLevels
    projects: Projects
    pods: Pods

    async def run_once(self) -> int:
        """Do one round; return how many levels it noted."""
        stored = {
            str(each["_id"]): each for each in await self.levels.all()
        }  # before what it is compared with
        told, now = await self.projects.shares() or {}, await self.projects.now()
        known = shares_in(told)  # what is odd in it is left out
        shares = {each["name"]: each for each in (told["projects"] if known else ()) if _is_in(known, each)}
        projects, pods = await self.projects.all(), await self.pods.live(now - SILENT_AFTER)
        found = those_readable(
            "project", projects, lambda each: of_project(each, shares.get(each["_id"], {}))
        )
        found += those_readable("pod", pods, of_pod)
        noted = 0
        for revision, document in changes(stored, fullest(use for uses in found for use in uses), now):
            if await self.levels.move(revision, document):
                noted += 1
                log.info("usage.level", extra={"use": document["_id"], "level": document["level"]})
        return noted


def _is_in(known: Mapping[str, Any], told: object) -> bool:
    return isinstance(told, Mapping) and told.get("name") in known
