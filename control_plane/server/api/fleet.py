"""The fleet: pods, queues, health, numbers."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from control_plane.access.auth import Principal, require
from control_plane.access.scrapers import Scrapers
from control_plane.reads.ledger.export import MEDIA_TYPES, WRITERS, LedgerFormat
from control_plane.reads.ledger.reader import ROWS, ROWS_MAX, By, Ledgers
from control_plane.runs.explainer import behind
from control_plane.runs.pods.looks import PodLooks
from control_plane.runs.pods.resets import PodResets
from control_plane.runs.pods.steering import PodSteering
from control_plane.server.api.contract.bodies import Moment, NewCordon, NewReset
from control_plane.server.api.contract.struct_routes import Routes
from control_plane.server.api.runs import MayRead, OfProject, Page
from control_plane.server.deps import Deps
from control_plane.server.metrics import Fleet, exposition
from control_plane.server.readiness import OK
from control_plane.store.pods import HOURS_MAX
from events.answers.answer import Listing
from events.answers.attempts import PodAttempt
from events.answers.fleet import Health, Ledger, Queue, Readiness
from events.answers.pods import Pod, PodStanding, Sample
from events.runtime.errors import Transient

MaySteer = Annotated[Principal, Depends(require("admin"))]
FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "content": {each: {"schema": {"type": "string"}} for each in MEDIA_TYPES.values()},
        "description": "The rows as a file",
    }
}
# Longer takes no scraper; the numbers of this process are told anyhow.
FLEET_S: Final = 8.0
# Whether the pod shall report every second for the next half minute.
Live = Annotated[bool, Query()]
Hours = Annotated[int, Query(ge=1, le=HOURS_MAX)]


class PodFilters(Page):
    """The filters of pods."""

    region: str | None = None
    live: bool = False  # without those that have ended, or fallen silent


class LedgerWanted(BaseModel):
    """The window of a ledger, by default the last seven days, and what each row is of."""

    by: By = "day"
    since: Annotated[Moment | None, Field(alias="from")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None


class LedgerPage(LedgerWanted):
    """The rows that took the most GPU time; by day, the newest."""

    limit: Annotated[int, Field(ge=1, le=ROWS_MAX)] = ROWS


class LedgerFile(LedgerWanted):
    """The rows as a file."""

    format: LedgerFormat = "csv"


def router(deps: Deps) -> APIRouter:
    """Return the routes of the fleet, which all need a principal."""
    routes = Routes(tags=["fleet"])
    scrapers = Scrapers(deps.clock, deps.dependencies.mongodb)

    @routes.get("/api/pods")
    async def pods(_: MayRead, wanted: Annotated[PodFilters, Query()]) -> Listing[Pod]:
        return await deps.reading.pods(
            wanted.limit, wanted.after, live_only=wanted.live, region=wanted.region
        )

    @routes.get("/api/pods/{pod_id:path}/telemetry")
    async def telemetry(pod_id: str, _: MayRead, hours: Hours = 1, live: Live = False) -> Listing[Sample]:
        if live:
            await deps.pod_looks.look([pod_id])
        return Listing(items=await deps.reading.telemetry(pod_id, hours), next=None)

    @routes.get("/api/pods/{pod_id:path}/attempts")
    async def attempts(pod_id: str, _: MayRead, wanted: Annotated[Page, Query()]) -> Listing[PodAttempt]:
        return await deps.reading.attempts_of_pod(pod_id, wanted.limit, wanted.after)

    @routes.get("/api/pods/{pod_id:path}")
    async def pod(pod_id: str, _: MayRead) -> Pod:
        return await deps.reading.pod(pod_id)

    _add_ledger(routes, deps.ledgers)
    _add_orders(routes, deps.pod_steering, deps.pod_resets, deps.pod_looks)

    @routes.get("/api/queue")
    async def queue(_: MayRead, project: OfProject = None) -> Queue:
        overview, waiting = await asyncio.gather(deps.reading.overview(), behind(deps.reading, project))
        items = [each for each in overview.queue if project in (None, each.project)]
        return Queue(items=items, next=None, statuses=dict(overview.statuses), behind=waiting)

    @routes.get("/metrics", response_class=PlainTextResponse, dependencies=[Depends(scrapers.require)])
    async def metrics() -> Response:
        states = await deps.dependencies.look()
        fleet = await _fleet(deps) if states.mongodb == OK else None
        text = exposition(states.by_name, deps.timekeeper.offsets(), fleet)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return routes


def _add_ledger(routes: APIRouter, ledgers: Ledgers) -> None:
    @routes.get("/api/ledger")
    async def ledger(_: MayRead, wanted: Annotated[LedgerPage, Query()]) -> Ledger:
        """Return what pods spent their time on; `by` says what each row is of."""
        return await ledgers.read(wanted.by, wanted.since, wanted.until, wanted.limit)

    @routes.get("/api/ledger/export", response_class=Response, responses=FILE)
    async def export(_: MayRead, wanted: Annotated[LedgerFile, Query()]) -> Response:
        """Return the rows as a file, its times in seconds."""
        found = await ledgers.read(wanted.by, wanted.since, wanted.until, ROWS_MAX)
        content = await asyncio.to_thread(WRITERS[wanted.format], found.items)
        headers = {"Content-Disposition": f'attachment; filename="ledger-{wanted.by}.{wanted.format}"'}
        return Response(content, media_type=MEDIA_TYPES[wanted.format], headers=headers)


def _add_orders(routes: APIRouter, steering: PodSteering, resets: PodResets, looks: PodLooks) -> None:
    @routes.post("/api/pods/{pod_id:path}/drain")
    async def drain(pod_id: str, principal: MaySteer) -> Pod:
        return await steering.drain(pod_id, by=principal.name)

    @routes.post("/api/pods/{pod_id:path}/restart")
    async def restart(pod_id: str, _: MaySteer) -> Pod:
        """Have the worker leave after its run, to be started again by whoever started it."""
        await looks.look([pod_id])  # so that the end of its run is told soon
        return await steering.restart(pod_id)

    @routes.post("/api/pods/{pod_id:path}/undrain")
    async def undrain(pod_id: str, _: MaySteer) -> Pod:
        return await steering.undrain(pod_id)

    @routes.post("/api/pods/{pod_id:path}/resets")
    async def reset(pod_id: str, body: NewReset, principal: MaySteer) -> Pod:
        await looks.look([pod_id])  # so that it hears soon, and its outcome is told soon
        return await resets.order(pod_id, body.service, by=principal.name, force=body.force)

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


async def _fleet(deps: Deps) -> Fleet | None:
    """Return the fleet's numbers, None where the store does not answer."""
    try:
        async with asyncio.timeout(FLEET_S):
            found = await asyncio.gather(
                deps.reading.overview(),
                deps.accounts.now(),
                deps.accounts.shortage(),
                deps.reading.failing_checks(),
                deps.reading.worst_pod_clock_s(),
            )
    except (TimeoutError, Transient):
        return None
    return Fleet(*found)


def health(deps: Deps) -> APIRouter:
    """Return the two routes that need no key."""
    routes = Routes(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> Health:
        return Health(status="alive")

    @routes.get("/readyz", responses={503: {"description": "API, ingest and claims do not work"}})
    async def readyz(response: Response) -> Readiness:
        states = await deps.dependencies.look()
        if not states.is_ready:
            response.status_code = 503
        return Readiness(**states.by_name, works=states.works)

    return routes
