"""Fires schedules: any number of replicas may do so at once; each slot has one run, or one round of a group.

Law: the run's id is derived from the schedule and the slot alone, and the run is created before the
schedule's cursor moves. A replica that dies in between, or comes second, finds the run that exists. A round
keeps the slot that began it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from control_plane.concurrency.loops import serve_all
from control_plane.model.groups.ticks import Begun, Tick
from control_plane.model.views.readable import UnreadableDocument
from control_plane.runs.schedules.schedule import Outcome, plan, read_timetable, run_id
from control_plane.runs.submission import Submission, Submitter
from control_plane.store.catalogue.schedules import Schedules
from control_plane.store.database import Document
from events.queue.fair.shares import DEFAULT
from events.runtime.clock import timestamp
from events.runtime.errors import Conflict, Rejected

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
BATCH_MAX: Final = 100
PAGES_MAX: Final = 20

LABEL: Final = "schedule"
SLOT_LABEL: Final = "slot"


class Rounds(Protocol):
    """Begins rounds of groups."""

    async def again(self, group_id: str, *, revision: int | None, by: str, tick: Tick | None = None) -> Begun:
        """Begin a new round of a closed group, one for each tick. Raises `Conflict`, `NotFound`."""
        ...


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Fires due schedules, by the store's clock alone."""

    schedules: Schedules
    submitter: Submitter
    groups: Rounds

    async def run_once(self) -> int:
        """Serve every schedule that is due; return how many runs and rounds are new."""
        fired = 0
        for _ in range(PAGES_MAX):
            page = await self.schedules.due(BATCH_MAX)
            fired += sum(await serve_all(page, self._serve))
            if len(page) < BATCH_MAX:
                break
        return fired

    async def _serve(self, schedule: Document) -> int:
        try:
            table = read_timetable(schedule["cron"], schedule["timeZone"])
        except Rejected as error:
            await self._move(schedule, None, _last(schedule["nextAt"], "refused"), error)
            return 0
        wanted = plan(table, schedule["missed"], due=schedule["nextAt"], now=schedule["now"])
        fired = 0
        last: Document = _last(wanted.last, "late")
        problem: Rejected | None = None
        for slot in wanted.fire:
            try:
                last, is_new = await self._fire(schedule, slot)
                fired += is_new
            except Rejected as error:
                last, problem = _last(slot, "refused"), error
        await self._move(schedule, wanted.next_at, last, problem)
        return fired

    async def _fire(self, schedule: Document, slot: datetime) -> tuple[Document, bool]:
        if schedule.get("group") is not None:
            return await self._begin(schedule, slot)
        identity = run_id(schedule["_id"], slot)
        if schedule["overlap"] == "skip":
            label = f"{LABEL}={schedule['_id']}"
            if await self.schedules.is_busy(label, identity):
                return _last(slot, "overlapping"), False
        submitted = await self.submitter.submit_as(identity, submission(schedule, slot))
        if submitted.is_new:
            log.info("schedule.fired", extra={"schedule": schedule["_id"], "run": identity})
        return _last(slot, "fired", identity), submitted.is_new

    async def _begin(self, schedule: Document, slot: datetime) -> tuple[Document, bool]:
        """Begin a round of the schedule's group, unless the round before it goes on."""
        name, by = schedule["group"], f"schedule:{schedule['_id']}"
        try:
            begun = await self.groups.again(name, revision=None, by=by, tick=Tick(schedule["_id"], slot))
        except UnreadableDocument:  # which says nothing of a round
            raise
        except Conflict:
            return {**_last(slot, "overlapping"), "groupId": name}, False
        if begun.is_new:
            log.info("schedule.fired", extra={"schedule": schedule["_id"], "group": name})
        return {**_last(slot, "fired"), "groupId": name, "round": begun.number}, begun.is_new

    async def _move(
        self, schedule: Document, next_at: datetime | None, last: Document, problem: Rejected | None
    ) -> None:
        """Move the cursor, if nobody did or changed the schedule meanwhile."""
        error = None
        if problem is not None:
            error = {"code": problem.code, "message": problem.message, "slot": last["slot"]}
            log.warning("schedule.refused", extra={"schedule": schedule["_id"], "why": problem.message})
        await self.schedules.change(schedule, {"nextAt": next_at, "last": last, "error": error})


def submission(
    schedule: Document, slot: datetime | None, *, by: str | None = None, key: str | None = None
) -> Submission:
    """Return the submission for a slot of a schedule; without a slot, for a run that was requested now."""
    wanted: dict[str, Any] = schedule["run"]
    labels = {**wanted["labels"], LABEL: schedule["_id"]}
    if slot is not None:
        labels[SLOT_LABEL] = timestamp(slot)
    return Submission(
        kind=wanted["kind"],
        spec=wanted["spec"],
        by=by or f"schedule:{schedule['_id']}",
        idempotency_key=key,
        priority=wanted["priority"],
        requires=wanted["requires"],
        max_attempts=wanted["maxAttempts"],
        queue_limit_s=wanted["queueLimitS"],
        labels=labels,
        project=wanted.get("project", DEFAULT),
        secrets=wanted.get("secrets", ()),
        named_by=wanted.get("secretsNamedBy"),  # whoever fires it, its author named them
    )


def _last(slot: datetime, outcome: Outcome, run: str | None = None) -> Document:
    return {"slot": slot, "outcome": outcome, "runId": run}
