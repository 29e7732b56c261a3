"""The fleet: pods, queues, health, numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from control_plane.access.auth import Principal, require
from control_plane.runs.pod_steering import PodSteering
from control_plane.server.api.contract.bodies import NewCordon
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.deps import Deps
from control_plane.server.metrics import exposition, tell_clocks
from control_plane.store import database, schema
from control_plane.store.pods import HOURS_MAX
from events.answers.answer import Listing
from events.answers.attempts import PodAttempt
from events.answers.fleet import Health, Queue, Readiness
from events.answers.pods import Pod, PodStanding, Sample
from events.runtime.errors import PodfleetError

MaySteer = Annotated[Principal, Depends(require("admin"))]
Hours = Annotated[int, Query(ge=1, le=HOURS_MAX)]


class PodFilters(Page):
    """The filters of pods."""

    region: str | None = None


def router(deps: Deps) -> APIRouter:
    """Return the routes of the fleet, which all need a principal."""
    routes = APIRouter(tags=["fleet"], route_class=StructRoute)

    @routes.get("/api/pods")
    async def pods(_: MayRead, wanted: Annotated[PodFilters, Query()]) -> Listing[Pod]:
        return await deps.reading.pods(wanted.limit, wanted.after, region=wanted.region)

    @routes.get("/api/pods/{pod_id:path}/telemetry")
    async def telemetry(pod_id: str, _: MayRead, hours: Hours = 1) -> Listing[Sample]:
        return Listing(items=await deps.reading.telemetry(pod_id, hours), next=None)

    @routes.get("/api/pods/{pod_id:path}/attempts")
    async def attempts(pod_id: str, _: MayRead, wanted: Annotated[Page, Query()]) -> Listing[PodAttempt]:
        return await deps.reading.attempts_of_pod(pod_id, wanted.limit, wanted.after)

    @routes.get("/api/pods/{pod_id:path}")
    async def pod(pod_id: str, _: MayRead) -> Pod:
        return await deps.reading.pod(pod_id)

    _add_orders(routes, deps.pod_steering)

    @routes.get("/api/queue")
    async def queue(_: MayRead) -> Queue:
        overview = await deps.reading.overview()
        return Queue(items=list(overview.queue), next=None, statuses=dict(overview.statuses))

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics(_: MayRead) -> Response:
        reading = deps.reading
        overview, numbers, failing, worst_s = await asyncio.gather(
            reading.overview(), deps.accounts.now(), reading.failing_checks(), reading.worst_pod_clock_s()
        )
        tell_clocks(deps.timekeeper.offsets(), worst_s)
        return Response(exposition(overview, numbers, failing), media_type=CONTENT_TYPE_LATEST)

    return routes


def _add_orders(routes: APIRouter, steering: PodSteering) -> None:
    @routes.post("/api/pods/{pod_id:path}/drain")
    async def drain(pod_id: str, principal: MaySteer) -> Pod:
        return await steering.drain(pod_id, by=principal.name)

    @routes.post("/api/pods/{pod_id:path}/undrain")
    async def undrain(pod_id: str, _: MaySteer) -> Pod:
        return await steering.undrain(pod_id)

    @routes.post("/api/pods/{pod_id:path}/cordon")
    async def cordon(pod_id: str, body: NewCordon, principal: MaySteer) -> PodStanding:
        return await steering.cordon(
            pod_id, body.reason, by=principal.name, until=body.until, for_s=body.for_s
        )

    @routes.post("/api/pods/{pod_id:path}/uncordon")
    async def uncordon(pod_id: str, _: MaySteer) -> PodStanding:
        return await steering.uncordon(pod_id)

    @routes.post("/api/pods/{pod_id:path}/release")
    async def release(pod_id: str, principal: MaySteer) -> PodStanding:
        return await steering.release(pod_id, by=principal.name)


async def _state(check: Awaitable[None]) -> str:
    try:
        await check
    except PodfleetError as error:
        return error.code
    return "ok"


def health(deps: Deps) -> APIRouter:
    """Return the two routes that need no key."""
    routes = APIRouter(tags=["health"], route_class=StructRoute)

    @routes.get("/healthz")
    async def healthz() -> Health:
        return Health(status="alive")

    @routes.get("/readyz", responses={503: {"description": "It lacks something that it needs"}})
    async def readyz(response: Response) -> Readiness:
        checks = (database.ping(deps.db), schema.verify(deps.db), deps.blobs.ping())
        mongodb, indexes, storage = await asyncio.gather(*map(_state, checks))
        if {mongodb, indexes, storage} != {"ok"}:
            response.status_code = 503
        return Readiness(mongodb=mongodb, indexes=indexes, storage=storage)

    return routes
