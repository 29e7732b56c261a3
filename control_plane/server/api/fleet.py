"""The fleet: pods, queues, health, numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from control_plane.access.auth import Principal, require
from control_plane.server.api.contract.answers import Items
from control_plane.server.api.contract.struct_routes import StructRoute
from control_plane.server.api.runs import MayRead, Page
from control_plane.server.deps import Deps
from control_plane.server.metrics import exposition
from control_plane.store import database, schema
from control_plane.store.pods import HOURS_MAX
from events.answers.answer import Listing
from events.answers.attempts import PodAttempt
from events.answers.pods import Pod, Sample
from events.runtime.errors import PodfleetError

Json = dict[str, Any]
MaySteer = Annotated[Principal, Depends(require("admin"))]
Hours = Annotated[int, Query(ge=1, le=HOURS_MAX)]


class PodFilters(Page):
    """Which pods a list holds."""

    region: str | None = None


def router(deps: Deps) -> APIRouter:
    """Return the routes of the fleet, each of which needs a principal."""
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

    @routes.post("/api/pods/{pod_id:path}/drain")
    async def drain(pod_id: str, _: MaySteer) -> Pod:
        return await deps.reading.drain(pod_id)

    @routes.get("/api/queue")
    async def queue(_: MayRead) -> Items:
        overview = await deps.reading.overview()
        return {"items": overview["queue"], "next": None, "statuses": overview["statuses"]}

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics(_: MayRead) -> Response:
        overview, numbers = await asyncio.gather(deps.reading.overview(), deps.accounts.now())
        return Response(exposition(overview, numbers), media_type=CONTENT_TYPE_LATEST)

    return routes


async def _state(check: Awaitable[None]) -> str:
    try:
        await check
    except PodfleetError as error:
        return error.code
    return "ok"


def health(deps: Deps) -> APIRouter:
    """Return the two routes that anybody may ask."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> Json:
        return {"status": "alive"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        names = ("mongodb", "indexes", "storage")
        checks = (database.ping(deps.db), schema.verify(deps.db), deps.blobs.ping())
        states = await asyncio.gather(*map(_state, checks))
        found = dict(zip(names, states, strict=True))
        ready = set(found.values()) == {"ok"}
        return JSONResponse(found, 200 if ready else 503)

    return routes
