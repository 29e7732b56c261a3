"""Keeps schedules as people want them: create, replace, pause, resume, remove, look ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from control_plane.schedule import Missed, Overlap, first_slot, read_timetable
from control_plane.scheduler import LABEL, SLOT_LABEL, submission
from control_plane.store.database import Document
from control_plane.store.schedules import Schedules
from control_plane.submission import QUEUE_LIMIT_S, check
from events.errors import Conflict, NotFound, Rejected, Transient

TRIES_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRun:
    """What each slot of a schedule submits."""

    kind: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    requires: Mapping[str, Any] = field(default_factory=dict)
    max_attempts: int = 3
    queue_limit_s: int = QUEUE_LIMIT_S
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSchedule:
    """A schedule as its author wants it."""

    id: str
    cron: str
    run: WantedRun
    by: str
    time_zone: str = "UTC"
    missed: Missed = "one"
    overlap: Overlap = "allow"
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Agenda:
    """Changes schedules. Raises `Rejected`, `NotFound`, `Conflict`, `Transient`."""

    schedules: Schedules

    async def create(self, wanted: WantedSchedule) -> None:
        """Store a new schedule; its first slot is the first one after now, by the store's clock."""
        fields = _fields(wanted, await self.schedules.now())
        if await self.schedules.create(wanted.id, {**fields, "createdBy": wanted.by}) is None:
            message = f"there is a schedule {wanted.id!r} already; replace it with PUT, or choose another id"
            raise Conflict("schedule_exists", message)

    async def replace(self, wanted: WantedSchedule) -> None:
        """Put another schedule in the place of one; it begins anew, what was due before is dropped."""
        fields = _fields(wanted, await self.schedules.now())
        for _ in range(TRIES_MAX):
            if await self.schedules.change(await self._find(wanted.id), fields) is not None:
                return
        raise _contended(wanted.id)

    async def pause(self, schedule_id: str, *, paused: bool) -> None:
        """Let a schedule rest, or go on with its first slot after now; twice is the same."""
        for _ in range(TRIES_MAX):
            schedule = await self._find(schedule_id)
            if schedule["paused"] == paused:
                return
            next_at = None
            if not paused:
                table = read_timetable(schedule["cron"], schedule["timeZone"])
                next_at = first_slot(table, await self.schedules.now())
            if await self.schedules.change(schedule, {"paused": paused, "nextAt": next_at}) is not None:
                return
        raise _contended(schedule_id)

    async def remove(self, schedule_id: str) -> None:
        """Remove a schedule; the runs that it fired stay."""
        if not await self.schedules.delete(schedule_id):
            raise _unknown(schedule_id)

    async def upcoming(self, schedule_id: str, count: int) -> list[tuple[datetime, datetime]]:
        """Return the next slots, in UTC and on the clocks of the zone, as if the schedule were not paused."""
        schedule = await self._find(schedule_id)
        table = read_timetable(schedule["cron"], schedule["timeZone"])
        slots = islice(table.slots(await self.schedules.now()), count)
        return [(slot, slot.astimezone(table.zone)) for slot in slots]

    async def _find(self, schedule_id: str) -> Document:
        schedule = await self.schedules.find(schedule_id)
        if schedule is None:
            raise _unknown(schedule_id)
        return schedule


def _fields(wanted: WantedSchedule, now: datetime) -> Document:
    """Return what is stored of a schedule. Raises `Rejected` for one that could never fire a run."""
    table = read_timetable(wanted.cron, wanted.time_zone)
    next_at = first_slot(table, now)
    for name in (LABEL, SLOT_LABEL):
        if name in wanted.run.labels:
            raise Rejected("reserved_label", f"run.labels: {name!r} is set by the schedule itself")
    fields: Document = {
        "cron": wanted.cron,
        "timeZone": wanted.time_zone,
        "missed": wanted.missed,
        "overlap": wanted.overlap,
        "paused": wanted.paused,
        "run": {
            "kind": wanted.run.kind,
            "spec": dict(wanted.run.spec),
            "priority": wanted.run.priority,
            "requires": dict(wanted.run.requires),
            "maxAttempts": wanted.run.max_attempts,
            "queueLimitS": wanted.run.queue_limit_s,
            "labels": dict(wanted.run.labels),
        },
        "nextAt": None if wanted.paused else next_at,
        "last": None,
        "error": None,
    }
    check(submission({"_id": wanted.id, **fields}, next_at))
    return fields


def _unknown(schedule_id: str) -> NotFound:
    return NotFound("unknown_schedule", f"there is no schedule {schedule_id!r}")


def _contended(schedule_id: str) -> Transient:
    return Transient("contended", f"schedule {schedule_id} changes too fast; try again")
