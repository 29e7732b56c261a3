"""Schedules: runs, or rounds of a group, at the times of a cron entry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from control_plane.runs.schedules.cron_words import cron_words
from control_plane.runs.schedules.schedule import CRON_CHARS_MAX
from control_plane.runs.schedules.service import (
    PREVIEW_SLOTS,
    ScheduleService,
    WantedRun,
    WantedSchedule,
)
from control_plane.server.api.contract.bodies import NewSchedule, Pause, ScheduleBody, ScheduleId
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import THE_SAME, Key, MayRead, MaySubmit, Page
from control_plane.server.deps import Deps
from events.answers.answer import Listing
from events.answers.runs import Run
from events.answers.schedules import CronPreview, CronProblem, Schedule, Slot, Slots
from events.runtime.clock import timestamp
from events.runtime.errors import Rejected

Count = Annotated[int, Query(ge=1, le=100)]
Typed = Annotated[str, Query(max_length=CRON_CHARS_MAX)]


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/schedules`."""
    routes = Routes(prefix="/api/schedules", tags=["schedules"])
    service, reading = deps.schedules, deps.reading

    @routes.post("", status_code=201, responses=THE_SAME)
    async def create(body: NewSchedule, principal: MaySubmit, response: Response) -> Schedule:
        name, is_new = await service.put(_wanted(body.id or "", body, principal.name))
        response.status_code = 201 if is_new else 200
        response.headers["Location"] = f"/api/schedules/{name}"
        return await reading.schedule(name)

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Listing[Schedule]:
        return await reading.schedules(wanted.limit, wanted.after)

    @routes.get("/preview")
    async def preview(
        _: MayRead, cron: Typed, time_zone: Typed = "UTC", n: Count = PREVIEW_SLOTS
    ) -> CronPreview:
        return await previewed(deps.schedules, cron, time_zone, n)

    @routes.get("/{schedule_id}")
    async def one(schedule_id: str, _: MayRead) -> Schedule:
        return await reading.schedule(schedule_id)

    @routes.get("/{schedule_id}/next")
    async def upcoming(schedule_id: str, _: MayRead, n: Count = PREVIEW_SLOTS) -> Slots:
        return Slots(items=shown_slots(await service.upcoming(schedule_id, n)))

    @routes.put("/{schedule_id}")
    async def put(schedule_id: ScheduleId, body: ScheduleBody, principal: MaySubmit) -> Schedule:
        await service.replace(_wanted(schedule_id, body, principal.name))
        return await reading.schedule(schedule_id)

    @routes.patch("/{schedule_id}")
    async def pause(schedule_id: str, body: Pause, principal: MaySubmit) -> Schedule:
        await service.pause(schedule_id, paused=body.paused, by=principal.name, note=body.note)
        return await reading.schedule(schedule_id)

    @routes.post("/{schedule_id}/run", status_code=201, responses=THE_SAME)
    async def run(schedule_id: str, principal: MaySubmit, response: Response, key: Key = None) -> Run:
        submitted = await service.run_now(schedule_id, by=principal.name, key=key)
        if not submitted.is_new:
            response.status_code = 200
        response.headers["Location"] = f"/api/runs/{submitted.run_id}"
        return await reading.submitted(submitted)

    @routes.delete("/{schedule_id}", status_code=204)
    async def remove(schedule_id: str, _: MaySubmit) -> None:
        await service.remove(schedule_id)

    return routes


async def previewed(
    service: ScheduleService, cron: str, time_zone: str, count: int = PREVIEW_SLOTS
) -> CronPreview:
    """Return the meaning of a cron text and its next times; or the problem, if it is invalid."""
    preview = partial(CronPreview, cron=cron, time_zone=time_zone)
    try:
        table, slots = await service.preview(cron, time_zone, count)
    except Rejected as error:  # half of a text is no error of whoever types it
        problem = CronProblem(code=error.code, message=error.message)
        return preview(meaning=None, next=[], problem=problem)
    return preview(meaning=cron_words(table.entry), next=shown_slots(slots), problem=None)


def shown_slots(slots: Sequence[tuple[datetime, datetime]]) -> list[Slot]:
    """Return slots in UTC, and in the local time of the zone with its offset."""
    return [Slot(at=timestamp(slot), local=local.isoformat()) for slot, local in slots]


def _wanted(schedule_id: str, body: ScheduleBody, by: str) -> WantedSchedule:
    return WantedSchedule(
        id=schedule_id,
        cron=body.cron,
        time_zone=body.time_zone,
        missed=body.missed,
        overlap=body.overlap,
        paused=body.paused,
        run=None if body.run is None else WantedRun(**body.run.model_dump()),
        group=body.group,
        by=by,
        named_by=by,
    )
