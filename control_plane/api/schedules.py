"""Schedules: runs that begin at their own time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from control_plane.agenda import WantedRun, WantedSchedule
from control_plane.api.models import NewSchedule, Pause, ScheduleBody, ScheduleId
from control_plane.api.runs import MayRead, MaySubmit, Page
from control_plane.deps import Deps
from control_plane.presentation import plain

Json = dict[str, Any]
Count = Annotated[int, Query(ge=1, le=100)]


def router(deps: Deps) -> APIRouter:
    """Return the routes below `/api/schedules`."""
    routes = APIRouter(prefix="/api/schedules", tags=["schedules"])
    agenda, reading = deps.agenda, deps.reading

    @routes.post("", status_code=201)
    async def create(body: NewSchedule, principal: MaySubmit, response: Response) -> Json:
        await agenda.create(_wanted(body.id, body, principal.name))
        response.headers["Location"] = f"/api/schedules/{body.id}"
        return await reading.schedule(body.id)

    @routes.get("")
    async def page(_: MayRead, wanted: Annotated[Page, Query()]) -> Json:
        return await reading.schedules(wanted.limit, wanted.after)

    @routes.get("/{schedule_id}")
    async def one(schedule_id: str, _: MayRead) -> Json:
        return await reading.schedule(schedule_id)

    @routes.get("/{schedule_id}/next")
    async def upcoming(schedule_id: str, _: MayRead, n: Count = 5) -> Json:
        slots = await agenda.upcoming(schedule_id, n)
        return {"items": [{"at": plain(slot), "local": local.isoformat()} for slot, local in slots]}

    @routes.put("/{schedule_id}")
    async def replace(schedule_id: ScheduleId, body: ScheduleBody, principal: MaySubmit) -> Json:
        await agenda.replace(_wanted(schedule_id, body, principal.name))
        return await reading.schedule(schedule_id)

    @routes.patch("/{schedule_id}")
    async def pause(schedule_id: str, body: Pause, _: MaySubmit) -> Json:
        await agenda.pause(schedule_id, paused=body.paused)
        return await reading.schedule(schedule_id)

    @routes.delete("/{schedule_id}", status_code=204)
    async def remove(schedule_id: str, _: MaySubmit) -> None:
        await agenda.remove(schedule_id)

    return routes


def _wanted(schedule_id: str, body: ScheduleBody, by: str) -> WantedSchedule:
    return WantedSchedule(
        id=schedule_id,
        cron=body.cron,
        time_zone=body.time_zone,
        missed=body.missed,
        overlap=body.overlap,
        paused=body.paused,
        run=WantedRun(**body.run.model_dump()),
        by=by,
    )
