"""The schedule service: create, replace, pause, resume, remove, run now, preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

from control_plane.reads.kinds.loops import beside_loop
from control_plane.runs.options import Options
from control_plane.runs.schedules.schedule import (
    Missed,
    Overlap,
    Timetable,
    first_slot,
    name_of,
    read_timetable,
)
from control_plane.runs.schedules.scheduler import LABEL, SLOT_LABEL, submission
from control_plane.runs.submission import Submitter, check, order_of
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.database import Document
from control_plane.store.queue.groups import Groups
from control_plane.store.queue.submissions import Submitted
from events.kinds import RUN_KINDS, kind_of
from events.queue.fair.shares import DEFAULT
from events.runtime.errors import Conflict, NotFound, Rejected, Transient

TRIES_MAX: Final = 50
NOTE_CHARS_MAX: Final = 500
PREVIEW_SLOTS: Final = 5
RESERVED: Final = frozenset({"preview"})  # an address of its own beside the schedules'
NOBODY: Final[Document] = {"pausedBy": None, "pausedAt": None, "pauseNote": None}

Slot = tuple[datetime, datetime]  # in UTC, and on the clocks of the schedule's zone


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRun(Options):
    """What each slot of a schedule submits."""

    kind: str
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSchedule:
    """A schedule as its author wants it."""

    id: str
    cron: str
    by: str
    run: WantedRun | None = None
    group: str | None = None  # that begins a round at each slot, instead of a run
    named_by: str | None = None  # the name of the key that names the secrets of its runs
    time_zone: str = "UTC"
    missed: Missed = "one"
    overlap: Overlap = "allow"
    paused: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleService:
    """Changes schedules. Raises `Rejected`, `NotFound`, `Conflict`, `Transient`."""

    schedules: Schedules
    submitter: Submitter
    groups: Groups

    async def create(self, wanted: WantedSchedule) -> None:
        """Store a new schedule; its first slot is the first one after now, by the store's clock."""
        if wanted.id in RESERVED:
            raise Rejected("reserved_id", f"id: {wanted.id!r} is taken by an address; choose another id")
        fields = await self._checked(wanted)
        if await self.schedules.create(wanted.id, {**fields, "createdBy": wanted.by}) is None:
            message = f"there is a schedule {wanted.id!r} already; replace it with PUT, or choose another id"
            raise Conflict("schedule_exists", message)

    async def put(self, wanted: WantedSchedule) -> tuple[str, bool]:
        """Store a schedule; return its name, and whether it is new.

        One without a name is the schedule of what its run is about, and takes the place of the one that
        there is.
        """
        if wanted.id:
            await self.create(wanted)
            return wanted.id, True
        named = replace(wanted, id=await self.named(wanted.run))
        return named.id, await self.set(named)

    async def set(self, wanted: WantedSchedule) -> bool:
        """Store a schedule, new or in the place of the one of its name; say whether it is new.

        Any number of replicas may do so at once: one makes it, and the others replace it.
        """
        for _ in range(TRIES_MAX):
            try:
                await self.create(wanted)
                return True
            except Conflict:
                pass
            try:
                await self.replace(wanted)
                return False
            except NotFound:  # it was removed meanwhile
                continue
        raise _contended(wanted.id)

    async def named(self, run: WantedRun | None) -> str:
        """Return the name of the one schedule of what a run is about. Raises `Rejected`."""
        kind = None if run is None else kind_of(run.kind, among=RUN_KINDS)
        if run is None or kind is None or kind.scheduled_as is None:
            raise Rejected("id_missing", "id: the schedule needs a name")
        order = await order_of(submission({"_id": "", "run": _run(run, None)}, None))
        about = kind.scheduled_as
        return name_of(kind.name, await beside_loop(kind.name, lambda: str(about(order.spec))))

    async def replace(self, wanted: WantedSchedule) -> None:
        """Replace a schedule. Slots that were due before are dropped."""
        fields = await self._checked(wanted)
        for _ in range(TRIES_MAX):
            if await self.schedules.change(await self._find(wanted.id), fields) is not None:
                return
        raise _contended(wanted.id)

    async def pause(self, schedule_id: str, *, paused: bool, by: str, note: str = "") -> None:
        """Pause a schedule, or resume it with its first slot after now. Idempotent.

        Author and note of the pause are kept until it is resumed.
        """
        if len(note.strip()) > NOTE_CHARS_MAX:
            raise Rejected("bad_note", f"note: at most {NOTE_CHARS_MAX} characters, not {len(note)}")
        for _ in range(TRIES_MAX):
            schedule = await self._find(schedule_id)
            if schedule["paused"] == paused:
                return
            if not paused:
                await self._require_project(schedule)
            now = await self.schedules.now()
            if paused:
                note = note.strip()
                fields = {"nextAt": None, "pausedBy": by, "pausedAt": now, "pauseNote": note or None}
            else:
                table = read_timetable(schedule["cron"], schedule["timeZone"])
                fields = {"nextAt": first_slot(table, now), **NOBODY}
            if await self.schedules.change(schedule, {"paused": paused, **fields}) is not None:
                return
        raise _contended(schedule_id)

    async def remove(self, schedule_id: str) -> None:
        """Remove a schedule; the runs that it fired stay."""
        if not await self.schedules.delete(schedule_id):
            raise _unknown(schedule_id)

    async def run_now(self, schedule_id: str, *, by: str, key: str | None = None) -> Submitted:
        """Queue a run of a schedule outside its slots; the same idempotency key gives the same run."""
        schedule = await self._find(schedule_id)
        if (group := schedule.get("group")) is not None:
            message = f"the schedule begins rounds of group {group!r}: begin one with its own `again`"
            raise Conflict("schedule_of_group", message)
        return await self.submitter.submit(submission(schedule, None, by=by, key=key))

    async def upcoming(self, schedule_id: str, count: int) -> list[Slot]:
        """Return the next slots, in UTC and on the clocks of the zone, as if the schedule were not paused."""
        schedule = await self._find(schedule_id)
        return await self._next(read_timetable(schedule["cron"], schedule["timeZone"]), count)

    async def preview(
        self, cron: str, time_zone: str, count: int = PREVIEW_SLOTS
    ) -> tuple[Timetable, list[Slot]]:
        """Return the timetable that the texts describe, and its next slots. Raises `Rejected`."""
        table = read_timetable(cron, time_zone)
        first_slot(table, await self.schedules.now())
        return table, await self._next(table, count)

    async def _next(self, table: Timetable, count: int) -> list[Slot]:
        slots = islice(table.slots(await self.schedules.now()), count)
        return [(slot, slot.astimezone(table.zone)) for slot in slots]

    async def _checked(self, wanted: WantedSchedule) -> Document:
        """Return the stored fields of a schedule that could fire, and may. Raises `Rejected`."""
        now = await self.schedules.now()
        if (wanted.run is None) == (wanted.group is None):
            raise Rejected("bad_schedule", "a schedule has a run or a group: give one of them")
        fields = _fields(wanted, now)
        if wanted.group is not None:
            if await self.groups.find(wanted.group) is None:
                raise Rejected("unknown_group", f"group: there is no group {wanted.group!r}")
            await self._require_project(fields)
            return fields
        await self.submitter.require_permitted(check(submission({"_id": wanted.id, **fields}, now)))
        return fields

    async def _require_project(self, schedule: Mapping[str, Any]) -> None:
        """Check that whoever asks may submit what a schedule does. Raises `Rejected`, `Forbidden`."""
        group = schedule.get("group")
        run = schedule["run"] if group is None else (await self.groups.find(group) or {}).get("run")
        project = run.get("project") if isinstance(run, Mapping) else None
        await self.submitter.require_project(project or DEFAULT)

    async def _find(self, schedule_id: str) -> Document:
        schedule = await self.schedules.find(schedule_id)
        if schedule is None:
            raise _unknown(schedule_id)
        return schedule


def _fields(wanted: WantedSchedule, now: datetime) -> Document:
    """Return the stored fields of a schedule. Raises `Rejected` for one that could never fire."""
    table = read_timetable(wanted.cron, wanted.time_zone)
    next_at = first_slot(table, now)
    fields: Document = {
        "cron": wanted.cron,
        "timeZone": wanted.time_zone,
        "missed": wanted.missed,
        "overlap": wanted.overlap,
        "paused": wanted.paused,
        "run": None if wanted.run is None else _run(wanted.run, wanted.named_by),
        "group": wanted.group,
        "nextAt": None if wanted.paused else next_at,
        **({**NOBODY, "pausedBy": wanted.by, "pausedAt": now} if wanted.paused else NOBODY),
        "last": None,
        "error": None,
    }
    return fields


def _run(run: WantedRun, named_by: str | None) -> Document:
    for name in (LABEL, SLOT_LABEL):
        if name in run.labels:
            raise Rejected("reserved_label", f"run.labels: {name!r} is set by the schedule itself")
    secrets = {"secrets": sorted(set(run.secrets)), "secretsNamedBy": named_by} if run.secrets else {}
    return {
        "kind": run.kind,
        "spec": dict(run.spec),
        "priority": run.priority,
        "requires": dict(run.requires),
        "maxAttempts": run.max_attempts,
        "queueLimitS": run.queue_limit_s,
        "labels": dict(run.labels),
        "project": run.project,
        **secrets,
    }


def _unknown(schedule_id: str) -> NotFound:
    return NotFound("unknown_schedule", f"there is no schedule {schedule_id!r}")


def _contended(schedule_id: str) -> Transient:
    return Transient("contended", f"schedule {schedule_id} is changing concurrently; try again")
